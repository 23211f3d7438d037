"""A child subreaper: the process that finds, kills and collects everything below itself (Linux).

What loses its parent is handed to the nearest subreaper, so nothing below one gets out of its sight, whatever it forks.
Standard library only: the runner loads it by path.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SCANS = 20
KILL_SECONDS = 10.0

Collected = Callable[[int, int, Any], None]
"""Gets pid, wait status and resource use of each child that was collected."""


def become_subreaper() -> None:
    """Everything below this process stays below it. Without effect where there is no such thing."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent's forking thread ends; exits where it has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def wake_on_child() -> int:
    """A descriptor that is readable once a child has ended. Signals that would end this process are ignored."""
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return readable


def reap(collected: Collected = lambda pid, status, usage: None) -> bool:
    """Collect dead children. True where no child is left: for a subreaper the only proof that nothing lives below."""
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False
        collected(pid, status, usage)


def _processes() -> dict[int, tuple[int, bool]]:
    """Parent and whether it runs, of every process, from /proc; empty where there is none."""
    found: dict[int, tuple[int, bool]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except OSError:
                continue
            found[int(name)] = int(fields[1]), fields[0] not in (b"Z", b"X")
    return found


def below(root: int, spared: frozenset[int] = frozenset()) -> dict[int, bool]:
    """The descendants of a process without those of `spared`, and whether each runs. A zombie can have live threads
    and children, so it is walked through too."""
    children: dict[int, list[int]] = {}
    processes = _processes()
    for pid, (parent, _) in processes.items():
        children.setdefault(parent, []).append(pid)
    found: dict[int, bool] = {}
    waiting = [root]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found and child not in spared:
                found[child] = processes[child][1]
                waiting.append(child)
    return found


def kill_below(
    collected: Collected = lambda pid, status, usage: None,
    *,
    spared: frozenset[int] = frozenset(),
    seconds: float = KILL_SECONDS,
) -> tuple[set[int], int]:
    """Kill everything below this subreaper; returns what was killed and how many live on.

    Each round stops what it sees, looks again until it sees nothing new, so that no fork storm outruns it, kills, and
    collects. A scan that finds nothing is no proof (a process that forks and exits all the time hides between two
    reads): only "no child left" is, or, where children are `spared`, several scans in a row that find nothing.
    """
    killed: set[int] = set()
    me, end, empty_scans = os.getpid(), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        seen: dict[int, bool] = {}
        for _ in range(_SCANS):
            new = {pid: runs for pid, runs in below(me, spared).items() if pid not in seen}
            for pid in new:
                _send(pid, signal.SIGSTOP)
            seen |= new
            if not new:
                break
        for pid, runs in seen.items():
            _send(pid, signal.SIGKILL)
            if runs:
                killed.add(pid)
        if reap(collected):
            break
        empty_scans = 0 if any(seen.values()) else empty_scans + 1
        if spared and empty_scans == _SCANS:
            break
        time.sleep(0.001)
    return killed, sum(below(me, spared).values())


def _send(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass
