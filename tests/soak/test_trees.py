"""Commands that try to outlive their agent: a stop and a time limit end each kind, to the last process."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from easyagent.models import TERMINATED, TIME_IS_UP, AgentExit, ToolFinished
from easyagent.subagents import HostLauncher, RunStore
from easyagent.testing import FakeOpenAI, call, calls, hang, hostile
from easyagent.testing.bench import settings_of
from easyagent.testing.launcher_contract import StartedAgent, lives, make_job

PROCESSES = {"tree of 16": 16, "own subreaper": 2, "respawner": 2}
"""How many processes with the tag a kind becomes, where it is more than one."""
SLEEPERS = {"plain": 1, "setsid": 2, "nohup": 1, "clean environment": 1, "stopped": 1, "pipe holder": 1}
"""How many `sleep` programs the kinds made of shells end in."""
RETURNING = ("nohup", "double fork", "clean environment", "pipe holder")
"""Kinds whose shell ends at once: it is no part of the tree that is counted."""
CHANGING = ("pid hopper", "TERM ignored")
"""Kinds whose processes change all the time: how many there were cannot be counted from outside."""


@pytest.mark.parametrize("confined", [True, False], ids=["confined", "free"])
@pytest.mark.parametrize("how", ["terminate", "timeout"])
def test_no_tree_outlives_its_agent(
    how: str, confined: bool, tmp_path: Path, times: Callable, reached: Callable
) -> None:
    async def main(fake: FakeOpenAI) -> None:
        launcher = HostLauncher()
        try:
            for _ in range(times(1, 12)):
                for number, kind in enumerate(hostile.KINDS, 1):
                    await end_one(fake, launcher, number, kind)
                    reached(f"hostile trees ended by {how}, {'confined' if confined else 'free'}")
        finally:
            await launcher.aclose()

    async def end_one(fake: FakeOpenAI, launcher: HostLauncher, number: int, kind: str) -> None:
        tag = f"tag-{uuid.uuid4().hex}"
        script = fake.script(tag, match=tag)
        script.reply(calls(call("run_command", command=hostile.command(kind, tag))))
        script.repeat(hang())
        job = make_job(
            agent_id=number, task=f"Run {tag}.", workspace=str(tmp_path), permissions="auto", confined=confined,
            timeout_seconds=0.2 if how == "timeout" else 600, deliverables_dir=tag,
        )  # fmt: skip
        job_file = RunStore(tmp_path).create(job)
        handle = await launcher.start(job, job_file, settings_of(fake))
        handle.hold_clock(True)
        agent = StartedAgent(job, job_file.parent, handle)
        if kind in RETURNING:
            await agent.until(ToolFinished)
        ending = asyncio.create_task(agent.end())
        await asyncio.to_thread(hostile.started, tag, PROCESSES.get(kind, 1))
        tree = await asyncio.to_thread(settled, handle.pid, kind)
        if how == "timeout":
            handle.hold_clock(False)
        else:
            await handle.terminate(TERMINATED, 1.0)
            assert hostile.tagged(tag) == []  # at once: the answer is a receipt
        ended = await ending
        assert hostile.tagged(tag) == [], kind
        check_receipt(ended, tree, kind)
        assert ended.stop == (TIME_IS_UP if how == "timeout" else TERMINATED)

    with FakeOpenAI() as fake:
        asyncio.run(main(fake))


def settled(agent_pid: int, kind: str) -> int:
    """How many processes the agent and its commands are, once that number stands."""
    agent = psutil.Process(agent_pid)
    counts = [0]

    def stands() -> bool:
        counts.append(sum(lives(process.pid) for process in agent.children(recursive=True)) + 1)
        sleepers = sum(name_of(process) == "sleep" for process in agent.children(recursive=True))
        return sleepers >= SLEEPERS.get(kind, 0) and len(set(counts[-5:])) == 1 < len(counts) - 4

    if kind not in CHANGING:
        hostile.until(stands)
    return counts[-1]


def name_of(process: psutil.Process) -> str:
    """Its name; empty where it has ended meanwhile."""
    try:
        return process.name()
    except psutil.Error:
        return ""


def check_receipt(ended: AgentExit, tree: int, kind: str) -> None:
    """The receipt says what `ps` said: how many there were, and that nothing is left."""
    assert ended.receipt.still_alive == 0
    if kind not in CHANGING:
        assert ended.receipt.processes_killed == tree, kind
