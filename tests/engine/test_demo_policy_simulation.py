"""The demo's main agent and sub-agents drive each other over small real tools on a real folder."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from easyagent.demo import DEMO_MODEL_ID
from easyagent.demo.policy import decide

DATA = Path(__file__).parents[2] / "notebooks" / "data"
MAIN_TOOLS = ("create_sub_agent", "terminate_sub_agent", "list_files", "read_file", "write_file")
SUB_TOOLS = ("list_files", "read_file", "write_file", "search_code", "finish_task")


def template(language: str, name: str, **values: object) -> str:
    return (files("easyagent") / "prompts" / language / name).read_text("utf-8").format(**values).rstrip("\n")


def request(messages: list[dict[str, Any]], tools: Iterable[str]) -> dict[str, Any]:
    offered = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in tools]
    return {"model": DEMO_MODEL_ID, "messages": messages, "tools": offered}


class Workspace:
    """The file tools, in the formats that the real ones promise; `page_bytes` is a page's size budget."""

    def __init__(self, folder: Path, page_bytes: int = 100_000) -> None:
        self.folder, self.page_bytes = folder, page_bytes

    def call(self, name: str, arguments: dict[str, Any]) -> str:
        try:
            return str(getattr(self, name)(**arguments))
        except (OSError, UnicodeDecodeError) as error:
            return f"Error: {error}"

    def list_files(self, path: str = ".", pattern: str | None = None) -> str:
        base = self.folder / path
        if not base.is_dir():
            return f"Error: there is no folder {path}"
        found = sorted(base.glob(pattern) if pattern else base.iterdir())
        names = [p.relative_to(self.folder).as_posix() for p in found if p.is_file()]
        lines = [f"{name}\t{(self.folder / name).stat().st_size} bytes" for name in names]
        return "\n".join([f"[{path}: {len(lines)} entries]", *lines])

    def read_file(self, path: str, offset: int = 1, limit: int = 2000) -> str:
        content = (self.folder / path).read_bytes()
        lines = content.decode("utf-8").removesuffix("\n").split("\n") if content else []
        part: list[str] = []
        for line in lines[offset - 1 : offset - 1 + limit]:
            if part and sum(len(p.encode()) + 1 for p in part) + len(line.encode()) > self.page_bytes:
                break
            part.append(line)
        last, total = offset - 1 + len(part), len(lines)
        head = f"[{path}: lines {offset}-{last} of {total}, {len(content)} bytes]"
        more = [f'[{total - last} more lines: read_file(path="{path}", offset={last + 1})]'] if last < total else []
        return "\n".join([head, *part, *more])

    def write_file(self, path: str, content: str) -> str:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, "utf-8")
        return f"Wrote {path} ({len(content.encode())} bytes)."

    def search_code(self, query: str, path: str = ".") -> str:
        hits = [p for p in sorted((self.folder / path).rglob("*")) if p.is_file() and query in p.read_text("utf-8")]
        return "\n".join(str(p.relative_to(self.folder)) for p in hits) or "No matches."


class Conversation:
    """A main agent whose sub-agents run, one after the other, while it is idle."""

    def __init__(self, workspace: Workspace, language: str = "en", sub_tools: Iterable[str] = SUB_TOOLS) -> None:
        self.workspace, self.language = workspace, language
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": "You are the main agent."}]
        self.waiting: list[dict[str, Any]] = []
        self.ended: dict[int, dict[str, Any]] = {}
        self.most_at_once = 0

    def ask(self, prompt: str) -> str:
        self.messages.append({"role": "user", "content": prompt})
        return self._turns()

    def next_end(self, position: int = 0) -> str:
        """Run one waiting sub-agent to its end and tell the main agent; its answer."""
        job = self.waiting.pop(position)
        finish = self.run_sub_agent(job)
        self.ended[job["agent_id"]] = finish
        text = template(self.language, "notice_user.md", result_summary=finish["summary"], **job)
        if not finish["success"]:
            text = text.replace("has completed its task.", "has failed.").replace("已完成任务。", "已失败。")
        self.messages.append({"role": "user", "content": text})
        return self._turns()

    def finish_all(self) -> str:
        text = ""
        while self.waiting:
            text = self.next_end()
        return text

    def _turns(self) -> str:
        for _ in range(20):
            reply = decide(request(self.messages, MAIN_TOOLS))
            if not reply.tool_calls:
                assert reply.content is not None
                self.messages.append({"role": "assistant", "content": reply.content})
                return reply.content
            _append_calls(self.messages, reply.tool_calls, self._main_tool)
        raise AssertionError("the main agent does not come to an end")

    def _main_tool(self, name: str, arguments: dict[str, Any]) -> str:
        if name != "create_sub_agent":
            return self.workspace.call(name, arguments)
        job = dict(arguments, deliverables_dir=f"sub_agent_results/agent_{arguments['agent_id']}")
        self.waiting.append(job)
        self.most_at_once = max(self.most_at_once, len(self.waiting))
        answer = {"success": True, "status": "running", "background": True, **job}
        return json.dumps(answer, ensure_ascii=False)

    def run_sub_agent(self, job: dict[str, Any]) -> dict[str, Any]:
        first = template(self.language, "first_message.md", **job)
        messages = [{"role": "system", "content": "You are a sub-agent."}, {"role": "user", "content": first}]
        for _ in range(100):
            reply = decide(request(messages, SUB_TOOLS))
            assert {call.name for call in reply.tool_calls} <= set(SUB_TOOLS) and reply.tool_calls
            finish = next((call for call in reply.tool_calls if call.name == "finish_task"), None)
            if finish is not None:
                assert isinstance(finish.arguments, dict)
                return finish.arguments
            _append_calls(messages, reply.tool_calls, self.workspace.call)
        raise AssertionError("the sub-agent does not come to an end")


