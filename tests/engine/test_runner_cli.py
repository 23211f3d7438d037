"""AgentRunner with a user's own model function, the guide's example, and the command."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import psutil
import pytest

from easyagent import AgentConfig, AgentRunner, ToolResult, tool
from easyagent.cli import main
from easyagent.models import (
    AgentCreated,
    AgentEnded,
    AgentEvent,
    Cause,
    Conclusion,
    RoundStarted,
    Started,
    SubAgentEnd,
    SubAgentStatus,
    UsageReported,
    WrapUp,
)
from easyagent.progress import describe
from easyagent.testing import FakeOpenAI, call, calls, error, for_main, for_sub_agent, hang

ROOT = Path(__file__).parents[2]


def calling(name: str, arguments: Any, call_id: str = "same") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_llm_call_drives_the_main_agent_and_its_sub_agents(tmp_path: Path) -> None:
    asked: list[tuple[str, str | None, float | None, bool]] = []

    async def llm(*, messages: list[Any], tools: list[Any], model: str, temperature: float | None) -> dict[str, Any]:
        names = {entry["function"]["name"] for entry in tools}
        sub = "finish_task" in names
        asked.append(("sub" if sub else "main", model, temperature, "shout" in names))
        usage = {"prompt_tokens": 10, "completion_tokens": 1}
        if sub:
            return {"tool_calls": [calling("finish_task", {"success": True, "summary": "found 3"})], "usage": usage}
        results = [message["content"] for message in messages if message["role"] == "tool"]
        if results:
            return {"content": f"{results[1]}: {json.loads(results[0])['result_summary']}", "usage": usage}
        prompt = {"subagent_type": "explore", "description": "find files", "prompt": "Find configuration files."}
        return {"content": None, "tool_calls": [calling("task", json.dumps(prompt)), calling("shout", {"text": "hey"})]}

    @tool("shout")
    async def shout(text: str) -> ToolResult:
        """Say it loud."""
        return ToolResult(text.upper())

    async def scenario() -> list[AgentEvent]:
        config = AgentConfig(max_iterations=20, workspace=tmp_path, temperature=0.5)
        runner = AgentRunner(llm_call=llm, config=config, tools=(shout,))
        return [event async for event in runner.run(task="使用 explore sub-agent 查找所有配置文件")]

    events = asyncio.run(scenario())
    assert events[-1].type == "conclusion" and events[-1].data["content"] == "HEY: found 3"
    assert [entry for entry in asked if entry[0] == "main"] == [("main", "custom", 0.5, True)] * 2
    assert [entry for entry in asked if entry[0] == "sub"] == [("sub", "custom", 0.5, False)]
    assert [event.usage.total for event in events if isinstance(event, UsageReported)] == [None, 11, 11]


def test_a_failing_llm_call_reaches_its_author(tmp_path: Path) -> None:
    async def llm(**_: Any) -> dict[str, Any]:
        raise RuntimeError("my own fault")

    async def scenario() -> None:
        async for _ in AgentRunner(llm_call=llm, config=AgentConfig(workspace=tmp_path)).run("Hi"):
            pass

    with pytest.raises(RuntimeError, match="my own fault"):
        asyncio.run(scenario())


def test_leaving_the_iteration_early_ends_all(tmp_path: Path) -> None:
    async def scenario(fake: FakeOpenAI) -> list[int]:
        runner = AgentRunner(config=AgentConfig(base_url=fake.base_url, workspace=tmp_path))
        pids = []
        async with aclosing(runner.run("Count.")) as events:
            async for event in events:
                if isinstance(event, Started) and event.agent_id is not None:
                    pids.append(event.pid)
                    assert psutil.pid_exists(event.pid)
                    break
        return pids

    with FakeOpenAI() as fake:
        creating = call("create_sub_agent", agent_id=1, summary="s", task="t", run_in_background=True)
        fake.script("main", match=for_main()).reply(calls(creating)).repeat("Started.")
        fake.script("one", match=for_sub_agent(1)).repeat(hang())
        [pid] = asyncio.run(scenario(fake))
        assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_failed_run_ends_with_a_conclusion_that_says_why(tmp_path: Path) -> None:
    async def scenario(fake: FakeOpenAI) -> list[AgentEvent]:
        runner = AgentRunner(config=AgentConfig(base_url=fake.base_url, workspace=tmp_path))
        return [event async for event in runner.run("Hi")]

    with FakeOpenAI() as fake:
        fake.script("main").reply(error(400, "No."))
        last = asyncio.run(scenario(fake))[-1]
        assert isinstance(last, Conclusion)
        assert (last.success, last.content) == (False, "") and last.error is not None and "answered 400" in last.error


def test_the_example_of_the_guide_runs(tmp_path: Path) -> None:
    (tmp_path / "plots.csv").write_text("plot,height\n1,2\n2,\n")
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "subagent_example.py"), "Profile plots.csv"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "EASYAGENT_DEMO_PACE": "0"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "started sub-agent 1: " in done.stdout and "sub-agent 1 completed: " in done.stdout
    assert (tmp_path / "sub_agent_results" / "agent_1").is_dir()


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "EASYAGENT_MODEL", "EASYAGENT_PERMISSIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_the_command_prints_the_answer_and_progress_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], clean_environment: None
) -> None:
    with FakeOpenAI() as fake:
        writing = calls(call("write_file", path="made.txt", content="x"))
        fake.script("main").reply(writing).reply("The answer\x1b[2J.")
        arguments = ["run", "Work.", "--base-url", fake.base_url, "-C", str(tmp_path), "--permissions", "edits"]
        assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert (out, "main | Writing made.txt" in err) == ("The answer.\n", True)
    assert "\x1b" not in err
    assert (tmp_path / "made.txt").read_text() == "x"


def test_the_command_fails_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], clean_environment: None
) -> None:
    with FakeOpenAI(models=["a", "b"]) as fake:
        assert main(["run", "Work.", "--base-url", fake.base_url, "-C", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1) and err.startswith("easyagent: Name a model") and "a, b" in err
    with FakeOpenAI() as fake:
        fake.script("main").reply(error(401, "no"))
        assert main(["run", "Work.", "--base-url", fake.base_url, "-C", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("main | ") and err.count("\neasyagent: The endpoint ") == 1
    assert main(["run", "Work.", "--base-url", "nonsense", "-C", str(tmp_path)]) == 1
    assert "base_url" in capsys.readouterr().err
    assert main(["run", "Work.", "-C", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr() == ("", f"easyagent: there is no directory {tmp_path / 'nowhere'} to work in.\n")
    with pytest.raises(SystemExit):
        main(["fly"])


@pytest.mark.parametrize(
    ("setting", "task", "line"),
    [
        ("zh", "Work.", "主智能体 | 正在写入 made.txt"),
        ("auto", "请写一个文件。", "主智能体 | 正在写入 made.txt"),
        ("auto", "Work.", "main | Writing made.txt"),
    ],
)
def test_progress_speaks_the_language_that_is_set_or_asked_in(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    clean_environment: None,
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    task: str,
    line: str,
) -> None:
    monkeypatch.setenv("EASYAGENT_LANGUAGE", setting)
    with FakeOpenAI() as fake:
        fake.script("main").reply(calls(call("write_file", path="made.txt", content="x"))).reply("Done.")
        assert main(["run", task, "--base-url", fake.base_url, "-C", str(tmp_path), "--permissions", "edits"]) == 0
    assert line in capsys.readouterr().err


def test_every_progress_line_is_in_both_languages() -> None:
    end = SubAgentEnd(status=SubAgentStatus.COMPLETED, cause=Cause.FINISH_TASK, ended_at="", result_summary="x")
    events: list[AgentEvent] = [
        RoundStarted(round_id="r", prompt="p", origin="notice"),
        AgentCreated(
            agent_id=1, run_id="c", agent="general", summary="s", deliverables_dir="d", timeout_seconds=60,
            background=True,
        ),
        WrapUp(agent_id=1, reason="time"),
        AgentEnded(agent_id=1, run_id="c", end=end),
    ]  # fmt: skip
    english, chinese = ([describe(event, language) for event in events] for language in ("en", "zh"))
    assert english == [
        "main | a notice of ended sub-agents starts a new round",
        "  #1 | starting (general): s -> d",
        "  #1 | wrapping up: time nearly used up",
        "  #1 | completed after 0 s: x",
    ]
    assert chinese == [
        "主智能体 | 子智能体结束的通知开始了新一轮",
        "  #1 | 正在启动（general）：s -> d",
        "  #1 | 收尾中：时间即将用完",
        "  #1 | 已完成，用时 0 秒：x",
    ]


def test_ends_are_in_the_events_of_a_run(tmp_path: Path) -> None:
    async def scenario(fake: FakeOpenAI) -> list[AgentEvent]:
        runner = AgentRunner(config=AgentConfig(base_url=fake.base_url, workspace=tmp_path))
        return [event async for event in runner.run("Count.")]

    with FakeOpenAI() as fake:
        creating = call("create_sub_agent", agent_id=1, summary="s", task="t", run_in_background=True)
        fake.script("main", match=for_main()).reply(calls(creating)).reply("Started.").reply("All told.")
        held = fake.gate()
        fake.script("one", match=for_sub_agent(1)).reply(
            calls(call("finish_task", success=True, summary="x")), gate=held
        )

        async def both() -> list[AgentEvent]:
            running = asyncio.create_task(scenario(fake))
            await asyncio.to_thread(fake.wait_for, lambda: len(fake.requests) >= 3)
            held.open()
            return await running

        events = asyncio.run(both())
        assert [event.end.status for event in events if isinstance(event, AgentEnded)] == ["completed"]
        assert events[-1].data["content"] == "All told."


def command(workspace: Path, base_url: str, task: str | bytes = "Work.", redirect: str = "", **environ: str) -> Any:
    """`easyagent run` in a shell that redirects; its exit code stands in the file `code`."""
    script = f'"$0" -m easyagent.cli run "$1" --base-url "$2" {redirect}; echo ${{PIPESTATUS[0]}} >code'
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, task, base_url], cwd=workspace, capture_output=True, timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": str(workspace), "LANG": "C.UTF-8", **environ},
    )  # fmt: skip
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr
    return (workspace / "code").read_text().strip(), done.stdout.decode(), done.stderr.decode()


LOST: dict[str, tuple[str, str]] = {
    "a closed stdout": (">&-", "could not be written"),
    "a full disk": (">/dev/full", "No space left"),
    "a reader who has left": ("| true", "main | "),
}


@pytest.mark.parametrize("case", LOST)
def test_an_answer_that_is_lost_is_a_failure(tmp_path: Path, case: str) -> None:
    redirect, said = LOST[case]
    with FakeOpenAI() as fake:
        fake.script("main").repeat("x" * 200_000)
        code, out, err = command(tmp_path, fake.base_url, redirect=redirect)
        assert (code, out) == ("1", "") and said in err
        assert command(tmp_path, fake.base_url)[0] == "0"  # the control


def test_an_answer_outlives_a_closed_stderr(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        for redirect in ("2>&-", "2> >(true)", "2>/dev/full"):
            script = fake.script("main").reply(calls(*[call("list_files")] * 30)).reply("Answer.")
            assert command(tmp_path, fake.base_url, redirect=redirect)[:2] == ("0", "Answer.\n"), redirect
            assert len(script.requests) == 2


def test_a_task_is_utf8_and_not_empty_in_every_locale(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        script = fake.script("main").repeat("好 done.")
        for task, part in ((b"caf\xe9", "is not UTF-8"), ("", "is empty"), (" \n", "is empty"), ("\u200b", "is empty")):
            code, out, err = command(tmp_path, fake.base_url, task)
            assert (code, out, err.count("\n")) == ("1", "", 1) and part in err
        assert script.requests == []
        plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        code, out, _ = command(tmp_path, fake.base_url, "分析 café", **plain)
        assert (code, out) == ("0", "\\u597d done.\n")
        assert script.requests[0].messages[-1]["content"] == "分析 café"


def test_what_an_endpoint_says_does_not_act_on_the_terminal(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        fake.script("main").reply(error(400, "No\x1b[31m\u202e\x9b1m\nluck."))
        _, _, err = command(tmp_path, fake.base_url)
        assert err.count("answered 400: No luck.") == 2 and err.replace("\n", "").isprintable()
