"""The demo as main agent, request by request: plans, ids, notices in any order and form."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from easyagent.demo.policy import decide
from easyagent.openai_server import ChatReply

TOOLS = ("create_sub_agent", "list_files", "read_file")
EN_DEMO, ZH_DEMO = "*Demo model (rules, not a language model).*", "*演示模型（规则程序，不是语言模型）。*"
STARTED = {"success": True, "status": "running"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def ask(*messages: dict[str, Any]) -> ChatReply:
    tools = [{"type": "function", "function": {"name": name}} for name in TOOLS]
    return decide({"messages": [{"role": "system", "content": "Main."}, *messages], "tools": tools})


def created(reply: ChatReply) -> list[dict[str, Any]]:
    return [dict(call.arguments) for call in reply.tool_calls if call.name == "create_sub_agent"]  # type: ignore[arg-type]


def after(reply: ChatReply, *results: str) -> list[dict[str, Any]]:
    """The messages that a runner appends for a reply with tool calls."""
    calls = [
        {"id": f"c{index}", "type": "function", "function": {"name": c.name, "arguments": c.arguments_json}}
        for index, c in enumerate(reply.tool_calls)
    ]
    told = [
        {"role": "tool", "tool_call_id": call["id"], "content": result}
        for call, result in zip(calls, results, strict=True)
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *told]


def running(reply: ChatReply) -> list[dict[str, Any]]:
    answers = [
        json.dumps(
            STARTED | {"agent_id": a["agent_id"], "deliverables_dir": f"sub_agent_results/agent_{a['agent_id']}"}
        )
        for a in created(reply)
    ]
    return after(reply, *answers)


def notice(agent_id: int, result: str, *, form: str = "user", language: str = "en", ended: str = "") -> dict[str, Any]:
    """A notice of the package's own templates; `ended` replaces the words of completion."""
    text = (files("easyagent") / "prompts" / language / f"notice_{form}.md").read_text("utf-8").rstrip("\n")
    text = text.format(
        agent_id=agent_id,
        summary=f"part {agent_id}",
        result_summary=result,
        deliverables_dir=f"sub_agent_results/agent_{agent_id}",
        runtime_seconds=1,
        files_read=1,
        searches=0,
        web_pages=0,
        commands=0,
    )
    if ended:
        for words in ("has completed its task.", "has completed.", "已完成任务。", "已完成。"):
            if words in text:
                return {
                    "role": form,
                    "content": text.replace(words, ended, 1) + "\n\nCause: crash. Partial files: a.md",
                }
        raise AssertionError("the template has none of the known words")
    return {"role": form, "content": text}


LIST = user("Please:\n1. Summarise a.csv\n2. Summarise b.csv\n   and its notes\n3) Count c.md")


def test_each_item_of_a_list_is_a_sub_agent_and_all_go_out_in_one_reply() -> None:
    reply = ask(LIST)
    assert [call["agent_id"] for call in created(reply)] == [1, 2, 3] and len(reply.tool_calls) == 3
    assert "Summarise b.csv and its notes" in created(reply)[1]["task"]
    assert all(call["run_in_background"] is True and call["timeout_seconds"] == 600 for call in created(reply))


