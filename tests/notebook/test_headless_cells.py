"""`%%agent` cells in a headless kernel: results, notices and records to the letter."""

from __future__ import annotations

import json
from pathlib import Path

from easyagent.testing import call, calls, error, for_main, for_sub_agent

STATS_KEYS = {"runtime_seconds", "files_read", "searches", "web_pages", "commands"}


def start(number: int, **arguments: object) -> object:
    return call("create_sub_agent", agent_id=number, summary=f"Read file {number}", task="Read a.txt.", **arguments)


def finish(summary: str, *, success: bool = True) -> object:
    return calls(call("finish_task", success=success, summary=summary))


def test_a_cell_with_two_background_sub_agents(kernel, fake, workspace: Path) -> None:
    main = fake.script("main", match=for_main())
    one, two = fake.script("one", match=for_sub_agent(1)), fake.script("two", match=for_sub_agent(2))
    second_may_end = fake.gate()
    main.reply(calls(start(1, run_in_background=True), start(2, run_in_background=True)))
    main.reply("Both are on their way.")
    main.reply("One is back.")
    main.reply("Both are back: **done**.")
    one.reply(
        calls(call("read_file", path="a.txt"), call("write_file", path="sub_agent_results/agent_1/r.md", content="x"))
    )
    one.reply(finish("Two lines."))
    two.reply(finish("Nothing new."), gate=second_may_end)

    cell = kernel.begin("%%agent\nLook at {this} and at {{1 + 1}} files.")
    fake.wait_for(lambda: len(main.requests) == 3)
    second_may_end.open()
    outcome = kernel.wait(cell)

    assert (outcome.status, outcome.error, outcome.stderr) == ("ok", "", "")
    assert main.requests[0].messages[-1] == {"role": "user", "content": "Look at {this} and at 2 files."}
    created = json.loads(main.requests[1].messages[-2]["content"])
    assert created.pop("sub_conversation_id").startswith("conv_")
    assert created == {
        "success": True,
        "agent_id": 1,
        "status": "running",
        "summary": "Read file 1",
        "message": "Sub-agent 1 was started and runs in the background",
        "deliverables_dir": "sub_agent_results/agent_1",
        "background": True,
        "model": "fake-model",
        "timeout_seconds": 600,
        "automatic_notification": True,
    }
    assert main.requests[2].messages[-1] == {
        "role": "user",
        "content": "Sub-agent 1 (Read file 1) has completed its task.\n\nTwo lines.\n\n"
        "Deliverables directory: sub_agent_results/agent_1",
    }
    assert main.requests[3].messages[-1]["content"].startswith("Sub-agent 2 (Read file 2) has completed its task.")
    assert len(outcome.displays) == 1
    for expected in ("Two lines.", "Nothing new.", "<strong>done</strong>", "completed", "r.md"):
        assert expected in outcome.html
    _check_record(workspace)


def _check_record(workspace: Path) -> None:
    record = json.loads((workspace / "sub_agent_results/agent_1/.subagent/conversations.json").read_text())
    assert list(record) == ["agent_id", "summary", "created_at", "completed_at", "messages", "stats"]
    assert [message["role"] for message in record["messages"]] == [
        "system", "user", "assistant", "tool", "tool", "assistant", "tool",
    ]  # fmt: skip
    assert set(record["stats"]) == STATS_KEYS | {"token_usage"}
    assert record["stats"]["files_read"] == 1
    assert set(record["stats"]["token_usage"]) == {"prompt", "completion", "total"}


def test_a_notice_in_mid_turn_is_a_system_message_after_all_tool_results(kernel, fake) -> None:
    main, one = fake.script("main", match=for_main()), fake.script("one", match=for_sub_agent(1))
    main.reply(calls(start(1, run_in_background=True)))
    gate = fake.gate()
    main.reply(calls(call("read_file", path="a.txt", limit=1), call("list_files")), gate=gate)
    main.reply("Seen.")
    one.reply(finish("Two lines."))
    cell = kernel.begin("%%agent\nGo.")
    assert gate.reached.wait(60)
    kernel.read_until(lambda: "completed" in kernel.outcome(cell).html)
    gate.open()
    assert kernel.wait(cell).status == "ok"
    roles = [message["role"] for message in main.requests[2].messages]
    assert roles[-4:] == ["assistant", "tool", "tool", "system"]
    notice = main.requests[2].messages[-1]["content"]
    runtime = notice.split("Runtime: ")[1].split(" ")[0]
    assert notice == (
        f"Sub-agent 1 (Read file 1) has completed.\n\nRuntime: {runtime} seconds\nRead 0 files\nSearched 0 times\n"
        "Viewed 0 web pages\nRan 0 commands\n\nDeliverables directory: sub_agent_results/agent_1\n"
        "Result summary: Two lines."
    )


