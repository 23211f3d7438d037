"""Both launchers pass one contract; the host's own promises; what holds where it cannot be had."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from easyagent.models import ModelSettings, SubAgentJob
from easyagent.processes import wait_gone
from easyagent.subagents import HostLauncher, Launcher, LocalLauncher, RunStore
from easyagent.subagents.launcher import LocalHandle
from easyagent.testing import FakeOpenAI
from easyagent.testing.bench import settings_of
from easyagent.testing.launcher_contract import DONE, LauncherContract, lives, make_job


class TestLocalLauncher(LauncherContract):
    def make_launcher(self) -> Launcher:
        return LocalLauncher()


class Prepared(LocalLauncher):
    """Every agent starts from a process that stood ready."""

    async def start(self, job: SubAgentJob, job_file: Path, settings: ModelSettings) -> LocalHandle:
        if Path(job.workspace).is_dir():
            await self.prepare(Path(job.workspace))
            spare = self.spare_pid
            handle = await super().start(job, job_file, settings)
            assert handle.pid == spare
            return handle
        return await super().start(job, job_file, settings)


class TestSpareProcess(LauncherContract):
    def make_launcher(self) -> Launcher:
        return Prepared()


class TestHostLauncher(LauncherContract):
    def make_launcher(self) -> Launcher:
        return HostLauncher()


def test_a_spare_is_not_taken_when_it_has_died_or_the_environment_has_changed(tmp_path: Path, monkeypatch: Any) -> None:
    async def main(fake: FakeOpenAI) -> list[bool]:
        launcher, taken, spares = LocalLauncher(), [], []
        for number, change in enumerate(("none", "environment", "death")):
            await launcher.prepare(tmp_path)
            spare = launcher.spare_pid
            assert spare is not None
            spares.append(spare)
            if change == "environment":
                monkeypatch.setenv("TZ", "UTC+1")
            if change == "death":
                os.kill(spare, signal.SIGKILL)
                await asyncio.to_thread(wait_gone, spare, 30)
            job = make_job(agent_id=number + 1, workspace=str(tmp_path), deliverables_dir=f"out{number}")
            handle = await launcher.start(job, RunStore(tmp_path).create(job), settings_of(fake))
            taken.append(handle.pid == spare)
            assert [event async for event in handle.events()]
            assert (await handle.wait()).exit_code == 0
        await launcher.aclose()
        assert launcher.spare_pid is None and [pid for pid in spares if lives(pid)] == []
        return taken

    with FakeOpenAI() as fake:
        for _ in range(3):
            fake.script("agent").reply(DONE)
        assert asyncio.run(main(fake)) == [True, False, False]
