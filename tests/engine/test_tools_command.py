"""run_command: who may, what it says of its end, and that nothing of it stays."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from easyagent.models import AgentDefinition
from easyagent.permissions import Grants
from easyagent.tools import ToolContext, ToolResult
from easyagent.tools.builtin.command import end_commands
from easyagent.tools.toolbox import Toolbox


def context(workspace: Path, level: str = "auto", rules: dict[str, Any] | None = None) -> ToolContext:
    grants = Grants(level, rules or {}, owns_roots=True)
    return ToolContext(
        workspace=workspace.resolve(),
        language="en",
        grants=grants,
        temporary=workspace.with_name(f"{workspace.name}-own"),
    )


async def call(ctx: ToolContext, command: str, **arguments: Any) -> ToolResult:
    toolbox = Toolbox.for_sub_agent(AgentDefinition(name="a"))
    return await toolbox.call("run_command", json.dumps({"command": command, **arguments}), ctx)


def run(ctx: ToolContext, command: str, **arguments: Any) -> ToolResult:
    async def main() -> ToolResult:
        try:
            return await call(ctx, command, **arguments)
        finally:
            await end_commands(ctx.runners)

    return asyncio.run(main())


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def gone(pids: list[int], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(alive, pids))


def below(pid: int) -> list[int]:
    return [process.pid for process in psutil.Process(pid).children(recursive=True)]


@pytest.mark.parametrize("level", ["ask", "edits", "read-only"])
def test_no_level_but_auto_runs_commands_while_there_is_no_sandbox(tmp_path: Path, level: str) -> None:
    for rules in ({}, {"run_command": {"*": "allow"}}, {"run_command": "allow"}):
        ctx = context(tmp_path, level, rules)
        result = run(ctx, "touch made")
        assert not result.ok and f"(permission level {level})" in result.content
        assert "no sandbox holds commands here" in result.content and "--permissions auto" in result.content
        assert (ctx.stats.commands, list(tmp_path.iterdir())) == (0, [])


def test_deny_rules_hold_at_level_auto(tmp_path: Path) -> None:
    ctx = context(tmp_path, "auto", {"run_command": {"*": "allow", "rm *": "deny"}})
    assert run(ctx, "rm -rf x").content == "Error: run_command is denied by permissions.run_command['rm *'] = deny."
    assert (run(ctx, "touch made").ok, (tmp_path / "made").exists()) == (True, True)


ENDS = {
    "echo out; echo err >&2": (True, "[exit code 0]\nout\nerr\n"),
    "exit 3": (False, "[exit code 3]\n(no output)"),
    "kill -SEGV $$": (False, "[killed by SIGSEGV]\n(no output)"),
    "kill -TERM $$": (False, "[killed by SIGTERM]\n(no output)"),
    "cat; echo read": (True, "[exit code 0]\nread\n"),  # stdin is empty
    "printf '\\377\\n'": (True, "[exit code 0]\n\\xff\n"),
    "pwd; mkdir d; cd d; rmdir ../d; echo fine": (True, "[exit code 0]\n{workspace}\nfine\n"),
    'test -z "$OPENAI_API_KEY$SECRET_TOKEN" && echo "$MPLBACKEND $LANG"': (True, "[exit code 0]\nAgg {lang}\n"),
}


def test_a_command_says_how_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("SECRET_TOKEN", "t-1")
    monkeypatch.setenv("LANG", "C.UTF-8")
    ctx = context(tmp_path)

    async def main() -> list[ToolResult]:
        try:
            return await asyncio.gather(*(call(ctx, command) for command in ENDS))
        finally:
            await end_commands(ctx.runners)

    for result, (ok, text) in zip(asyncio.run(main()), ENDS.values(), strict=True):
        expected = text.replace("{workspace}", str(tmp_path.resolve())).replace("{lang}", "C.UTF-8")
        assert (result.ok, result.content) == (ok, expected)
    assert ctx.stats.commands == len(ENDS)


def test_a_background_process_does_not_hold_the_answer_back_and_ends_with_its_agent(tmp_path: Path) -> None:
    async def main() -> None:
        ctx = context(tmp_path)
        began = time.monotonic()
        result = await call(ctx, "sleep 300 & (setsid sh -c 'trap \"\" TERM; sleep 301; :' &); sleep 0.1; echo started")
        assert time.monotonic() - began < 20  # far below 300
        assert result.ok and result.content.startswith("[exit code 0; ") and result.content.endswith("\nstarted\n")
        assert "background processes go on until this agent ends" in result.content
        [runner] = ctx.runners
        left = [runner.pid, *below(runner.pid)]
        assert len(left) >= 4 and all(map(alive, left))
        assert (await call(ctx, "echo next")).content == "[exit code 0]\nnext\n"
        assert runner in ctx.runners
        await end_commands(ctx.runners)
        assert gone(left) and ctx.runners == set()

    asyncio.run(main())


def test_endless_output_is_ended_and_its_ends_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(context(tmp_path), "yes 0123456789 | head -c 1000000; echo; echo the end")
    assert result.ok and len(result.content) < 41_000
    assert "bytes left out" in result.content and result.content.endswith("the end\n")
    monkeypatch.setattr("easyagent.tools.builtin.command.OUTPUT_LIMIT_BYTES", 2_000_000)
    result = run(context(tmp_path), "echo begin; yes")
    assert not result.ok and "it wrote more than 2,000,000 bytes" in result.content and "\nbegin\ny\n" in result.content


def test_a_timeout_kills_the_whole_tree(tmp_path: Path) -> None:
    async def main() -> None:
        ctx = context(tmp_path)
        command = "trap '' TERM INT HUP; echo begun; setsid sleep 302 & (sleep 303 &) ; sleep 304"
        working = asyncio.create_task(call(ctx, command, timeout_seconds=1))
        while not ctx.runners:
            await asyncio.sleep(0.01)
        [runner] = ctx.runners
        while len(below(runner.pid)) < 4:
            await asyncio.sleep(0.01)
        tree = below(runner.pid)
        result = await working
        assert result.content == "Error: the command was killed after 1 seconds.\nbegun\n"
        assert gone(tree) and runner.returncode is not None

    asyncio.run(main())


def test_an_interrupted_call_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        ctx = context(tmp_path)
        working = asyncio.create_task(call(ctx, "setsid sleep 305 & sleep 306"))
        while not ctx.runners or len(below(next(iter(ctx.runners)).pid)) < 3:
            await asyncio.sleep(0.01)
        tree = below(next(iter(ctx.runners)).pid)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        assert gone(tree) and ctx.runners == set()

    asyncio.run(main())


AGENT = """
import asyncio, json, os, sys, time
from pathlib import Path
from easyagent.permissions import Grants
from easyagent.tools import ToolContext
from easyagent.tools.toolbox import BUILTIN_TOOLS, Toolbox
workspace = Path(sys.argv[1])
grants = Grants("auto", {}, owns_roots=True)
context = ToolContext(workspace=workspace, language="en", grants=grants, temporary=workspace.with_name("own"))
arguments = json.dumps({"command": sys.argv[2]})
async def main():
    working = asyncio.create_task(Toolbox(BUILTIN_TOOLS.values()).call("run_command", arguments, context))
    while not context.runners:
        await asyncio.sleep(0.01)
    holder = 0
    if sys.argv[3] == "fork":  # a forked child holds the pipe to the runner open
        holder = os.fork()
        if holder == 0:
            time.sleep(60)
            os._exit(0)
    print(next(iter(context.runners)).pid, holder, flush=True)
    await working
