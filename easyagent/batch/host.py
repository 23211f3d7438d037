"""The host: one process a kernel, from which all its sub-agents are forked (Linux). Started by name:

`python -m easyagent.batch.host CONTROL_FD KERNEL_PID`

It loads the engine and the model client once, so that an agent starts in some 20 ms and shares most of its memory. It
has no threads and runs no model code: a thread does not survive a fork, and what it held locked would stay locked. It
watches the kernel by its pidfd first and by the control socket second: a forked child of the kernel can hold that open.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time

from easyagent.batch.keeper import Keeper, become
from easyagent.batch.warm import warm_up
from easyagent.models.host import AgentRefused, StartAgent
from easyagent.processes import name_process
from easyagent.sandbox import subreaper

MAX_MESSAGE_BYTES = 200_000
LAST_SECONDS = 8.0
"""How long the keepers may take to end their agents once the kernel is gone."""


class Host:
    """Forks keepers, and collects them."""

    def __init__(self, control: socket.socket, kernel: int) -> None:
        self._control, self._kernel = control, kernel
        self._keepers: set[int] = set()
        self._crashed = False
        subreaper.become_subreaper()
        self._wake = subreaper.wake_on_child()

    def serve(self) -> None:
        """Until the kernel is gone and every agent has ended."""
        poll = select.poll()
        for descriptor in (self._control.fileno(), self._kernel, self._wake):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._wake in ready:
                self._collect()
            if self._control.fileno() in ready and not self._take():
                break
            if self._kernel in ready:
                break
        self._end()

    def _take(self) -> bool:
        """One request to start an agent; False where the kernel has closed its end."""
        data, descriptors, _, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, 3)
        if not data:
            return False
        request = StartAgent.model_validate_json(data)
        stdin, stdout, control = descriptors
        host = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            with socket.socket(fileno=os.dup(control)) as keeper:
                keeper.sendall(AgentRefused(error=str(error)).line())
        else:
            if pid == 0:
                kept = (stdin, stdout, control, self._kernel)
                become(lambda: _keep(request, *kept), host, (_null(), _null(), 2), kept)
            self._keepers.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _collect(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 512)
        self._crashed = False
        subreaper.reap(self._count)
        if self._crashed:  # its agent dies with it; what that leaves behind comes to this process
            subreaper.kill_below(self._count, spared=frozenset(self._keepers))

    def _count(self, pid: int, status: int, usage: object) -> None:
        if pid in self._keepers:
            self._keepers.discard(pid)
            self._crashed = self._crashed or status != 0

    def _end(self) -> None:
        """The keepers end their agents themselves; what is left after a while is killed."""
        end = time.monotonic() + LAST_SECONDS
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        while self._keepers and (left := end - time.monotonic()) > 0:
            poll.poll(int(left * 1000) + 1)
            self._collect()
        subreaper.kill_below(self._count)


def _keep(request: StartAgent, stdin: int, stdout: int, control: int, kernel: int) -> int:
    Keeper(request, control, kernel).keep(stdin, stdout)
    return 0


def _null() -> int:
    return os.open(os.devnull, os.O_RDWR)


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    try:
        kernel = os.pidfd_open(int(sys.argv[2]))
    except ProcessLookupError:
        return
    name_process("easyagent-host")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warm_up()
    Host(control, kernel).serve()


if __name__ == "__main__":
    main()
