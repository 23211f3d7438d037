"""Runs one shell command, confined, so that nothing of it outlives its agent. Standard library only, run by path.

`runner.py STATUS_FD AGENT_PID POLICY COMMAND`: the runner confines itself by the policy (JSON, `null` for none), is the
parent of the shell and, on Linux, the reaper of all that the shell leaves behind. It writes one JSON line to STATUS_FD
when the shell ends, or when the sandbox could not be had, and then nothing was run. It stays while background processes
run. When its stdin ends or the agent's process does, the agent that ran it is gone: it kills everything below it.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import limits  # type: ignore[import-not-found]
import subreaper  # type: ignore[import-not-found]


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
    from confine import confine  # type: ignore[import-not-found]

    return str(confine(policy["read"], policy["write"], policy["listing"], network=policy["network"]))


def kill_all(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)  # all there is where nothing can be walked
    except OSError:
        pass
    subreaper.kill_below()
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)


def main() -> None:
    status_fd, agent_pid, policy, command = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
    agent = watched(agent_pid)
    limits.apply()  # before the sandbox, which forbids to write in /proc
    fault = confined(policy)
    if fault:
        os.write(status_fd, json.dumps({"error": fault}).encode() + b"\n")
        return
    subreaper.become_subreaper()
    wake = subreaper.wake_on_child()
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
    poll.register(wake, select.POLLIN)
    if agent is not None:
        poll.register(agent, select.POLLIN)
    told = False
    while True:
        code = shell.poll()
        if code is not None and not told:
            left = sum(subreaper.below(os.getpid()).values())
            os.write(status_fd, json.dumps({"exit_code": code, "left": left}).encode() + b"\n")
            os.close(status_fd)
            told = True
        if told and subreaper.reap():
            return
        for descriptor, _ in poll.poll():
            if descriptor == wake:
                os.read(wake, 512)
            elif descriptor == agent or not os.read(0, 512):
                kill_all(shell.pid)
                return


if __name__ == "__main__":
    main()
