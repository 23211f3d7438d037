"""Launchers start sub-agent processes. The shape is Popen's: start, events, send, wait, terminate."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

from easyagent.environment import agent_environment
from easyagent.models import AgentEvent, KillReceipt, ModelSettings, SubAgentJob, parse_event
from easyagent.processes import kill_tree

MAX_LINE_BYTES = 64 * 1024 * 1024


class Handle(Protocol):
    """One started sub-agent."""

    pid: int

    def events(self) -> AsyncIterator[AgentEvent]:
        """The events as they come; ends with the process. Read once."""
        ...

    def send(self, control: Mapping[str, Any]) -> None:
        """One control line to the sub-agent; lost where it has ended."""
        ...

    async def wait(self) -> tuple[int, KillReceipt]:
        """Exit code, and what was killed, once the whole tree is dead."""
        ...

    def terminate(self, grace_seconds: float) -> Coroutine[Any, Any, None]:
        """Ask it to save and end, then kill its tree; returns when it is dead."""
        ...


class Launcher(Protocol):
    """Starts sub-agents somewhere. The manager is its only caller."""

    async def start(self, job: SubAgentJob, job_file: Path, settings: ModelSettings) -> Handle:
        """Start one. Raises OSError where no process can be had."""
        ...


class LocalHandle:
    """A sub-agent as a process of this machine, leader of its own session."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid
        self._receipt: asyncio.Task[KillReceipt] | None = None

    async def events(self) -> AsyncIterator[AgentEvent]:
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:  # a line over MAX_LINE_BYTES: what was buffered is dropped, the stream goes on
                continue
            if not line:
                return
            yield parse_event(line)

    def send(self, control: Mapping[str, Any]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        if not stdin.is_closing():
            stdin.write(json.dumps(control).encode() + b"\n")

    async def wait(self) -> tuple[int, KillReceipt]:
        code = await self._process.wait()
        receipt = await asyncio.shield(self._kill())
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code, receipt

    async def terminate(self, grace_seconds: float) -> None:
        self.send({"type": "stop"})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._process.wait()
        await asyncio.shield(self._kill())
        await self._process.wait()

    def _kill(self) -> asyncio.Task[KillReceipt]:
        """Kill what is left of the tree, once; in a thread, because it looks through all processes."""
        if self._receipt is None:
            self._receipt = asyncio.create_task(self._kill_tree())
        return self._receipt

    async def _kill_tree(self) -> KillReceipt:
        reaped = self._process.returncode is not None  # then its number may be another process's by now
        return await asyncio.to_thread(kill_tree, self.pid, spare_root=reaped)


class LocalLauncher:
    """Plain processes: `python -m easyagent.batch JOB`, settings and key over stdin."""

    async def start(self, job: SubAgentJob, job_file: Path, settings: ModelSettings) -> LocalHandle:
        with (job_file.parent / "stderr.log").open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # the workspace, which is the working directory, must not shadow modules
                "-m",
                "easyagent.batch",
                str(job_file),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=job.workspace,
                env=agent_environment(),
                start_new_session=True,
                limit=MAX_LINE_BYTES,
            )
        assert process.stdin is not None
        process.stdin.write(settings.line() + b"\n")
        return LocalHandle(process)
