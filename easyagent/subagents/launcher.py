"""Launchers start sub-agent processes. The shape is Popen's: start, events, send, wait, terminate."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Protocol

from easyagent.environment import agent_environment
from easyagent.models import (
    TIME_IS_UP,
    AgentEvent,
    AgentExit,
    KillReceipt,
    ModelSettings,
    Stop,
    SubAgentJob,
    parse_event,
)
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

    def hold_clock(self, held: bool) -> None:
        """Let the agent's time stand still, as while it waits for the user, or run on."""
        ...

    async def wait(self) -> AgentExit:
        """How it ended, once the whole tree is dead."""
        ...

    def terminate(self, stop: Stop, grace_seconds: float) -> Coroutine[Any, Any, None]:
        """Ask it to save and end, then kill its tree; returns when it is dead."""
        ...


class Launcher(Protocol):
    """Starts sub-agents somewhere and ends each at its job's time limit. The manager is its only caller."""

    note: str
    """One sentence where it works in another way than it should; else empty."""

    async def start(self, job: SubAgentJob, job_file: Path, settings: ModelSettings) -> Handle:
        """Start one. Raises OSError where no process can be had."""
        ...

    async def aclose(self) -> None:
        """Give back what it holds; its sub-agents have ended before."""
        ...


async def read_events(stream: asyncio.StreamReader) -> AsyncIterator[AgentEvent]:
    """The events of a sub-agent's stdout, to its end."""
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # a line over MAX_LINE_BYTES: what was buffered is dropped, the stream goes on
            continue
        if not line:
            return
        yield parse_event(line)


class Clock:
    """The time limit of a run on the monotonic clock, which can be held."""

    def __init__(self, seconds: float, on_end: Callable[[], None]) -> None:
        self._left, self._on_end = seconds, on_end
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.hold(False)

    def hold(self, held: bool) -> None:
        loop = asyncio.get_running_loop()
        if held and self._timer is not None:
            self.cancel()
            self._left -= loop.time() - self._since
        elif not held and self._timer is None:
            self._since = loop.time()
            self._timer = loop.call_later(self._left, self._on_end)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class LocalHandle:
    """A sub-agent as a process of this machine, leader of its own session."""

    def __init__(self, process: asyncio.subprocess.Process, timeout_seconds: float) -> None:
        self._process = process
        self.pid = process.pid
        self._started = time.monotonic()
        self._stop: Stop | None = None
        self._receipt: asyncio.Task[KillReceipt] | None = None
        self._clock = Clock(timeout_seconds, self._on_time_up)

    def events(self) -> AsyncIterator[AgentEvent]:
        assert self._process.stdout is not None
        return read_events(self._process.stdout)

    def send(self, control: Mapping[str, Any]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        if not stdin.is_closing():
            stdin.write(json.dumps(control).encode() + b"\n")

    def hold_clock(self, held: bool) -> None:
        self._clock.hold(held)

    async def wait(self) -> AgentExit:
        code = await self._process.wait()
        self._clock.cancel()
        receipt = await asyncio.shield(self._kill())
        if self._process.stdin is not None:
            self._process.stdin.close()
        runtime = int(time.monotonic() - self._started)
        return AgentExit(exit_code=code, receipt=receipt, stop=self._stop, runtime_seconds=runtime)

    async def terminate(self, stop: Stop, grace_seconds: float) -> None:
        self._stop = self._stop or stop
        self.send({"type": "stop"})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._process.wait()
        await asyncio.shield(self._kill())
        await self._process.wait()

    def _on_time_up(self) -> None:
        self._stop = self._stop or TIME_IS_UP
        self._kill()

    def _kill(self) -> asyncio.Task[KillReceipt]:
        """Kill what is left of the tree, once; in a thread, because it looks through all processes."""
        if self._receipt is None:
            self._receipt = asyncio.create_task(self._kill_tree())
        return self._receipt

    async def _kill_tree(self) -> KillReceipt:
        reaped = self._process.returncode is not None  # then its number may be another process's by now
        return await asyncio.to_thread(kill_tree, self.pid, spare_root=reaped)


class LocalLauncher:
    """Plain processes: `python -m easyagent.batch JOB`, settings and key over stdin. On every platform.

    From the first agent on, one process stands ready that has loaded everything and starts the next.
    """

    def __init__(self, note: str = "") -> None:
        self.note = note
        self._spare: tuple[asyncio.subprocess.Process, dict[str, str]] | None = None
        """The process that waits for a job, and its environment."""
        self._preparing: asyncio.Task[None] | None = None

    @property
    def spare_pid(self) -> int | None:
        """The process that waits for a job; None where there is none."""
        return self._spare[0].pid if self._spare else None

    async def start(self, job: SubAgentJob, job_file: Path, settings: ModelSettings) -> LocalHandle:
        process = self._take_spare(job, job_file)
        if process is None:
            with (job_file.parent / "stderr.log").open("wb") as errors:
                process = await _spawn(str(job_file), Path(job.workspace), errors.fileno(), agent_environment())
        assert process.stdin is not None
        process.stdin.write(settings.line() + b"\n")
        if self._preparing is None or self._preparing.done():
            self._preparing = asyncio.create_task(self.prepare(Path(job.workspace)))
        return LocalHandle(process, job.timeout_seconds)

    async def aclose(self) -> None:
        if self._preparing is not None:
            await self._preparing
        if self._spare is not None:
            process, self._spare = self._spare[0], None
            await _end_spare(process)

    def _take_spare(self, job: SubAgentJob, job_file: Path) -> asyncio.subprocess.Process | None:
        """The waiting process with its job, where there is one that lives in the environment of now."""
        if self._spare is None or not Path(job.workspace).is_dir():
            return None
        (process, environment), self._spare = self._spare, None
        if process.returncode is not None or environment != agent_environment():
            self._preparing = asyncio.create_task(_end_spare(process))
            return None
        assert process.stdin is not None
        process.stdin.write(json.dumps({"job_file": str(job_file), "workspace": job.workspace}).encode() + b"\n")
        return process

    async def prepare(self, directory: Path) -> None:
        """Have a process stand ready; it begins in `directory`."""
        if self._spare is not None:
            return
        environment = agent_environment()
        with contextlib.suppress(OSError):  # then the next one starts as the first did
            process = await _spawn("--wait", directory, asyncio.subprocess.DEVNULL, environment)
            self._spare = process, environment


async def _spawn(
    argument: str, directory: Path, errors: int, environment: dict[str, str]
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # the workspace, which is the working directory, must not shadow modules
        "-m",
        "easyagent.batch",
        argument,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=errors,
        cwd=directory,
        env=environment,
        start_new_session=True,
        limit=MAX_LINE_BYTES,
    )


async def _end_spare(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()  # it has no child and nothing to save
    await process.communicate()  # closes its pipes too
