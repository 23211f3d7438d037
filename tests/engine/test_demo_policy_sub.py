"""The demo as sub-agent, request by request: what it reads, and what it refuses to count."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from easyagent.demo.policy import decide
from easyagent.openai_server import ToolCallReply

TOOLS = ("read_file", "list_files", "write_file", "search_code", "run_command", "finish_task")
TASK = "Summarise data/a.csv"
WHOLE = "[data/a.csv: lines 1-3 of 3, 20 bytes]\nname,size\nx,1.5\ny,\n"
DIRECTORY = "sub_agent_results/agent_7"


class SubAgent:
    """One sub-agent's messages; `step` asks the policy, `answer` gives the tools' results."""

    def __init__(self, task: str, *, language: str = "en", tools: tuple[str, ...] = TOOLS) -> None:
        self.tools = tools
        first = (files("easyagent") / "prompts" / language / "first_message.md").read_text("utf-8")
        text = first.format(agent_id=7, summary="Count", task=task, deliverables_dir=DIRECTORY, timeout_seconds=600)
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": text}]

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def step(self) -> tuple[ToolCallReply, ...]:
        offered = [{"type": "function", "function": {"name": name}} for name in self.tools]
        return decide({"messages": self.messages, "tools": offered}).tool_calls

    def answer(self, *results: str) -> None:
        calls = self.step()
        ids = [f"c{len(self.messages)}_{index}" for index in range(len(calls))]
        made = [
            {"id": i, "type": "function", "function": {"name": c.name, "arguments": c.arguments_json}}
            for i, c in zip(ids, calls, strict=True)
        ]
        self.messages.append({"role": "assistant", "tool_calls": made})
        for call_id, result in zip(ids, results, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": result})

    def only(self) -> tuple[str, dict[str, Any]]:
        (call,) = self.step()
        return call.name, json.loads(call.arguments_json)

    def finish(self) -> dict[str, Any]:
        name, arguments = self.only()
        assert name == "finish_task"
        return arguments


def test_read_write_finish_in_that_order() -> None:
    agent = SubAgent(TASK)
    assert agent.only() == ("read_file", {"path": "data/a.csv"})
    agent.answer(WHOLE)
    name, written = agent.only()
    assert (name, written["path"]) == ("write_file", f"{DIRECTORY}/report.md")
    assert "| size | 1 | 1 | 1.5 | 1.5 | 1.5 |  |" in written["content"]
    agent.answer(f"Wrote {DIRECTORY}/report.md (9 bytes).")
    done = agent.finish()
    assert done["success"] is True and "rows 2, columns 2, missing values 1" in done["summary"]
    assert done["summary"].endswith(f"Report: {DIRECTORY}/report.md")


def test_the_next_page_is_asked_for_where_the_last_one_really_ended() -> None:
    agent = SubAgent(TASK)
    agent.answer(
        "[data/a.csv: lines 1-2 of 3, 20 bytes]\nname,size\nx,1.5\n"
        '[1 more lines: read_file(path="data/a.csv", offset=3)]'
    )
    assert agent.only() == ("read_file", {"path": "data/a.csv", "offset": 3})
    agent.answer("[data/a.csv: lines 3-3 of 3, 20 bytes]\ny,")
    assert "- Rows (without the header): 2" in agent.only()[1]["content"]


def page(first: int, last: int, total: int, size: int) -> str:
    """Lines `first` to `last` of a table of `total` lines, as read_file returns them."""
    lines = ["n,twice", *(f"{number},{2 * number}" for number in range(2, total + 1))][first - 1 : last]
    more = [f'[{total - last} more lines: read_file(path="data/a.csv", offset={last + 1})]'] if last < total else []
    return "\n".join([f"[data/a.csv: lines {first}-{last} of {total}, {size} bytes]", *lines, *more])


def test_after_the_first_page_many_are_asked_for_at_a_time() -> None:
    agent = SubAgent(TASK)
    agent.answer(page(1, 2000, 7001, 60_000))
    asked = [json.loads(call.arguments_json) for call in agent.step()]
    assert [(call["offset"], call.get("limit")) for call in asked] == [(2001, 2000), (4001, 2000), (6001, None)]
    agent.answer(page(2001, 4000, 7001, 60_000), page(4001, 5500, 7001, 60_000), page(6001, 7001, 7001, 60_000))
    asked = [json.loads(call.arguments_json) for call in agent.step()]
    assert asked == [{"path": "data/a.csv", "offset": 5501, "limit": 500}], "the gap that a short page left"
    agent.answer(page(5501, 6000, 7001, 60_000))
    assert "- Rows (without the header): 7000" in agent.only()[1]["content"]


def test_a_reply_asks_for_no_more_pages_than_it_should() -> None:
    agent = SubAgent(TASK)
    agent.answer(page(1, 100, 40_001, 500_000))
    asked = [json.loads(call.arguments_json) for call in agent.step()]
    assert len(asked) == 64 and asked[1] == {"path": "data/a.csv", "offset": 191, "limit": 90}


def test_what_was_read_of_a_long_file_is_reported_as_a_part() -> None:
    agent = SubAgent("Summarise data/a.csv and b.json")
    agent.answer(page(1, 500, 40_001, 500_000))
    agent.say((files("easyagent") / "prompts" / "en" / "wrap_up.md").read_text("utf-8").strip())
    name, written = agent.only()
    assert (name, written["path"]) == ("write_file", f"{DIRECTORY}/report.md")
    assert "**Incomplete: only the first 500 of 40001 lines were read" in written["content"]
    assert "- Rows (without the header): 499" in written["content"]
    agent.answer("Wrote it.")
    done = agent.finish()
    assert done["success"] is False and "before all was read" in done["summary"]
    assert "data/a.csv, only lines 1-500 of 40001 (rows 499" in done["summary"]


def test_pages_of_a_file_that_changed_do_not_join() -> None:
    agent = SubAgent(TASK)
    agent.answer(page(1, 2000, 4000, 60_000))
    agent.answer(page(2001, 3999, 3999, 60_000))
    agent.answer("Wrote it.")
    assert "do not join" in agent.finish()["summary"] and agent.finish()["success"] is False


def test_an_empty_file_has_no_rows() -> None:
    agent = SubAgent(TASK)
    agent.answer("[data/a.csv: empty file]")
    assert "- Rows (without the header): 0" in agent.only()[1]["content"]


def test_a_line_that_looks_like_the_tool_s_own_is_counted_as_content() -> None:
    agent = SubAgent("Count notes.txt")
    agent.answer("[notes.txt: lines 1-2 of 2, 40 bytes]\n[9 more lines: read_file(offset=3)]\nend")
    assert "- Lines: 2 (empty: 0)" in agent.only()[1]["content"]


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("Error: data/a.csv does not exist", "data/a.csv: data/a.csv does not exist"),
        ("Interrupted by the user.", "data/a.csv: Interrupted by the user."),
        ("", "data/a.csv: the tool gave no result"),
        ("[data/a.csv: lines 1-1 of 1, 20 bytes]\nname [line cut: 9 more characters]", "a line of it is too long"),
        ("[data/a.csv: lines 1-3 of 3, 20 bytes]\nname,size\n[result cut]", "did not arrive whole"),
        ("[data/a.csv: lines 1-3 of 3, 20 bytes]\nname,size\nx,1\ny,2\n[and more]", "did not arrive whole"),
        ("[data/a.csv: lines 1-3 of 3, 900 bytes]\nname,size\nx,1.5\ny,", "shorter than the file"),
        ("[data/a.csv: lines 2-3 of 3, 20 bytes]\nx,1.5\ny,", "do not join"),
    ],
)
def test_what_did_not_arrive_whole_is_told_and_not_counted(result: str, said: str) -> None:
    agent = SubAgent(TASK)
    agent.answer(result)
    name, written = agent.only()
    assert name == "write_file" and "not counted: " in written["content"] and "Rows" not in written["content"]
    agent.answer("Wrote it (9 bytes).")
    done = agent.finish()
    assert done["success"] is False and said in done["summary"]


def test_one_bad_file_of_two_fails_the_task_but_the_other_is_reported() -> None:
    agent = SubAgent("Summarise data/a.csv and data/b.json")
    agent.answer(WHOLE)
    agent.answer('[data/b.json: lines 1-1 of 1, 9 bytes]\n{"a": 1,,')
    paths = [json.loads(call.arguments_json)["path"] for call in agent.step()]
    assert paths == [f"{DIRECTORY}/{name}" for name in ("a.md", "b.md", "report.md")]
    agent.answer("Wrote a.", "Wrote b.", "Wrote report.")
    done = agent.finish()
    assert done["success"] is False and "data/b.json: it is not valid JSON" in done["summary"]
    assert "data/a.csv (rows 2" in done["summary"] and len(done["summary"]) <= 300


@pytest.mark.parametrize(
    ("task", "language"),
    [("Write a poem about rain", "en"), ("写一首关于雨的诗", "zh"), ("Delete data/a.csv", "en")],
)
def test_a_task_that_is_not_covered_fails_at_once(task: str, language: str) -> None:
    done = SubAgent(task, language=language).finish()
    words = "I am a demo model and did not understand" if language == "en" else "我是演示模型，没有理解"
    assert done["success"] is False and words in done["summary"] and task in done["summary"]


def test_a_task_that_is_covered_in_part_is_not_called_done() -> None:
    agent = SubAgent("Summarise data/a.csv and plot the sizes")
    agent.answer(WHOLE)
    agent.answer("Wrote it.")
    done = agent.finish()
    assert done["success"] is False and "my rules do not cover: plot" in done["summary"]
    assert "rows 2" in done["summary"]


def test_a_failed_write_fails_the_task() -> None:
    agent = SubAgent(TASK)
    agent.answer(WHOLE)
    agent.answer("Error: the disk is full")
    assert "the disk is full" in agent.finish()["summary"] and agent.finish()["success"] is False


def test_its_own_deliverables_are_no_data() -> None:
    agent = SubAgent("Summarise **/*.md")
    agent.answer(f"[.: 2 entries]\n{DIRECTORY}/report.md\t9 bytes\nb.md\t9 bytes")
    assert agent.only() == ("read_file", {"path": "b.md"})


def test_same_stems_get_reports_of_their_own() -> None:
    agent = SubAgent("Summarise x/a.csv, y/a.csv, a.md and report.txt")
    for path in ("x/a.csv", "y/a.csv", "a.md", "report.txt"):
        agent.answer(f"[{path}: lines 1-1 of 1, 2 bytes]\na")
    names = [json.loads(call.arguments_json)["path"].rpartition("/")[2] for call in agent.step()]
    assert names == ["a.md", "a-csv.md", "a-md.md", "report-txt.md", "report.md"]


def test_a_reminder_changes_nothing_and_an_instruction_adds_its_files() -> None:
    agent = SubAgent(TASK)
    agent.answer(WHOLE)
    before = agent.step()
    agent.say((files("easyagent") / "prompts" / "en" / "reminder.md").read_text("utf-8").strip())
    assert agent.step() == before
    agent.say("(Additional instruction, takes precedence)\nAlso count b.txt")
    assert agent.only() == ("read_file", {"path": "b.txt"})


def test_an_instruction_that_is_not_covered_is_told() -> None:
    agent = SubAgent(TASK)
    agent.say("(Additional instruction, takes precedence)\nSing it")
    agent.answer(WHOLE)
    agent.answer("Wrote it.")
    done = agent.finish()
    assert done["success"] is False and "did not understand the additional instruction “Sing it”" in done["summary"]


def test_told_to_finish_it_reports_what_is_whole_and_fails() -> None:
    agent = SubAgent("Summarise data/a.csv and b.csv")
    agent.answer(WHOLE)
    agent.say((files("easyagent") / "prompts" / "en" / "wrap_up.md").read_text("utf-8").strip())
    assert agent.only()[1]["path"] == f"{DIRECTORY}/report.md"
    agent.tools = ("finish_task",)
    done = agent.finish()
    assert (
        done["success"] is False
        and "before all was read" in done["summary"]
        and "without the header): 2" in done["report"]
    )


def test_a_missing_tool_is_named() -> None:
    done = SubAgent(TASK, tools=("list_files", "write_file", "finish_task")).finish()
    assert done["success"] is False and "read_file" in done["summary"]


def test_a_summary_shows_each_figure_whole_or_not_at_all() -> None:
    names = [f"data/table_number_{number}.csv" for number in range(6)]
    agent = SubAgent("Summarise " + ", ".join(names))
    for name in names:
        agent.answer(WHOLE.replace("data/a.csv", name))
    agent.answer(*["Wrote it."] * 7)
    summary = agent.finish()["summary"]
    assert len(summary) <= 200 and summary.count("(rows 2, columns 2, missing values 1)") == summary.count("rows")
    assert "more in the report" in summary


def test_a_command_runs_only_where_the_tool_is_offered() -> None:
    agent = SubAgent("Run the command `wc -l data/a.csv`")
    assert agent.only() == ("run_command", {"command": "wc -l data/a.csv"})
    agent.answer("97 data/a.csv")
    assert "\n97 data/a.csv\n" in agent.only()[1]["content"]
    agent.answer("Wrote it.")
    assert agent.finish()["success"] is True and "ran `wc -l data/a.csv`" in agent.finish()["summary"]
    refused = SubAgent("Run the command `wc -l data/a.csv`")
    refused.answer("Error: commands are not allowed")
    assert "commands are not allowed" in refused.finish()["summary"] and not refused.finish()["success"]
    without = SubAgent("Run the command `ls`", tools=("read_file", "write_file", "finish_task")).finish()
    assert without["success"] is False and "run_command" in without["summary"]


def test_without_write_file_the_report_goes_to_finish_task() -> None:
    agent = SubAgent(TASK, tools=("read_file", "finish_task"))
    agent.answer(WHOLE)
    done = agent.finish()
    assert done["success"] is True and "- Rows (without the header): 2" in done["report"]
