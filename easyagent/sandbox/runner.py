"""Runs one shell command, confined, so that nothing of it outlives its agent. Standard library only, run by path.

`runner.py STATUS_FD AGENT_PID POLICY COMMAND`: the runner confines itself by the policy (JSON, `null` for none), is the
parent of the shell and, on Linux, the reaper of all that the shell leaves behind. It writes one JSON line to STATUS_FD
when the shell ends, or when the sandbox could not be had, and then nothing was run. It stays while background processes
run. When its stdin ends or the agent's process does, the agent that ran it is gone: it kills everything below it.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 5.0


def parents() -> dict[int, int]:
    """Parent of each process, from /proc; empty where there is none."""
    found: dict[int, int] = {}
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
            if fields[0] not in (b"Z", b"X"):
                found[int(name)] = int(fields[1])
    return found


def below(root: int) -> set[int]:
    """The live descendants of a process."""
    tree, waiting = parents(), [root]
    found: set[int] = set()
    while waiting:
        parent = waiting.pop()
        for child, its_parent in tree.items():
            if its_parent == parent and child not in found:
                found.add(child)
                waiting.append(child)
    return found


def reap() -> bool:
    """Collect dead children; True where no child is left, which for a reaper proves that nothing is."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if pid == 0:
            return False


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass


def kill_all(group: int) -> None:
    """Stop everything below this process, look again, kill, until no child is left."""
    end = time.monotonic() + KILL_SECONDS
    while time.monotonic() < end:
        seen: set[int] = set()
        while new := below(os.getpid()) - seen:
            for pid in new:
                send(pid, signal.SIGSTOP)
            seen |= new
        for pid in seen:
            send(pid, signal.SIGKILL)
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            pass
        if reap():
            return
        time.sleep(0.002)


def watched(pid: int) -> "int | None":
    """A descriptor that is readable once the process has ended, where the platform has such."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def confined(policy: "dict[str, Any] | None") -> str:
    """Confine this process; why it could not, or ""."""
    if policy is None:
        return ""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from confine import confine  # type: ignore[import-not-found]

    return str(confine(policy["read"], policy["write"], network=policy["network"]))


def main() -> None:
    status_fd, agent_pid, policy, command = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
    agent = watched(agent_pid)
    fault = confined(policy)
    if fault:
        os.write(status_fd, json.dumps({"error": fault}).encode() + b"\n")
        return
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    shell = subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        close_fds=True,
        restore_signals=True,
        preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
    )
    os.close(1)
    os.close(2)
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    poll.register(wake_read, select.POLLIN)
    if agent is not None:
        poll.register(agent, select.POLLIN)
    told = False
    while True:
        code = shell.poll()
        if code is not None and not told:
            os.write(status_fd, json.dumps({"exit_code": code, "left": len(below(os.getpid()))}).encode() + b"\n")
            os.close(status_fd)
            told = True
        if told and reap():
            return
        for descriptor, _ in poll.poll():
            if descriptor == wake_read:
                os.read(wake_read, 512)
            elif descriptor == agent or not os.read(0, 512):
                kill_all(shell.pid)
                shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
                return


if __name__ == "__main__":
    main()
