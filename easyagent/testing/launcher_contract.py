"""What any launcher of sub-agents must do, as a suite that pytest collects from a class derived from it:

class TestMyLauncher(LauncherContract):
    def make_launcher(self) -> Launcher:
        return MyLauncher()

Each test runs real agents against a scripted endpoint in the directory that pytest gives as `tmp_path`.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import psutil

from easyagent.builtin_agents import GENERAL_AGENT
from easyagent.models import (
    TERMINATED,
    TIME_IS_UP,
    AgentEvent,
    AgentExit,
    Conclusion,
    MessageAdded,
    Started,
    SubAgentJob,
    ToolFinished,
    TurnStarted,
)
from easyagent.subagents.launcher import Handle, Launcher
from easyagent.subagents.store import RunStore
from easyagent.testing import hostile
from easyagent.testing.bench import settings_of
from easyagent.testing.fake_openai import FakeOpenAI
from easyagent.testing.script import Gate, call, calls, hang

DONE = calls(call("finish_task", success=True, summary="42 plots"))
KEY = "sk-contract-secret-key"
PATIENCE_SECONDS = 60


class StartedAgent:
    """One agent and what it has said so far."""

    def __init__(self, job: SubAgentJob, directory: Path, handle: Handle) -> None:
        self.job, self.directory, self.handle = job, directory, handle
        self.events: list[AgentEvent] = []
        self._stream = handle.events()

    async def until(self, kind: type[AgentEvent], count: int = 1) -> None:
        """Read events until `count` of a kind have come."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while sum(isinstance(event, kind) for event in self.events) < count:
                self.events.append(await anext(self._stream))

    async def end(self) -> AgentExit:
        """The rest of the events, and how it ended."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            self.events += [event async for event in self._stream]
            return await self.handle.wait()


class LauncherContract:
    """Derive, and give the launcher."""

    def make_launcher(self) -> Launcher:
        raise NotImplementedError

    def run(self, workspace: Path, scenario: Callable[[FakeOpenAI, Any], Coroutine[Any, Any, None]]) -> None:
        """Run a scenario with a function that starts agents, and see that nothing of them is left."""
        agents: list[StartedAgent] = []

        async def main(fake: FakeOpenAI) -> None:
            launcher = self.make_launcher()

            async def start(**changes: Any) -> StartedAgent:
                job = make_job(**{"workspace": str(workspace), **changes})
                job_file = RunStore(workspace).create(job)
                agent = StartedAgent(job, job_file.parent, await launcher.start(job, job_file, settings_of(fake, KEY)))
                agents.append(agent)
                return agent

            try:
                await scenario(fake, start)
            finally:
                await asyncio.gather(*(agent.handle.terminate(TERMINATED, 0.0) for agent in agents))
                await launcher.aclose()

        with FakeOpenAI(token=KEY) as fake:
            asyncio.run(main(fake))
        assert [agent.handle.pid for agent in agents if lives(agent.handle.pid)] == []

    def test_an_agent_runs_to_its_end_and_says_everything_once(self, tmp_path: Path) -> None:
        async def scenario(fake: FakeOpenAI, start: Any) -> None:
            fake.script("agent").reply(calls(call("write_file", path="out/a.txt", content="a"))).reply(DONE)
            agent = await start()
            await agent.until(Started)
            process = psutil.Process(agent.handle.pid)
            assert KEY not in " ".join([*process.cmdline(), *process.environ().values()])
            assert (os.getsid(process.pid), process.cwd()) == (process.pid, str(tmp_path))
            ended = await agent.end()
            assert (ended.exit_code, ended.stop, ended.receipt.still_alive) == (0, None, 0)
            assert isinstance(agent.events[0], Started) and agent.events[0].pid == process.pid
            assert isinstance(agent.events[-1], Conclusion) and agent.events[-1].content == "42 plots"
            assert [event.seq for event in agent.events] == list(range(len(agent.events)))
            assert RunStore(tmp_path).events(agent.job.sub_conversation_id) == agent.events
            assert (tmp_path / "out" / "a.txt").read_text() == "a"

        self.run(tmp_path, scenario)

    def test_a_message_reaches_the_agent(self, tmp_path: Path) -> None:
        async def scenario(fake: FakeOpenAI, start: Any) -> None:
            gate = Gate()
            fake.script("agent").reply(calls(call("list_files")), gate=gate).reply(DONE)
            agent = await start()
            await agent.until(TurnStarted)
            agent.handle.send({"type": "message", "text": "Only the north."})
            agent.handle.send({"type": "no such control"})
            gate.open()
            await agent.end()
            said = [event.message.get("content") for event in agent.events if isinstance(event, MessageAdded)]
            assert sum("Only the north." in str(content) for content in said) == 1

        self.run(tmp_path, scenario)

    def test_a_stopped_agent_saves_and_says_why_it_ended(self, tmp_path: Path) -> None:
        async def scenario(fake: FakeOpenAI, start: Any) -> None:
            fake.script("agent").repeat(hang())
            agent = await start()
            await agent.until(TurnStarted)
            await agent.handle.terminate(TERMINATED, 30.0)
            ended = await agent.end()
            assert ended.stop == TERMINATED and ended.receipt.still_alive == 0
            assert isinstance(agent.events[-1], Conclusion)
            await agent.handle.terminate(TERMINATED, 30.0)  # a second time changes nothing
            assert await agent.handle.wait() == ended

        self.run(tmp_path, scenario)

    def test_a_stop_ends_trees_that_would_outlive_it(self, tmp_path: Path) -> None:
        async def scenario(fake: FakeOpenAI, start: Any) -> None:
            tag = f"tag-{uuid.uuid4().hex}"
            script = fake.script("agent")
            for kind in ("pipe holder", "clean environment", "double fork"):
                script.reply(calls(call("run_command", command=hostile.command(kind, tag))))
            script.repeat(hang())
            agent = await start(permissions="auto")
            await agent.until(ToolFinished, count=3)
            assert len(await asyncio.to_thread(hostile.started, tag, 3)) >= 3
            await agent.handle.terminate(TERMINATED, 0.0)
            assert hostile.tagged(tag) == []
            assert (await agent.end()).receipt.still_alive == 0

        self.run(tmp_path, scenario)

    def test_an_agent_that_dies_is_seen_to_have_died(self, tmp_path: Path) -> None:
        async def scenario(fake: FakeOpenAI, start: Any) -> None:
            fake.script("agent").repeat(hang())
            agent = await start()
            await agent.until(TurnStarted)
            psutil.Process(agent.handle.pid).kill()
            ended = await agent.end()
            assert (ended.exit_code, ended.stop) == (-9, None)

        self.run(tmp_path, scenario)

    def test_the_time_limit_ends_a_run_and_stands_still_while_it_is_held(self, tmp_path: Path) -> None:
        async def scenario(fake: FakeOpenAI, start: Any) -> None:
            fake.script("agent").repeat(hang())
            short, held = await start(timeout_seconds=0.5), await start(timeout_seconds=0.5, deliverables_dir="other")
            held.handle.hold_clock(True)
            await held.until(Started)
            assert (await short.end()).stop == TIME_IS_UP
            longer = await start(timeout_seconds=0.5, deliverables_dir="third")  # its time passes after the first one's
            assert (await longer.end()).stop == TIME_IS_UP
            assert lives(held.handle.pid)
            held.handle.hold_clock(False)
            assert (await held.end()).stop == TIME_IS_UP

        self.run(tmp_path, scenario)

    def test_where_no_process_can_be_had_it_raises(self, tmp_path: Path) -> None:
        async def scenario(fake: FakeOpenAI, start: Any) -> None:
            try:
                await start(workspace=str(tmp_path / "gone"))
            except OSError as error:
                assert "gone" in str(error)
            else:
                raise AssertionError("started without a workspace")
            fake.script("agent").reply(DONE)  # the control: the launcher still works
            assert (await (await start()).end()).exit_code == 0

        self.run(tmp_path, scenario)

    def test_many_at_once_do_not_disturb_each_other(self, tmp_path: Path) -> None:
        async def scenario(fake: FakeOpenAI, start: Any) -> None:
            fake.script("agents").repeat(DONE)
            agents = await asyncio.gather(
                *(start(agent_id=number, deliverables_dir=f"d{number}") for number in range(1, 9))
            )
            ends = await asyncio.gather(*(agent.end() for agent in agents))
            assert [ended.exit_code for ended in ends] == [0] * 8
            for agent in agents:
                assert [event.seq for event in agent.events] == list(range(len(agent.events)))

        self.run(tmp_path, scenario)


def make_job(**values: Any) -> SubAgentJob:
    """A job with a run id of its own; a workspace must be given."""
    return SubAgentJob(
        **{
            "agent_id": 1, "sub_conversation_id": f"conv_{uuid.uuid4().hex[:12]}", "conversation_id": "main_1",
            "summary": "Plots", "task": "Count.", "definition": GENERAL_AGENT, "deliverables_dir": "out",
            "created_at": "2026-01-01T00:00:00Z", **values,
        }
    )  # fmt: skip


def lives(pid: int) -> bool:
    """False for zombies too: what nobody reaps in a container is dead all the same."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
