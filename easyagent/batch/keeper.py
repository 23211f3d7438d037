"""Keeper: the parent of one sub-agent's process. It sees that the agent ends in time, ends whole, and is recorded.

The host forks one for each agent (Linux). It is the subreaper of all that the agent starts, holds the deadline on the
monotonic clock, and watches the kernel; so all of this holds while the kernel computes, stands still or is gone.

One stands beside every agent, so it runs as little Python as it can: each page that it touches is a page copied.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from easyagent.batch.worker import EXIT_PARENT_GONE, run_job
from easyagent.models import KERNEL_GONE, TIME_IS_UP, AgentExit, KillReceipt, Stop, SubAgentJob
from easyagent.models.host import AgentGone, AgentRefused, StartAgent, StopAgent, ToKeeper
from easyagent.processes import name_process
from easyagent.sandbox import subreaper
from easyagent.subagents.ending import record_end
from easyagent.subagents.store import RunStore

MAX_CONTROL_BYTES = 65536


class Keeper:
    """Starts one agent and stays until nothing of it lives and its end is on disk."""

    def __init__(self, request: StartAgent, control: int, kernel: int) -> None:
        self._request = request
        self._control, self._kernel = control, kernel
        self._started = time.monotonic()
        self._deadline = self._started + request.timeout_seconds
        self._held_at: float | None = None
        self._kill_at: float | None = None
        self._stop: Stop | None = None
        self._agent = 0
        self._exit_code: int | None = None
        self._usage: Any = None
        self._found: set[int] = set()
        self._rest = b""

    def keep(self, stdin: int, stdout: int) -> None:
        """From the agent's first moment to its recorded end."""
        name_process("easyagent-keep")
        subreaper.become_subreaper()
        try:
            self._agent = self._fork(stdin, stdout)
        except OSError as error:
            self._say(AgentRefused(error=str(error)).line())
            return
        os.close(stdin)
        os.close(stdout)
        self._say(b'{"type":"started","pid":%d}\n' % self._agent)  # AgentStarted, spelled out
        self._watch()
        killed, left = subreaper.kill_below(self._collect)
        killed |= self._found
        if self._stop is None and (self._exit_code == EXIT_PARENT_GONE or _readable(self._kernel)):
            self._stop = KERNEL_GONE  # the agent saw it first
        ended = self._exit(KillReceipt(processes_killed=len(killed), still_alive=left))
        try:
            self._take_environment()
            job = SubAgentJob.model_validate_json(Path(self._request.job_file).read_bytes())
            record_end(RunStore(Path(self._request.workspace)), job, ended)
        except Exception:  # then the kernel records it, and says so
            traceback.print_exc()
        self._say(AgentGone(exit=ended).line())

    def _fork(self, stdin: int, stdout: int) -> int:
        os.chdir(self._request.workspace)
        job_file = self._request.job_file
        log = os.path.join(os.path.dirname(job_file), "stderr.log")
        errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        keeper = os.getpid()
        pid = os.fork()
        if pid == 0:
            become(lambda: self._run(job_file), keeper, (stdin, stdout, errors))
        os.close(errors)
        return pid

    def _run(self, job_file: str) -> int:
        """In the agent's process."""
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        self._take_environment()
        return run_job(job_file, kept=True)

    def _take_environment(self) -> None:
        if os.environ != self._request.environment:
            os.environ.clear()
            os.environ.update(self._request.environment)

    def _watch(self) -> None:
        """Wait for what ends the agent: itself, a stop, its deadline, or the kernel's end."""
        poll, wake = select.poll(), os.pidfd_open(self._agent)
        for descriptor in (wake, self._kernel, self._control):
            poll.register(descriptor, select.POLLIN)
        while True:
            subreaper.reap(self._collect)
            now = time.monotonic()
            if self._exit_code is not None or (self._kill_at is not None and now >= self._kill_at):
                return
            if self._held_at is None and now >= self._deadline:
                self._stop = self._stop or TIME_IS_UP
                return
            ready = {descriptor for descriptor, _ in poll.poll(self._milliseconds(now))}
            if self._control in ready and not self._obey():
                ready.add(self._kernel)
            if self._kernel in ready:
                self._stop = self._stop or KERNEL_GONE
                return

    def _milliseconds(self, now: float) -> int | None:
        """How long to wait at most: until the agent is killed, or for ever while its clock is held."""
        moments = [moment for moment in (self._kill_at, self._deadline) if moment is not None]
        if self._held_at is not None:
            moments.remove(self._deadline)
        return max(0, int((min(moments) - now) * 1000) + 1) if moments else None

    def _obey(self) -> bool:
        """Take the kernel's messages; False where it has closed its end."""
        data = os.read(self._control, MAX_CONTROL_BYTES)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            message = ToKeeper.validate_json(line)
            now = time.monotonic()
            if isinstance(message, StopAgent):
                self._stop = self._stop or message.stop
                self._found |= {pid for pid, runs in subreaper.below(os.getpid()).items() if runs}
                os.kill(self._agent, signal.SIGTERM)  # it saves, and ends its commands itself
                self._kill_at = min(self._kill_at or now + message.grace_seconds, now + message.grace_seconds)
            elif message.held and self._held_at is None:
                self._held_at = now
            elif not message.held and self._held_at is not None:
                self._deadline += now - self._held_at
                self._held_at = None
        return bool(data)

    def _collect(self, pid: int, status: int, usage: Any) -> None:
        if pid == self._agent:
            self._exit_code, self._usage = os.waitstatus_to_exitcode(status), usage

    def _exit(self, receipt: KillReceipt) -> AgentExit:
        usage = self._usage
        return AgentExit(
            exit_code=self._exit_code,
            receipt=receipt,
            stop=self._stop,
            runtime_seconds=int(time.monotonic() - self._started),
            cpu_seconds=round(usage.ru_utime + usage.ru_stime, 3) if usage else None,
            peak_memory_bytes=usage.ru_maxrss * 1024 if usage else None,
        )

    def _say(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # the kernel is gone
            while line:
                line = line[os.write(self._control, line) :]


def become(work: Callable[[], int], parent: int, standard: tuple[int, int, int], keep: tuple[int, ...] = ()) -> None:
    """In a process just forked: cut every tie to the parent's descriptors and signals, do the work, exit."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for target, descriptor in enumerate(standard):
            os.dup2(descriptor, target)
        _close_all_but({0, 1, 2, *keep})
        os.setsid()
        subreaper.die_with_parent(parent)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _close_all_but(kept: set[int]) -> None:
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor not in kept:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(descriptor)


def _readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])