asyncio.run(main())
"""


@pytest.mark.parametrize("mode", ["plain", "fork"])
def test_the_runner_kills_everything_when_its_agent_is_killed(tmp_path: Path, mode: str) -> None:
    command = "trap '' TERM HUP INT; setsid sleep 307 & (setsid sh -c 'sleep 308 & sleep 309' &); nohup sleep 310"
    with subprocess.Popen(
        [sys.executable, "-c", AGENT, str(tmp_path), command, mode], stdout=subprocess.PIPE, start_new_session=True
    ) as agent:
        assert agent.stdout is not None
        runner, holder = map(int, agent.stdout.readline().split())
        try:
            end = time.monotonic() + 30
            while len(below(runner)) < 6 and time.monotonic() < end:
                time.sleep(0.02)
            tree = [runner, *below(runner)]
            assert len(tree) == 7
            agent.kill()
            assert gone(tree)
            assert holder == 0 or alive(holder)
        finally:
            if holder:
                os.kill(holder, 9)


def test_a_command_that_cannot_be_started_is_one_sentence(tmp_path: Path) -> None:
    gone_workspace = tmp_path / "gone"
    gone_workspace.mkdir()
    ctx = context(gone_workspace)
    gone_workspace.rmdir()
    result = run(ctx, "echo hi")
    assert not result.ok and "cannot be started" in result.content
    assert not run(context(tmp_path), "a\0b").ok
    assert "timeout_seconds" in run(context(tmp_path), "true", timeout_seconds=0).content
