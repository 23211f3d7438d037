"""HostLauncher: sub-agents forked from a warm host process, each under a keeper (Linux). See docs/processes.md."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from easyagent.environment import agent_environment
from easyagent.models import AgentEvent, AgentExit, ModelSettings, Stop, SubAgentJob
from easyagent.models.host import AgentGone, AgentRefused, AgentStarted, FromKeeper, HoldClock, StartAgent, StopAgent
from easyagent.processes import kill_tree
from easyagent.subagents.launcher import MAX_LINE_BYTES, Handle, Launcher, LocalLauncher, read_events

START_SECONDS = 60.0
CLOSE_SECONDS = 10.0
LOG_BYTES = 4000


def open_launcher() -> Launcher:
    """The best launcher of this platform."""
    if sys.platform.startswith("linux") and hasattr(os, "pidfd_open"):
        return HostLauncher()
    return LocalLauncher()


class HostUnavailable(OSError):
    """No host can be had; the message says why."""


class HostLauncher:
    """Asks a host process, started with the first sub-agent, to fork each one. Where none can be had, it starts plain
    processes and `note` says why."""

    def __init__(self) -> None:
        self.note = ""
        self._host: _Host | None = None
        self._starting = asyncio.Lock()
        self._plain: LocalLauncher | None = None

    @property
    def host_pid(self) -> int | None:
        return self._host.pid if self._host is not None else None

    async def start(self, job: SubAgentJob, job_file: Path, settings: ModelSettings) -> Handle:
        if self._plain is None:
            try:
                return await self._fork(job, job_file, settings)
            except HostUnavailable as reason:
                self.note = f"Sub-agents start as plain processes: {reason}."
                self._plain = LocalLauncher()
        return await self._plain.start(job, job_file, settings)

    async def aclose(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            await host.aclose()

    async def _fork(self, job: SubAgentJob, job_file: Path, settings: ModelSettings) -> Handle:
        async with self._starting:
            if self._host is None or not self._host.alive:
                self._host = await _Host.start()
            host = self._host
        request = StartAgent(
            job_file=str(job_file),
            workspace=job.workspace,
            timeout_seconds=job.timeout_seconds,
            environment=agent_environment(),
        )
        return await HostHandle.start(host, request, settings)


class _Host:
    """The host process and the socket on which agents are asked for."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process, self._control = process, control
        self.pid = process.pid
        self._log = b""
        self._reading = asyncio.create_task(self._read_log())

    @classmethod
    async def start(cls) -> _Host:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            ours.setblocking(False)
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable, "-P", "-m", "easyagent.batch.host", str(theirs.fileno()), str(os.getpid()),
                    stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
                    pass_fds=(theirs.fileno(),), env=agent_environment(), cwd="/", start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                ours.close()
                raise HostUnavailable(f"the host cannot be started: {error}") from error
        return cls(process, ours)

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    def ask(self, request: StartAgent, descriptors: list[int]) -> None:
        """Raises OSError where the host is gone or takes nothing."""
        socket.send_fds(self._control, [request.line()], descriptors)

    async def reason(self) -> str:
        """Why it is gone: the last line of what it said."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._process.wait()
                await self._reading
        lines = self._log.decode("utf-8", "replace").strip().splitlines()
        return f"the host ended ({lines[-1] if lines else f'exit code {self._process.returncode}'})"

    async def aclose(self) -> None:
        self._control.close()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._process.wait()
        except TimeoutError:
            await asyncio.to_thread(kill_tree, self.pid)
            await self._process.wait()
        await self._reading

    async def _read_log(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(LOG_BYTES):
            self._log = (self._log + data)[-LOG_BYTES:]


class HostHandle:
    """One forked agent: its own pipes, and the socket to its keeper."""

    def __init__(
        self,
        pid: int,
        stdin: asyncio.WriteTransport,
        stdout: tuple[asyncio.StreamReader, asyncio.ReadTransport],
        keeper: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.pid = pid
        self._stdin = stdin
        self._stdout, self._transport = stdout
        self._said, self._keeper = keeper
        self._exit = asyncio.create_task(self._await_exit())

    @classmethod
    async def start(cls, host: _Host, request: StartAgent, settings: ModelSettings) -> HostHandle:
        """Raises HostUnavailable where the host is gone, OSError where it has no process to give."""
        loop = asyncio.get_running_loop()
        (stdin_theirs, stdin_ours), (stdout_ours, stdout_theirs) = os.pipe(), os.pipe()
        ours, theirs = socket.socketpair()
        try:
            host.ask(request, [stdin_theirs, stdout_theirs, theirs.fileno()])
        except OSError as error:
            for descriptor in (stdin_ours, stdout_ours):
                os.close(descriptor)
            ours.close()
            raise HostUnavailable(await host.reason() if _is_gone(error) else str(error)) from error
        finally:
            for descriptor in (stdin_theirs, stdout_theirs):
                os.close(descriptor)
            theirs.close()
        stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(stdin_ours, "wb", 0))
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(stdout_ours, "rb", 0)
        )
        keeper = await asyncio.open_unix_connection(sock=ours)
        try:
            pid = await cls._await_start(host, keeper[0])
        except BaseException:
            stdin.close()
            transport.close()
            keeper[1].close()
            raise
        stdin.write(settings.line() + b"\n")
        return cls(pid, stdin, (reader, transport), keeper)

    @staticmethod
    async def _await_start(host: _Host, said: asyncio.StreamReader) -> int:
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await said.readline()
        except TimeoutError:
            raise HostUnavailable(f"the host did not answer within {START_SECONDS:g} s") from None
        if not line:
            raise HostUnavailable(await host.reason() if not host.alive else "the agent's keeper ended at once")
        answer = FromKeeper.validate_json(line)
        if isinstance(answer, AgentRefused):
            raise OSError(answer.error)
        assert isinstance(answer, AgentStarted)
        return answer.pid

    def events(self) -> AsyncIterator[AgentEvent]:
        return read_events(self._stdout)

    def send(self, control: Mapping[str, Any]) -> None:
        if not self._stdin.is_closing():
            self._stdin.write(json.dumps(control).encode() + b"\n")

    def hold_clock(self, held: bool) -> None:
        self._tell(HoldClock(held=held))

    async def wait(self) -> AgentExit:
        return await asyncio.shield(self._exit)

    async def terminate(self, stop: Stop, grace_seconds: float) -> None:
        self._tell(StopAgent(stop=stop, grace_seconds=grace_seconds))
        await self.wait()

    def _tell(self, message: StopAgent | HoldClock) -> None:
        if not self._keeper.is_closing():
            self._keeper.write(message.line())

    async def _await_exit(self) -> AgentExit:
        """The keeper's last word; where it died without one, what it kept is seen to be dead."""
        try:
            line = b""
            with contextlib.suppress(OSError):
                line = await self._said.readline()
            if line:
                answer = FromKeeper.validate_json(line)
                assert isinstance(answer, AgentGone)
                return answer.exit
            return AgentExit(receipt=await asyncio.to_thread(kill_tree, self.pid))
        finally:
            self._stdin.close()
            self._keeper.close()


def _is_gone(error: OSError) -> bool:
    return isinstance(error, BrokenPipeError | ConnectionError)
