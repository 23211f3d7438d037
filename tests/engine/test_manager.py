"""SubAgentManager over real processes: what it refuses, what it answers, and how its agents end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from easyagent.exceptions import SubAgentError, ToolError
from easyagent.models import AgentCreated, AgentEnded, Cause, SubAgentStatus, ToolFinished
from easyagent.subagents import SubAgentCalls, SubAgentRun
from easyagent.testing import FakeOpenAI, call, calls, error, for_sub_agent, hang
from easyagent.testing.bench import ManagerBench, manager_bench
from easyagent.tools import schemas
from easyagent.tools.base import SubAgentRequest
from easyagent.tools.schemas import check_result, schema_fault

GOOD: dict[str, Any] = {"agent_id": 1, "summary": "Count the plots", "task": "Count.", "run_in_background": True}
DONE = calls(call("finish_task", success=True, summary="42 plots"))

Scenario = Callable[[ManagerBench], Coroutine[Any, Any, None]]


def run(fake: FakeOpenAI, workspace: Path, scenario: Scenario, **options: Any) -> None:
    """Run a scenario on a bench and see that it leaves no process behind."""

    async def main() -> None:
        async with manager_bench(fake, workspace, **options) as bench:
            await scenario(bench)
        assert bench.manager.live_runs == []
        assert [pid for pid in pids(bench) if alive(pid)] == []

    asyncio.run(main())


def pids(bench: ManagerBench) -> list[int]:
    return [run.handle.pid for run in bench.manager.runs.values() if run.handle is not None]


def alive(pid: int) -> bool:
    """False for zombies too: what nobody reaps in a container is dead all the same."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def request(**changes: Any) -> SubAgentRequest:
    return SubAgentRequest(**{"agent_id": 1, "summary": "Count", "task": "Count.", "timeout_seconds": 30, **changes})


async def reached(gate: Any) -> None:
    assert await asyncio.to_thread(gate.reached.wait, 30)