def _append_calls(messages: list[dict[str, Any]], calls: Any, tool: Callable[[str, dict[str, Any]], str]) -> None:
    ids = [f"call_{len(messages)}_{index}" for index in range(len(calls))]
    functions = [{"name": call.name, "arguments": call.arguments_json} for call in calls]
    made = [{"id": i, "type": "function", "function": f} for i, f in zip(ids, functions, strict=True)]
    messages.append({"role": "assistant", "content": None, "tool_calls": made})
    for call_id, call in zip(ids, calls, strict=True):
        result = tool(call.name, json.loads(call.arguments_json))
        messages.append({"role": "tool", "tool_call_id": call_id, "content": result})


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    shutil.copytree(DATA, tmp_path / "data", ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return Workspace(tmp_path)


def rows_of(text: str) -> list[list[str]]:
    """The cells of the Markdown tables in a text, without heads and rules."""
    lines = [line for line in text.split("\n") if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_a_glob_becomes_one_sub_agent_a_file_and_ends_with_a_table(workspace: Workspace) -> None:
    talk = Conversation(workspace)
    started = talk.ask("Summarise data/*.csv")
    assert "not a language model" in started and [job["agent_id"] for job in talk.waiting] == [1, 2]
    assert all(job["run_in_background"] is True for job in talk.waiting)
    assert "1 of 2 have come back: sub-agent 1" in talk.next_end()
    table = rows_of(talk.next_end())[1:]
    assert [(row[0], row[2], row[4]) for row in table] == [
        ("1", "completed", "sub_agent_results/agent_1"),
        ("2", "completed", "sub_agent_results/agent_2"),
    ]
    # The figures in the table are the file's own, counted here by other means.
    plots = list(csv.DictReader((DATA / "plots.csv").read_text("utf-8").splitlines()))
    empty = sum(not value for row in plots for value in row.values())
    assert f"data/plots.csv (rows {len(plots)}, columns {len(plots[0])}, missing values {empty})" in table[0][3]
    assert (len(plots), empty) == (96, 4)
    report = (workspace.folder / "sub_agent_results/agent_1/report.md").read_text("utf-8")
    column = next(row for row in rows_of(report) if row[0] == "yield_t_ha")
    yields = [float(row["yield_t_ha"]) for row in plots if row["yield_t_ha"]]
    assert [float(column[3]), float(column[5])] == [min(yields), max(yields)]
    assert float(column[4]) == pytest.approx(sum(yields) / len(yields), abs=1e-5)
    assert column[1] == "4" and "not a language model" in report


def test_six_files_are_shared_by_five_sub_agents_and_all_are_reported(workspace: Workspace) -> None:
    talk = Conversation(workspace)
    started = talk.ask("Please analyse the data files in this folder.")
    assert len(talk.waiting) == 5 and "These are 6 files" in started
    assert "All have come back: 5 of 5 completed" in talk.finish_all()
    reports = "".join(path.read_text("utf-8") for path in workspace.folder.glob("sub_agent_results/*/*.md"))
    assert {p.name for p in DATA.iterdir() if p.suffix in (".csv", ".tsv", ".md", ".txt")} == set(
        re.findall(r"# Report on `data/(.+?)`", reports)
    )


def test_pages_are_read_to_the_end_and_the_numbers_do_not_depend_on_them(workspace: Workspace) -> None:
    whole = Conversation(workspace)
    whole.ask("Summarise `data/plots.csv`")
    whole.finish_all()
    report = workspace.folder / "sub_agent_results/agent_1/report.md"
    in_one = report.read_text("utf-8")
    paged = Conversation(Workspace(workspace.folder, page_bytes=700))
    paged.ask("Summarise `data/plots.csv`")
    paged.finish_all()
    in_pages = report.read_text("utf-8")
    [calls] = re.findall(r"calls (\d+)", in_pages)
    assert "calls 1," in in_one and int(calls) > 5
    assert in_pages.replace(f"calls {calls},", "calls 1,") == in_one


def test_a_long_table_takes_few_replies(workspace: Workspace) -> None:
    rows = "\n".join(f"{number},{'x' * (number % 31)}" for number in range(40_000))
    (workspace.folder / "long.csv").write_text(f"n,text\n{rows}\n")
    talk = Conversation(Workspace(workspace.folder, page_bytes=20_000))
    talk.ask("Summarise `long.csv`")
    talk.finish_all()
    report = (workspace.folder / "sub_agent_results/agent_1/report.md").read_text("utf-8")
    assert "- Rows (without the header): 40000" in report
    assert int(re.findall(r"calls (\d+)", report)[0]) > 20, "more pages than a sub-agent has turns"


def test_a_chinese_conversation_is_chinese_throughout(workspace: Workspace) -> None:
    talk = Conversation(workspace, "zh")
    started = talk.ask("请汇总 data 目录中的表格和笔记。")
    assert "不是语言模型" in started and len(talk.waiting) == 5
    assert "5 个子智能体中已有 1 个返回：3" in talk.next_end(2)
    closing = talk.finish_all()
    assert "全部 5 个子智能体都已返回，其中 5 个完成了任务" in closing
    assert "data/plots.csv（96 行，8 列，4 个缺失值）" in closing
    diary = (workspace.folder / "data/field_diary_zh.md").read_text("utf-8")
    reports = [p.read_text("utf-8") for p in sorted(workspace.folder.glob("sub_agent_results/*/*.md"))]
    report = next(text for text in reports if text.startswith("# `data/field_diary_zh.md`"))
    assert f"- 行数：{len(diary.splitlines())}（" in report and "- 标题：5" in report
    assert f"- 氮肥: {diary.count('氮肥')}" in report and diary.count("氮肥") > 2


def test_more_items_than_slots_start_as_others_come_back(workspace: Workspace) -> None:
    talk = Conversation(workspace)
    names = ["plots.csv", "stations.csv", "trees.tsv", "field_notes_north.md", "field_notes_south.txt"]
    items = [f"{number}. Count data/{name}" for number, name in enumerate([*names, "plots.csv", "trees.tsv"], 1)]
    started = talk.ask("Do these:\n" + "\n".join(items))
    assert len(talk.waiting) == 5 and "starts when one of the others" in started
    assert "1 of 7 have come back" in talk.next_end()
    assert "All have come back: 7 of 7" in talk.finish_all()
    assert talk.most_at_once == 5 and sorted(talk.ended) == [1, 2, 3, 4, 5, 6, 7]


def test_a_follow_up_prompt_goes_on_with_the_next_ids(workspace: Workspace) -> None:
    talk = Conversation(workspace)
    talk.ask("Summarise data/*.csv")
    talk.finish_all()
    talk.ask("Now count the words of data/field_notes_north.md")
    assert [job["agent_id"] for job in talk.waiting] == [3]
    closing = talk.finish_all()
    assert "All have come back: 1 of 1" in closing and "data/plots.csv" not in closing
    assert "field_notes_north.md (" in closing


def test_search_counts_what_was_read_and_quotes_what_search_code_found(workspace: Workspace) -> None:
    talk = Conversation(workspace)
    talk.ask('Search data/*.md and data/*.txt for "drought" and report what you find.')
    closing = talk.finish_all()
    south = (DATA / "field_notes_south.txt").read_text("utf-8").count("drought")
    assert south == 2 and f"“drought” occurs {south} ×" in closing
    report = (workspace.folder / "sub_agent_results/agent_3/report.md").read_text("utf-8")
    assert "What search_code returned for “drought”" in report and "data/field_notes_south.txt" in report


def test_a_missing_file_is_told_and_never_counted(workspace: Workspace) -> None:
    talk = Conversation(workspace)
    talk.ask("Summarise data/plots.csv and data/lost.csv")
    table = rows_of(talk.finish_all())[1:]
    assert [row[2] for row in table] == ["completed", "failed"]
    assert "data/lost.csv: " in table[1][3] and "No such file" in table[1][3]
    assert talk.ended[2]["success"] is False


@pytest.mark.parametrize("summary_of", ["Summarise data/trees.tsv", "汇总 data/trees.tsv 表格"])
def test_a_summary_has_fifty_to_two_hundred_characters(workspace: Workspace, summary_of: str) -> None:
    talk = Conversation(workspace, "zh" if "汇" in summary_of else "en")
    talk.ask(summary_of)
    talk.finish_all()
    assert 50 <= len(talk.ended[1]["summary"]) <= 200


def test_a_name_glued_to_chinese_words_is_found_by_listing(workspace: Workspace) -> None:
    (workspace.folder / "笔记.md").write_text("# 一\n雨水。\n", "utf-8")
    (workspace.folder / "野外笔记.md").write_text("# 二\n", "utf-8")
    talk = Conversation(workspace, "zh")
    talk.ask("请统计野外笔记.md的字数")
    assert len(talk.waiting) == 1 and "`野外笔记.md`" in talk.waiting[0]["task"]
    assert "野外笔记.md（1 行，1 词，1 个标题）" in talk.finish_all()
