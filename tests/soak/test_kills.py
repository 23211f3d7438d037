"""SIGKILL of an agent at any moment: what it said is on disk, all of it can be read, and its end is recorded."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from easyagent.builtin_agents import GENERAL_AGENT
from easyagent.directory import Directory
from easyagent.journal import Journal
from easyagent.models import AgentEvent, SubAgentStatus, TurnStarted
from easyagent.subagents import HostLauncher, RunStore
from easyagent.testing import FakeOpenAI, call, calls
from easyagent.testing.bench import settings_of
from easyagent.testing.launcher_contract import make_job

BUSY_SECONDS = 0.4
"""An agent of this test is killed within this time: it works without a pause all the while."""
BUSY = replace(GENERAL_AGENT, max_iterations=None)
LONG = "x" * 20_000
CALLS = calls(call("write_file", path="out/a.txt", content=LONG), call("list_files"), text=LONG)


def test_a_killed_agent_loses_nothing_that_it_said(tmp_path: Path, times: Callable, reached: Callable) -> None:
    chance = random.Random(os.environ.get("SOAK_SEED", "1"))
    count = times(10, 500)

    async def main(fake: FakeOpenAI) -> None:
        fake.script("agents").repeat(CALLS)
        launcher = HostLauncher()
        try:
            for number in range(count):
                workspace = tmp_path / str(number)
                workspace.mkdir()
                await kill_one(fake, launcher, workspace, chance.uniform(0, BUSY_SECONDS))
                reached("SIGKILL of an agent at a random moment")
        finally:
            await launcher.aclose()

    async def kill_one(fake: FakeOpenAI, launcher: HostLauncher, workspace: Path, after_seconds: float) -> None:
        store, job = RunStore(workspace), make_job(workspace=str(workspace), definition=BUSY)
        handle = await launcher.start(job, store.create(job), settings_of(fake))
        asyncio.get_running_loop().call_later(after_seconds, os.kill, handle.pid, signal.SIGKILL)
        said: list[AgentEvent] = [event async for event in handle.events()]
        ended = await handle.wait()
        assert ended.exit_code == -signal.SIGKILL
        kept = store.events(job.sub_conversation_id)
        # The last line may have been cut on its way here, and one more may be on disk than was said.
        whole = [event for event in said if event.type != "output"]
        assert kept[: len(whole)] == whole and len(kept) - len(whole) <= 1
        end = store.end(job.sub_conversation_id)
        assert end is not None and end.status is SubAgentStatus.FAILED and end.receipt.still_alive == 0
        record = json.loads((workspace / "out" / ".subagent" / "conversations.json").read_bytes())
        assert record["completed_at"] == end.ended_at
        assert record["messages"] == store.summary(job.sub_conversation_id).messages
        check_writable(store, job.sub_conversation_id, len(kept))

    with FakeOpenAI() as fake:
        asyncio.run(main(fake))


def check_writable(store: RunStore, run_id: str, count: int) -> None:
    """The next writer goes on after the last whole event, and leaves none out."""
    with Directory.open(store.directory(run_id)) as directory:
        journal = Journal(directory)
        journal.append(TurnStarted(turn=99))
        journal.close()
    assert [event.seq for event in store.events(run_id)] == list(range(count + 1))
