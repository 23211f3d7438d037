"""Processes: ending a whole tree, and noticing that the parent is gone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from easyagent.models import KillReceipt

SCAN_ROUNDS = 50
_PR_SET_NAME = 15


def start_time(pid: int) -> float | None:
    """When a process began, or None where there is none: tells a reused pid apart.

    In seconds: on Linux since boot, which no change of the clock moves, elsewhere since the epoch.
    """
    try:
        if sys.platform.startswith("linux"):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            return int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return float(psutil.Process(pid).create_time())
    except (psutil.Error, OSError):
        return None


def is_alive(pid: int, started: float | None) -> bool:
    """True where `pid` is still the process that began at `started`; one that is dead and not yet collected is not."""
    now = start_time(pid)
    return now is not None and (started is None or abs(now - started) < 1.0) and _runs(pid)


def _members(root: int) -> set[int]:
    """The live processes below `root` or below anything of its session, which keeps children whose parent has died.

    A command's guard outlives a killed agent by a moment: what hangs below it must be found through it.
    """
    parent_of: dict[int, int] = {}
    found: set[int] = set()
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            parent_of[pid] = psutil.Process(pid).ppid()
            if os.getsid(pid) == root:
                found.add(pid)
    waiting = [root, *found]
    while waiting:
        parent = waiting.pop()
        new = {pid for pid, its_parent in parent_of.items() if its_parent == parent} - found
        found |= new
        waiting += new
    return {pid for pid in found if pid != root and _runs(pid)}


def _runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD))
    except psutil.Error:
        return False


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def kill_tree(root: int, *, spare_root: bool = False) -> KillReceipt:
    """Stop, look again, kill: everything below the session leader `root` and, unless spared, itself.

    Stopping first keeps a fork storm from outrunning the scan. Returns what was killed and what lives on.
    """
    killed: set[int] = set()
    if not spare_root and _runs(root):
        _signal(root, signal.SIGSTOP)
    for _ in range(SCAN_ROUNDS):
        seen: set[int] = set()
        while new := _members(root) - seen:
            for pid in new:
                _signal(pid, signal.SIGSTOP)
            seen |= new
        for pid in seen:
            _signal(pid, signal.SIGKILL)
        killed |= seen
        if not seen:
            break
    if not spare_root and _runs(root):
        killed.add(root)
        _signal(root, signal.SIGKILL)
    left = _members(root)
    return KillReceipt(processes_killed=len(killed), still_alive=len(left))


class ParentWatch:
    """Reads this process's stdin in a thread and notices when the parent is gone.

    `on_line` gets each line, `on_gone` is called once, both in the watching thread. The pipe's end comes
    when the parent dies, unless a forked child of the parent holds the pipe open: so the parent's own
    process is watched beside it where the platform can (pidfd, Linux).
    """

    def __init__(
        self, on_line: Callable[[bytes], None], on_gone: Callable[[], None], *, parent_pid: int | None
    ) -> None:
        self._on_line, self._on_gone = on_line, on_gone
        self._pidfd = open_pidfd(parent_pid)
        self._thread = threading.Thread(target=self._watch, name="parent-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(0, select.POLLIN | select.POLLHUP)
        if self._pidfd is not None:
            poll.register(self._pidfd, select.POLLIN)
        rest = b""
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if 0 in ready:
                # os.read, not sys.stdin.buffer: the buffer's lock would abort the interpreter at exit.
                data = os.read(0, 65536)
                if not data:
                    break
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._on_line(line)
            elif self._pidfd in ready:
                break
        self._on_gone()


def open_pidfd(pid: int | None) -> int | None:
    """A descriptor that is readable once the process has ended; None where the platform has none, or it has ended."""
    if pid is None or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def name_process(name: str) -> None:
    """What `ps` and `top` call this process, up to 15 bytes; without effect where there is no such thing."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def wait_gone(pid: int, timeout_seconds: float) -> bool:
    """True once the process is gone or a zombie; polls, for processes that are nobody's children here."""
    end = time.monotonic() + timeout_seconds
    while _runs(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