@pytest.mark.parametrize(
    ("prompt", "calls"),
    [
        ("Summarise data/*.csv", [(".", "data/*.csv")]),
        ("Look at **/*.md and x/*.txt please", [(".", "**/*.md"), (".", "x/*.txt")]),
        ("Summarise the tables", [(".", "**/*.csv"), (".", "**/*.tsv")]),
        ("Report on the notes in `field/`", [("field/", "**/*.md"), ("field/", "**/*.txt")]),
        ("Count the words of the texts in the trial folder", [("trial", "**/*.md"), ("trial", "**/*.txt")]),
        ("汇总当前文件夹中的数据文件。", [(".", f"**/*.{s}") for s in ("csv", "tsv", "md", "txt", "json")]),
        ("分析 trial 目录里的表格", [("trial", "**/*.csv"), ("trial", "**/*.tsv")]),
    ],
)
def test_globs_folders_and_words_are_listed_first(prompt: str, calls: list[tuple[str, str]]) -> None:
    reply = ask(user(prompt))
    assert [call.name for call in reply.tool_calls] == ["list_files"] * len(calls)
    assert [tuple(call.arguments.values()) for call in reply.tool_calls] == calls  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("Summarise data/a.csv, b.tsv.", ["data/a.csv", "b.tsv"]),
        ("读取data/a.csv并统计，再看看“我的 笔记/b.md”和`二.md`", ["我的 笔记/b.md", "二.md", "data/a.csv"]),
        ("How many rows does `x y/a.csv` hold? And b.json?", ["x y/a.csv", "b.json"]),
        ("data/a.csv", ["data/a.csv"]),
        ("Review données.csv", ["données.csv"]),
    ],
)
def test_named_files_are_started_without_a_list(prompt: str, named: list[str]) -> None:
    calls = created(ask(user(prompt)))
    assert len(calls) == len(named) and all(
        f"`{name}`" in call["task"] for name, call in zip(named, calls, strict=True)
    )


@pytest.mark.parametrize(
    "prompt",
    [
        "Write a poem",
        "Write a poem about the data files",
        "hello",
        "What is 2 + 2?",
        "Translate notes.md into French",
        "Compare a.csv and b.csv",
        "Read https://example.org/a.csv and/or e.g. nothing",
        "Explain **everything** to me",
    ],
)
def test_what_is_not_covered_is_said_and_nothing_starts(prompt: str) -> None:
    reply = ask(user(prompt))
    assert not reply.tool_calls and reply.content is not None
    assert reply.content.startswith(EN_DEMO) and "I am a demo model and did not understand" in reply.content


def test_the_example_prompts_of_the_refusal_are_understood() -> None:
    for greeting, demo in (("hello", EN_DEMO), ("你好", ZH_DEMO)):
        refusal = ask(user(greeting)).content or ""
        examples = [line[3:-1] for line in refusal.split("\n") if line.startswith("- `")]
        assert refusal.startswith(demo) and len(examples) == 2
        assert all(ask(user(example)).tool_calls for example in examples)


def test_notices_out_of_order_are_counted_and_the_table_is_made_of_them_alone() -> None:
    start = ask(LIST)
    talk = [LIST, *running(start)]
    talk.append({"role": "assistant", "content": ask(*talk).content})
    assert "Background sub-agents started: 3" in talk[-1]["content"]
    talk.append(notice(3, "three"))
    talk.append({"role": "assistant", "content": ask(*talk).content})
    assert "1 of 3 have come back: sub-agent 3" in talk[-1]["content"]
    both = "\n\n".join(notice(n, text)["content"] for n, text in ((1, "one | 1"), (2, "two\nlines")))
    table = ask(*talk, user(both)).content or ""
    assert "| 1 | part 1 | completed | one \\| 1 | sub_agent_results/agent_1 |" in table
    assert "| 2 | part 2 | completed | two lines | sub_agent_results/agent_2 |" in table
    assert "| 3 | part 3 | completed | three | sub_agent_results/agent_3 |" in table


@pytest.mark.parametrize("form", ["user", "system"])
@pytest.mark.parametrize(
    ("language", "words", "status"),
    [
        ("en", "has failed.", "failed"),
        ("en", "has timed out.", "timed out"),
        ("en", "was terminated.", "terminated"),
        ("en", "was interrupted.", "interrupted"),
        ("zh", "已失败。", "已失败"),
        ("zh", "已超时。", "已超时"),
        ("zh", "已被终止。", "已被终止"),
        ("zh", "已中断。", "已中断"),
    ],
)
def test_other_ends_are_told_with_their_word_and_cause(form: str, language: str, words: str, status: str) -> None:
    prompt = user("Summarise a.csv" if language == "en" else "请汇总表格 a.csv 的内容")
    talk = [prompt, *running(ask(prompt)), notice(1, "half", form=form, language=language, ended=words)]
    table = ask(*talk).content or ""
    cells = f"| 1 | part 1 | {status} | half Cause: crash. Partial files: a.md | sub_agent_results/agent_1 |"
    assert cells in table and table.startswith(EN_DEMO if language == "en" else ZH_DEMO)