MISSING = object()
BAD_SCHEMAS: tuple[dict[str, Any], ...] = (
    {"$schema": 5}, {"$ref": "#/nope"}, {"$ref": "#"}, {"$ref": "#nope"}, {"items": {"$ref": "#/nope"}},
    {"allOf": [{"$ref": "#"}]}, {"anyOf": [{"type": "string"}, {"$ref": "#"}]}, {"pattern": "("},
    {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"if": {"$ref": "#/$defs/a"}}}, "items": {"$ref": "#/$defs/a"}},
)  # fmt: skip
GOOD_SCHEMAS: tuple[dict[str, Any], ...] = (
    {}, {"properties": {"child": {"$ref": "#"}, "$ref": {"type": "string"}}}, {"enum": [{"$ref": "x"}]},
    {"$defs": {"n": {"items": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/n"}]}}}, "$ref": "#/$defs/n"},
    {"$id": "https://example.org/s", "$defs": {"a": {"$anchor": "q"}}, "items": {"$ref": "#q"}},
    {"$schema": "http://json-schema.org/draft-07/schema", "definitions": {"a": {}}, "not": {"$ref": "#/definitions/a"}},
)  # fmt: skip
BAD_VALUES: dict[str, tuple[Any, ...]] = {
    "agent_id": (0, 100, -1, "3", 3.0, True, None, MISSING, [1]),
    "timeout_seconds": (59, 3601, "60", 60.5, float("nan"), float("inf"), True, None),
    "summary": ("", "   ", "\u200b\u2060", "\x1b\x00", None, 7, MISSING),
    "task": ("", "\n", "\0", " \u202e ", None, MISSING),
    "run_in_background": ("yes", 1, None),
    "deliverables_dir": (
        "", " ", ".", "./", "..", "../ws-secret", "a/../../x", "/tmp/x", "~", "~/x", "outside", "outside/x",
        "file.txt", "file.txt/sub", "here", "loop/x", "a\0b", "a\u202eb", "a\nb", "x" * 401, 5,
        "A" * 256, "研" * 100, f"a/{'A' * 300}/b",
        ".git", ".GIT/x", "a/.subagents", "subagents", "x/.claude/y", "AGENTS.md", "n.ipynb",
    ),
    "write_paths": (
        [""], ["."], [".."], ["/etc"], ["~"], ["outside"], ["file.txt/x"], ["n.ipynb"], [".git/config"], ["a\0"],
        "src", [3], None, ["A" * 256],
    ),
    "output_schema": ("object", {"type": "nonsense"}, {"$ref": "http://127.0.0.1:9/s"}, [], *BAD_SCHEMAS),
    "extra": (1,),
}  # fmt: skip
BAD_ARGUMENTS = [(name, value) for name, values in BAD_VALUES.items() for value in values]


def prepare(workspace: Path) -> None:
    """A workspace with the traps the bad arguments name."""
    workspace.mkdir()
    (workspace.parent / "ws-secret").mkdir()
    (workspace / "file.txt").write_text("x")
    (workspace / "outside").symlink_to(workspace.parent / "ws-secret")
    (workspace / "here").symlink_to(".")
    (workspace / "loop").symlink_to("loop")


def test_a_bad_argument_is_named_and_starts_nothing(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    prepare(workspace)
    before = sorted(path.name for path in tmp_path.rglob("*"))

    async def scenario(bench: ManagerBench) -> None:
        for name, value in BAD_ARGUMENTS:
            arguments = {key: entry for key, entry in {**GOOD, name: value}.items() if entry is not MISSING}
            answer = await bench.call("create_sub_agent", arguments)
            assert set(answer) == {"success", "error", "message"}, (name, value, answer)
            assert answer["error"] == "invalid_argument", (name, value, answer)
            assert name in answer["message"], (name, value, answer)
        kind = await bench.call("create_sub_agent", {**GOOD, "subagent_type": "wizard"})
        assert kind["error"] == "unknown_subagent_type" and "analyst, explore, general" in kind["message"]
        assert (bench.events, bench.notices, bench.manager.runs) == ([], [], {})
        assert sorted(path.name for path in tmp_path.rglob("*")) == before
        started = await bench.call("create_sub_agent", GOOD)  # the control: the same call without a fault
        assert started["success"] is True
        assert (workspace / ".subagents" / "runs" / started["sub_conversation_id"] / "job.json").is_file()

    with FakeOpenAI() as fake:
        fake.script("child", match=for_sub_agent()).repeat(hang())
        run(fake, workspace, scenario)


@pytest.mark.parametrize("schema", BAD_SCHEMAS, ids=str)
def test_a_schema_that_nothing_can_meet_is_refused(schema: dict[str, Any]) -> None:
    assert schema_fault(schema) is not None


@pytest.mark.parametrize("schema", GOOD_SCHEMAS, ids=str)
def test_a_schema_that_can_be_met_is_taken(schema: dict[str, Any]) -> None:
    assert schema_fault(schema) is None


def test_a_task_call_that_says_nothing_is_answered_in_json(tmp_path: Path) -> None:
    async def scenario(bench: ManagerBench) -> None:
        good = {"subagent_type": "general", "description": "Count", "prompt": "Count."}
        for name in ("description", "prompt"):
            for value in ("", "  ", "\u200b", "\0", 5):
                answer = await bench.call("task", {**good, name: value})
                assert answer["error"] == "invalid_argument" and name in answer["message"], (name, value)
        assert bench.manager.runs == {}
        assert (await bench.call("task", good))["success"] is True

    with FakeOpenAI() as fake:
        fake.script("child", match=for_sub_agent()).repeat(DONE)
        run(fake, tmp_path, scenario)


def test_what_nobody_thought_of_is_answered_in_json(tmp_path: Path) -> None:
    """A directory that cannot be looked into, reached where no check looks for it."""

    async def scenario(bench: ManagerBench) -> None:
        records = tmp_path / ".subagents"
        records.write_text("in the way")
        answer = await bench.call("create_sub_agent", GOOD)
        assert answer["success"] is False and answer["error"] in ("spawn_failed", "invalid_argument"), answer
        assert set(answer) == {"success", "error", "message"}
        records.unlink()
        bench.manager.runs.clear()
        assert (await bench.call("create_sub_agent", GOOD))["success"] is True

    with FakeOpenAI() as fake:
        fake.script("child", match=for_sub_agent()).repeat(hang())
        run(fake, tmp_path, scenario)


SLOW = {"type": "string", "pattern": "^(a+)+$"}


def test_a_pattern_without_end_does_not_hold_the_sub_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> float:
        with pytest.raises(ToolError, match="took more than"):
            began = asyncio.get_running_loop().time()
            await check_result("a" * 60 + "!", SLOW)
        took = asyncio.get_running_loop().time() - began
        await check_result("aaa", SLOW)
        with pytest.raises(ToolError, match="does not match"):
            await check_result("b", SLOW)
        return took

    monkeypatch.setattr(schemas, "CHECK_SECONDS", 3.0)
    assert 3.0 <= asyncio.run(scenario()) < 10.0
    assert [child for child in psutil.Process().children() if "schema_worker" in " ".join(child.cmdline())] == []


@pytest.mark.parametrize("text", ["", "[]", "null", "3", '"x"', '{"agent_id": 1', "{'agent_id': 1}"])
def test_broken_argument_text_is_answered_in_json(tmp_path: Path, text: str) -> None:
    async def scenario(bench: ManagerBench) -> None:
        answer = await bench.call("create_sub_agent", text)
        assert answer["error"] == "invalid_argument" and bench.manager.runs == {}

    with FakeOpenAI() as fake:
        run(fake, tmp_path, scenario)


def test_conflicts_and_limits_name_who_is_in_the_way(tmp_path: Path) -> None:
    async def scenario(bench: ManagerBench) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "alias").symlink_to("real")
        first = {**GOOD, "deliverables_dir": "real/out", "write_paths": ["src"]}
        assert (await bench.call("create_sub_agent", first))["success"]
        for number, changes in enumerate(
            [{"deliverables_dir": "real/out"}, {"deliverables_dir": "real"}, {"deliverables_dir": "real/out/in"},
             {"deliverables_dir": "alias/out"}, {"deliverables_dir": "src"}, {"deliverables_dir": "src/new"},
             {"deliverables_dir": "x", "write_paths": ["real/out/file.txt"]}, {"write_paths": ["alias"]}],
            start=2,
        ):  # fmt: skip
            answer = await bench.call("create_sub_agent", {**GOOD, "agent_id": number, **changes})
            assert answer["error"] == "directory_conflict" and "sub-agent 1 (Count the plots)" in answer["message"]
        reused = await bench.call("create_sub_agent", GOOD)
        assert reused["error"] == "agent_id_in_use" and reused["message"].endswith("the next free one is 2.")
        itself = {**GOOD, "agent_id": 2, "deliverables_dir": "two", "write_paths": ["two/x", "two"]}
        assert (await bench.call("create_sub_agent", itself))["success"]  # an agent does not conflict with itself
        full = await bench.call("create_sub_agent", {**GOOD, "agent_id": 3, "deliverables_dir": "real/other"})
        assert full["error"] == "limit_reached"
        assert "at most 2" in full["message"] and "1 (Count the plots), 2 (Count the plots)" in full["message"]
        assert len(bench.of(AgentCreated)) == 2
        await bench.call("terminate_sub_agent", {"agent_id": 1})
        freed = await bench.call("create_sub_agent", {**GOOD, "agent_id": 3, "deliverables_dir": "real/out"})
        assert freed["success"]  # slot and directory are free again

    with FakeOpenAI() as fake:
        fake.script("child", match=for_sub_agent()).repeat(hang())
        run(fake, tmp_path, scenario, max_concurrent=2)


def test_results_have_the_promised_keys(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.txt").write_text("from before")
    (tmp_path / "out" / "kept.txt").write_text("from before")

    async def scenario(bench: ManagerBench) -> None:
        blocking = {**GOOD, "run_in_background": False, "deliverables_dir": "out", "write_paths": ["extra.txt"]}
        done = await bench.call("create_sub_agent", blocking)
        assert list(done) == [
            "success", "agent_id", "status", "summary", "message", "deliverables_dir", "deliverables_files",
            "result_summary", "sub_conversation_id", "stats", "cause", "model", "usage", "files_written",
            "existing_files",
        ]  # fmt: skip
        assert done.items() >= {
            "success": True, "agent_id": 1, "status": "completed", "summary": "Count the plots",
            "message": "Sub-agent 1 has completed the task", "cause": "finish_task", "model": "fake-model",
            "deliverables_dir": "out", "result_summary": "42 plots",
        }.items()  # fmt: skip
        assert done["deliverables_files"] == ["b/new.txt", "old.txt", "report.md"]
        assert done["existing_files"] == ["kept.txt", "old.txt"]
        assert sorted(done["files_written"]) == ["extra.txt", "out/b/new.txt", "out/old.txt"]
        assert done["stats"].pop("runtime_seconds") >= 0
        assert done["stats"] == {"files_read": 1, "searches": 2, "web_pages": 0, "commands": 0}
        assert done["usage"] == {"prompt": 100, "completion": 10, "total": 110, "cost_usd": None}
        assert done["sub_conversation_id"].startswith("conv_")
        assert (tmp_path / "out" / "report.md").read_text() == "# Plots\n"
        background = await bench.call("create_sub_agent", {**GOOD, "agent_id": 2, "timeout_seconds": 90})
        assert background == {
            "success": True, "agent_id": 2, "status": "running", "summary": "Count the plots",
            "message": "Sub-agent 2 was started and runs in the background",
            "deliverables_dir": "sub_agent_results/agent_2", "sub_conversation_id": background["sub_conversation_id"],
            "background": True, "model": "fake-model", "timeout_seconds": 90, "automatic_notification": True,
        }  # fmt: skip
        assert bench.notices == []
        assert type(background["timeout_seconds"]) is int

    with FakeOpenAI() as fake:
        usage = {"prompt_tokens": 50, "completion_tokens": 5}
        first = fake.script("first", match=for_sub_agent(1))
        first.reply(replace(
            calls(
                call("read_file", path="a.txt"), call("read_file", path="./a.txt"), call("search_code", query="two"),
                call("search_files", pattern="*.txt"), call("write_file", path="out/b/new.txt", content="n"),
                call("write_file", path="out/old.txt", content="changed"),
                call("write_file", path="extra.txt", content="e"), call("write_file", path="a.txt", content="no"),
            ),
            usage=usage,
        ))  # fmt: skip
        report = calls(call("finish_task", success=True, summary="42 plots", report="# Plots\n"))
        first.reply(replace(report, usage=usage))
        fake.script("second", match=for_sub_agent(2)).repeat(hang())
        run(fake, tmp_path, scenario)
        refused = [m["content"] for m in first.requests[1].messages if m["role"] == "tool"][-1]
        assert refused.startswith("Error: write_file is denied: a sub-agent writes only in its own directories")
        assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"


def test_terminate_and_status_tell_the_truth_at_every_time(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        held = fake.gate()
        child = fake.script("child", match=for_sub_agent(1))
        child.reply(calls(call("write_file", path="sub_agent_results/agent_1/half.txt", content="half")))
        child.reply(DONE, gate=held)

        async def scenario(bench: ManagerBench) -> None:
            unknown = await bench.call("terminate_sub_agent", {"agent_id": 7})
            assert (unknown["success"], unknown["status"]) == (False, "unknown") and "known: none" in unknown["message"]
            await bench.call("create_sub_agent", GOOD)
            await reached(held)
            status = (await bench.call("get_sub_agent_status", {"agent_ids": [1, 9]}))["agents"]
            assert status[1] == {"agent_id": 9, "status": "unknown"}
            assert list(status[0]) == [
                "agent_id", "summary", "status", "runtime_seconds", "files_read", "searches", "web_pages", "commands",
                "last_action", "deliverables_dir", "tokens", "cost_usd", "message",
            ]  # fmt: skip
            assert status[0]["status"] == "running" and status[0]["message"].endswith("there is no result yet")
            assert status[0]["last_action"] == "Writing sub_agent_results/agent_1/half.txt"
            requests = len(fake.requests)
            first, second = await asyncio.gather(*[bench.call("terminate_sub_agent", {"agent_id": 1})] * 1,
                                                 bench.call("terminate_sub_agent", {"agent_id": 1}))  # fmt: skip
            assert first == second == await bench.call("terminate_sub_agent", {"agent_id": 1})  # idempotent
            assert first == {
                "success": True, "agent_id": 1, "status": "terminated", "message": "Sub-agent 1 was terminated",
                "partial_results": True, "deliverables_dir": "sub_agent_results/agent_1",
                "deliverables_files": ["half.txt"], "receipt": first["receipt"],
            }  # fmt: skip
            assert first["receipt"]["still_alive"] == 0
            assert not alive(pids(bench)[0])
            ended = (await bench.call("get_sub_agent_status", {"agent_ids": [1]}))["agents"][0]
            assert (ended["status"], ended["cause"], ended["result_summary"]) == ("terminated", "terminated", "")
            assert (len(fake.requests), bench.notices) == (requests, [])  # no model was called, nothing is told twice
            assert len(bench.of(AgentEnded)) == 1

        run(fake, tmp_path, scenario)
        child.take(child.requests[-1])


async def ended(bench: ManagerBench, run: SubAgentRun) -> None:
    async with asyncio.timeout(30):
        await run.ended.wait()
    await bench.until(lambda: bench.of(AgentEnded, run.job.agent_id))


def test_a_timeout_kills_the_tree_and_reports_what_was_made(tmp_path: Path) -> None:
    async def scenario(bench: ManagerBench) -> None:
        started = await bench.manager.start(request(timeout_seconds=4, run_in_background=True))
        await bench.until(lambda: bench.of(ToolFinished, 1))
        assert started.handle is not None
        tree = psutil.Process(started.handle.pid).children(recursive=True)
        assert tree  # the control: there is something to kill
        await ended(bench, started)
        end = started.end
        assert end is not None
        assert (end.status, end.cause, end.partial) == (SubAgentStatus.TIMEOUT, Cause.TIMEOUT, True)
        assert [file.path for file in end.files] == ["part.txt"]
        assert end.receipt.still_alive == 0 and end.receipt.processes_killed >= 2
        assert [process for process in tree if alive(process.pid)] == []
        [notice] = bench.notices
        assert notice.system_text.startswith("Sub-agent 1 (Count) has timed out.\n\nRuntime: 4 seconds\n")
        assert notice.system_text.endswith(
            "\n\nCause: the time limit of 4 seconds was reached\nFiles made so far (may be incomplete): part.txt"
        )

    with FakeOpenAI() as fake:
        command = "mkdir -p sub_agent_results/agent_1; echo x > sub_agent_results/agent_1/part.txt; setsid sleep 987 &"
        child = fake.script("child", match=for_sub_agent(1))
        child.reply(calls(call("run_command", command=command))).reply(calls(call("run_command", command="sleep 986")))
        run(fake, tmp_path, scenario, permissions="auto")


def test_a_killed_agent_is_told_with_all_it_did(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        held = fake.gate()
        child = fake.script("child", match=for_sub_agent(1))
        child.reply(calls(call("list_files"), text="I look around."))
        child.reply(DONE, gate=held)

        async def scenario(bench: ManagerBench) -> None:
            started = await bench.manager.start(request(run_in_background=True))
            await reached(held)
            os.kill(pids(bench)[0], signal.SIGKILL)
            await ended(bench, started)
            assert started.end is not None
            assert (started.end.status, started.end.cause) == (SubAgentStatus.FAILED, Cause.CRASH)
            assert (started.end.exit_code, started.end.result_summary) == (-signal.SIGKILL, "I look around.")
            record = json.loads((started.deliverables / ".subagent" / "conversations.json").read_bytes())
            assert [message["role"] for message in record["messages"]] == ["system", "user", "assistant", "tool"]
            assert record["completed_at"] == started.end.ended_at
            [notice] = bench.notices
            assert notice.user_text == (
                "子智能体1 (Count) 已失败。\n\nI look around.\n\n交付目录：sub_agent_results/agent_1"
                "\n\n原因：子智能体进程意外退出"
            )

        run(fake, tmp_path, scenario, language="zh")
        child.take(child.requests[-1])


def test_death_before_the_first_sign_of_life_is_spawn_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(bench: ManagerBench) -> None:
        monkeypatch.setenv("PYTHONHOME", "/nonexistent")
        answer = await bench.call("create_sub_agent", GOOD)
        assert (answer["success"], answer["error"]) == (False, "spawn_failed")
        assert "stderr.log" in answer["message"] and "exit code 1" in answer["message"]
        assert (bench.manager.runs, bench.notices, bench.manager.live_runs) == ({}, [], [])
        monkeypatch.delenv("PYTHONHOME")
        assert (await bench.call("create_sub_agent", {**GOOD, "run_in_background": False}))["status"] == "completed"

    with FakeOpenAI() as fake:
        fake.script("child", match=for_sub_agent(1)).reply(DONE)
        run(fake, tmp_path, scenario)


def test_an_endpoint_that_refuses_ends_the_agent_with_its_sentence(tmp_path: Path) -> None:
    async def scenario(bench: ManagerBench) -> None:
        answer = await bench.call("create_sub_agent", {**GOOD, "run_in_background": False})
        assert (answer["status"], answer["cause"]) == ("failed", "api_error")
        assert "(401)" in answer["error_detail"] and "bench-key" not in json.dumps(answer)

    with FakeOpenAI() as fake:
        fake.script("child").reply(error(401, "Incorrect API key provided: bench-key."))
        run(fake, tmp_path, scenario)


def test_the_default_directory_of_another_conversation_is_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "sub_agent_results" / "agent_1"
    other.mkdir(parents=True)
    (other / "theirs.txt").write_text("theirs")
    (tmp_path / "sub_agent_results" / "label-1" / "agent_1" / "theirs").mkdir(parents=True)

    async def scenario(bench: ManagerBench) -> None:
        for number, directory in ((1, "sub_agent_results/label-2/agent_1"), (2, "sub_agent_results/agent_2")):
            answer = await bench.call("create_sub_agent", {**GOOD, "agent_id": number})
            assert (answer["deliverables_dir"], "existing_files" in answer) == (directory, False)

    with FakeOpenAI() as fake:
        fake.script("child").repeat(hang())
        run(fake, tmp_path, scenario, label="label")
    assert [path.name for path in other.iterdir()] == ["theirs.txt"]


def test_a_structured_result_is_validated_before_it_is_taken(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"plots": {"type": "integer"}}, "required": ["plots"]}

    async def scenario(bench: ManagerBench) -> None:
        arguments = {**GOOD, "run_in_background": False, "output_schema": schema}
        answer = await bench.call("create_sub_agent", arguments)
        assert (answer["result"], answer["result_summary"]) == ({"plots": 42}, "right")

    with FakeOpenAI() as fake:
        child = fake.script("child")
        child.reply(calls(call("finish_task", success=True, summary="wrong", result={"plots": "42"})))
        child.reply(calls(call("finish_task", success=True, summary="none")))
        child.reply(calls(call("finish_task", success=True, summary="right", result={"plots": 42})))
        run(fake, tmp_path, scenario)
        assert json.dumps(schema) in child.requests[0].first_user_text
        assert "$.plots: '42' is not of type 'integer'" in child.requests[1].last_text
        assert "None is not of type 'object'" in child.requests[2].last_text


def test_an_earlier_record_in_the_same_directory_is_kept(tmp_path: Path) -> None:
    records = tmp_path / "out" / ".subagent"
    records.mkdir(parents=True)
    (records / "conversations.json").write_text("earlier")
    (records / "conversations.1.json").write_text("earliest")

    async def scenario(bench: ManagerBench) -> None:
        started = await bench.manager.start(request(deliverables_dir="out"))
        await bench.manager.stop(started)
        assert json.loads((records / "conversations.json").read_bytes())["agent_id"] == 1
        assert [(records / f"conversations.{n}.json").read_text() for n in (1, 2)] == ["earliest", "earlier"]

    with FakeOpenAI() as fake:
        fake.script("child").repeat(hang())
        run(fake, tmp_path, scenario)


def test_task_numbers_from_100_and_runs_beside_others(tmp_path: Path) -> None:
    async def scenario(bench: ManagerBench) -> None:
        arguments = {"subagent_type": "explore", "description": "Find plots", "prompt": "Find."}
        answers = await asyncio.gather(*(bench.call("task", arguments) for _ in range(3)))
        assert sorted(answer["agent_id"] for answer in answers) == [100, 101, 102]
        assert {answer["result_summary"] for answer in answers} == {"42 plots"}
        refused = await bench.call("task", {**arguments, "subagent_type": "nobody"})
        assert refused["error"] == "unknown_subagent_type"

    with FakeOpenAI() as fake:
        gates = [fake.gate() for _ in range(3)]
        script = fake.script("child")
        for gate in gates:
            script.reply(lambda request: DONE, gate=gate)

        def open_when_all_wait() -> None:
            assert all(gate.reached.wait(30) for gate in gates)  # all three live at the same time
            for gate in gates:
                gate.open()

        async def both(bench: ManagerBench) -> None:
            await asyncio.gather(scenario(bench), asyncio.to_thread(open_when_all_wait))

        run(fake, tmp_path, both)
        assert all("write_file" not in request.tool_names for request in script.requests)


def test_an_interrupted_start_leaves_nothing_half_started(tmp_path: Path) -> None:
    """The call is cancelled at every stage of a start: no slot stays taken, no process lives on."""

    async def scenario(bench: ManagerBench) -> None:
        for ticks in (0, 1, 3, 9):
            starting = asyncio.create_task(SubAgentCalls(bench.manager).create(request(agent_id=ticks + 1)))
            for _ in range(ticks):
                await asyncio.sleep(0)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                async with asyncio.timeout(20):
                    await starting
        assert bench.manager.live_runs == []
        answer = await bench.call("create_sub_agent", {**GOOD, "agent_id": 50, "run_in_background": False})
        assert answer["status"] == "completed"

    with FakeOpenAI() as fake:
        fake.script("child").repeat(DONE)
        run(fake, tmp_path, scenario)


def test_a_start_that_the_system_refuses_is_spawn_failed(tmp_path: Path) -> None:
    (tmp_path / ".subagents").symlink_to(tmp_path / "elsewhere")

    async def scenario(bench: ManagerBench) -> None:
        with pytest.raises(SubAgentError) as caught:
            await bench.manager.start(request())
        assert caught.value.code == "spawn_failed" and "symbolic link" in str(caught.value)
        assert bench.manager.runs == {}

    with FakeOpenAI() as fake:
        run(fake, tmp_path, scenario)