def test_chinese_prompts_get_the_chinese_texts(kernel, fake) -> None:
    main, one = fake.script("main", match=for_main()), fake.script("one", match=for_sub_agent(1))
    creating = call(
        "create_sub_agent", agent_id=1, summary="阅读文件", task="请阅读文件并总结。", run_in_background=True
    )
    main.reply(calls(creating))
    main.reply("已启动。")
    main.reply("完成。")
    one.reply(finish("共两行。"))
    outcome = kernel.run("%%agent\n请阅读文件并总结内容。")
    assert outcome.status == "ok"
    assert json.loads(main.requests[1].messages[-1]["content"])["message"] == "子智能体1 已启动，正在后台运行"
    assert main.requests[2].messages[-1]["content"] == (
        "子智能体1 (阅读文件) 已完成任务。\n\n共两行。\n\n交付目录：sub_agent_results/agent_1"
    )
    assert one.requests[0].messages[1]["content"].startswith("你是子智能体 1，负责以下任务：\n\n【任务摘要】\n阅读文件")
    assert "已完成" in outcome.text
    table = kernel.run("%agent").stdout
    assert "结果目录" in table and "已完成" in table, "in the language of the last prompt"
    assert "没有正在运行的任务" in kernel.run("%agent stop").stdout
    main.reply("Nothing to add.")
    assert kernel.run("%%agent\nThank you, that is all for now.").status == "ok"
    assert "results in" in kernel.run("%agent").stdout


def test_a_blocking_sub_agent_returns_its_result_and_sends_no_notice(kernel, fake) -> None:
    main, one = fake.script("main", match=for_main()), fake.script("one", match=for_sub_agent(1))
    main.reply(calls(start(1)))
    main.reply("Done.")
    one.reply(finish("Two lines."))
    assert kernel.run("%%agent\nGo.").status == "ok"
    result = json.loads(main.requests[1].messages[-1]["content"])
    assert set(result) == {
        "success", "agent_id", "status", "summary", "message", "deliverables_dir", "deliverables_files",
        "result_summary", "sub_conversation_id", "stats", "cause", "model", "usage", "files_written",
    }  # fmt: skip
    assert (result["success"], result["status"], result["cause"]) == (True, "completed", "finish_task")
    assert set(result["stats"]) == STATS_KEYS
    assert len(main.requests) == 2


def test_the_demo_model_does_the_main_job(start_kernel, workspace: Path) -> None:
    kernel = start_kernel()
    (workspace / "t.csv").write_text("a,b\n1,2\n3,\n")
    outcome = kernel.run("%%agent\nProfile these files:\n1. t.csv\n2. a.txt")
    assert outcome.status == "ok"
    assert "not a language model" in outcome.text
    assert "All have come back: 2 of 2" in outcome.text
    assert "rows 2, columns 2, missing values 1" in outcome.text
    assert (workspace / "sub_agent_results/agent_1/report.md").is_file()
    waited = kernel.run("%agent wait")
    assert waited.stdout == "All is done: sub-agents 1, 2 have ended (2 in all).\n"
    assert waited.displays == [], "the record is whole under its own cell"
    assert "(the embedded demo)" in kernel.run("%agent doctor").stdout
    assert "1 file read, 0 searches, 0 pages, 0 commands" in kernel.run("%agent status 1").stdout
    values = kernel.run(
        "from jupyter_subagents import agents\n[(a.id, a.status, list(a.files), a.cost) for a in agents]"
    )
    assert values.result == "[(1, 'completed', ['report.md'], 0.0), (2, 'completed', ['report.md'], 0.0)]"


def test_background_cells_return_at_once_and_wait_shows_the_record(kernel, fake) -> None:
    main = fake.script("main", match=for_main())
    gate = fake.gate()
    main.reply("A late answer.", gate=gate)
    assert kernel.run("%%agent -b -o run\nGo.").status == "ok"
    assert kernel.run("run.result").result == ""
    gate.open()
    waited = kernel.run("%agent wait")
    assert "A late answer." in waited.text
    assert kernel.run("run.result").result == "'A late answer.'"


def test_a_failing_endpoint_is_one_sentence_and_stops_run_all(kernel, fake) -> None:
    fake.script("main", match=for_main()).reply(error(401, "bad key sk-secret"))
    outcome = kernel.run("%%agent\nGo.")
    assert outcome.status == "error"
    assert outcome.stderr.count("\n") == 1
    assert "refused the key (401)" in outcome.stderr and "Traceback" not in outcome.stderr
    fake.script("again", match=for_main()).reply("Back.")
    assert "Back." in kernel.run("%%agent\nAgain.").text