def test_notices_in_mid_turn_count_in_each_form_that_endpoints_take() -> None:
    start = ask(LIST)
    system = [LIST, *running(start), notice(2, "two", form="system")]
    assert "1 of 3 have come back: sub-agent 2" in (ask(*system).content or "")
    appended = [LIST, *running(start)]
    text = notice(2, "two", form="system")["content"]
    appended[-1] = appended[-1] | {"content": appended[-1]["content"] + f"\n\n[Notice]\n{text}"}
    told = ask(*appended).content or ""
    assert "1 of 3 have come back: sub-agent 2" in told and "| 3 | Count c.md | sub_agent_results" in told


def test_a_refused_start_is_told_in_the_table() -> None:
    start = ask(LIST)
    refused = json.dumps({"success": False, "error": "limit_reached", "message": "At most 2 run at once."})
    talk = running(start)
    talk[-1] = talk[-1] | {"content": refused}
    talk = [LIST, *talk]
    talk.append({"role": "assistant", "content": ask(*talk).content})
    assert "- Count c.md: At most 2 run at once." in talk[-1]["content"]
    table = ask(*talk, notice(1, "one"), notice(2, "two")).content or ""
    assert "2 of 2 completed" in table and "| - | Count c.md | not started | At most 2 run at once. | - |" in table


def test_an_old_notice_after_a_new_prompt_belongs_to_the_old_prompt() -> None:
    first, second = user("Summarise a.csv and b.csv"), user("Write a song")
    talk = [first, *running(ask(first)), {"role": "assistant", "content": "Started."}, second]
    refusal = ask(*talk).content or ""
    assert "did not understand" in refusal
    talk += [{"role": "assistant", "content": refusal}, notice(1, "one")]
    told = ask(*talk).content or ""
    assert "1 of 2 have come back: sub-agent 1" in told and "did not understand" not in told


def test_ids_go_on_and_slots_are_shared_between_prompts() -> None:
    first, second = user("Summarise a.csv, b.csv and c.csv"), user("Count d.md, e.md and f.md")
    talk = [first, *running(ask(first)), {"role": "assistant", "content": "Started."}, second]
    assert [call["agent_id"] for call in created(ask(*talk))] == [4, 5]
    talk += [*running(ask(*talk))]
    talk += [{"role": "assistant", "content": ask(*talk).content}, notice(1, "one")]
    assert [call["agent_id"] for call in created(ask(*talk))] == [6]


def test_no_files_found_and_lists_that_failed_are_said() -> None:
    prompt = user("Summarise data/*.csv")
    nothing = ask(prompt, *after(ask(prompt), "[.: 0 entries]")).content or ""
    assert "no data/*.csv in the workspace" in nothing
    failed = ask(prompt, *after(ask(prompt), "Error: no permission")).content or ""
    assert "I could not list `data/*.csv`: no permission" in failed


def test_results_hidden_files_and_folders_are_no_data() -> None:
    prompt = user("Summarise **/*.csv")
    lines = ["[.: 4 entries]", "sub_agent_results/agent_1/x.csv\t1 bytes", ".cache/y.csv\t1 bytes", "d/"]
    calls = created(ask(prompt, *after(ask(prompt), "\n".join([*lines, "d/z.csv\t1 bytes"]))))
    assert len(calls) == 1 and "`d/z.csv`" in calls[0]["task"]


def test_without_tools_the_demo_says_what_it_is() -> None:
    for text, demo in (("Who are you?", EN_DEMO), ("你是谁？", ZH_DEMO), ("これは何ですか", EN_DEMO)):
        assert (decide({"messages": [user(text)]}).content or "").startswith(demo)


def test_the_same_request_has_the_same_reply() -> None:
    assert ask(LIST) == ask(LIST) and ask(LIST) != ask(user("Summarise a.csv"))