BAD_LINES = [
    ("--timeout 59", "'59' is not a whole number from 60 to 3600"),
    ("--timeout 3601", "'3601' is not a whole number from 60 to 3600"),
    ("--max-agents 0", "'0' is not a whole number from 1 to 99"),
    ("--dir ../out", "contains '..'"),
    ("--dir .subagents/x", "protected name"),
    ("--permissions all", "invalid choice"),
    ("-o 3x", "'3x' is not a variable name"),
    ("a/b", "is not a label"),
    ("--nonsense", "unrecognized arguments: --nonsense"),
    ("-a nobody", "there is no agent type 'nobody'"),
    ('"open', "the line cannot be read"),
]


def test_bad_lines_are_one_sentence(kernel) -> None:
    for line, words in BAD_LINES:
        outcome = kernel.run(f"%%agent {line}\nGo.")
        assert outcome.status == "error", line
        assert words in outcome.stderr
        assert outcome.stderr.count("\n") == 1 and "Traceback" not in outcome.stderr + outcome.error
        assert outcome.displays == []


BAD_COMMANDS = [
    ("%agent nonsense", "there is no 'nonsense'"),
    ("%agent status 7", "There is no sub-agent 7"),
    ("%agent status x", "name a sub-agent by its number"),
    ("%agent stop 7", "There is no sub-agent 7"),
    ("%agent show other", "there is no conversation 'other'; there is none yet"),
    ("%agent wait other", "there is no conversation 'other'; there is none yet"),
    ("%agent reset other", "there is no conversation 'other'; there is none yet"),
    ("%agent show", "there is no conversation 'main'; there is none yet"),
    ("%agent show main extra", "%agent show: 'extra' is too much"),
    ("%agent wait main extra", "%agent wait: 'extra' is too much"),
    ("%agent reset main extra words", "%agent reset: 'extra words' is too much"),
    ("%agent status 1 2", "%agent status: '2' is too much"),
    ("%agent doctor now", "%agent doctor: 'now' is too much"),
    ("%agent help me", "%agent help: 'me' is too much"),
    ("%agent setup now", "%agent setup: 'now' is too much"),
    ("%agent config colour=red", "'colour' is not name=value"),
    ("%agent config api_key=sk-abc", "a key is not written in a notebook"),
    ("%agent config max_agents=3", "that setting is called max_concurrent"),
    ("%agent config max_concurrent=0", "max_concurrent"),
    ("%agent setup", "nobody can answer here"),
    ("%%agent\n   ", "the cell is empty"),
    ("%%agent\nIs {{ 1/0 }} a number?", "{{1/0}} failed: ZeroDivisionError"),
]


def test_bad_commands_are_one_sentence(kernel) -> None:
    for code, words in BAD_COMMANDS:
        outcome = kernel.run(code)
        assert outcome.status == "error", code
        assert words in outcome.stderr
        assert outcome.stderr.count("\n") == 1 and "Traceback" not in outcome.stderr + outcome.error
        assert "sk-abc" not in outcome.stderr


def test_commands_without_sub_agents(kernel) -> None:
    assert "No sub-agents yet" in kernel.run("%agent").stdout
    assert "Nothing is running" in kernel.run("%agent stop").stdout
    assert "%%agent [label]" in kernel.run("%agent help").stdout
    assert "All is done; there was no sub-agent." in kernel.run("%agent wait").stdout


def test_a_reset_conversation_is_gone_and_the_others_are_named(kernel, fake) -> None:
    main = fake.script("main", match=for_main())
    main.reply("One.")
    main.reply("Two.")
    assert kernel.run("%%agent one\nGo.").status == "ok"
    assert kernel.run("%%agent two\nGo.").status == "ok"
    assert "there is no conversation 'three'; there are one, two." in kernel.run("%agent show three").stderr
    assert "Conversation two was reset" in kernel.run("%agent reset").stdout
    for command in ("show", "reset", "wait two"):
        name = command.partition(" ")[0]
        said = kernel.run(f"%agent {command}").stderr
        assert f"%agent {name}: there is no conversation 'two'; there are one." in said
    assert "One." in kernel.run("%agent show one").text


def test_doctor_says_whether_the_model_calls_tools(kernel, fake) -> None:
    probe = fake.script("probe", match="report_number")
    probe.reply(calls(call("report_number", number=7)))
    probe.reply("Seven.")
    able = kernel.run("%agent doctor")
    assert able.status == "ok"
    assert f"endpoint    {fake.base_url} (from the environment)" in able.stdout
    assert "tool calls  yes" in able.stdout
    assert (
        "tool calls  NO: the model answered in words -> choose a model that calls tools"
        in kernel.run("%agent doctor").stdout
    )
