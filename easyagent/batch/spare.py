"""A process that has loaded everything and waits for its job: the next agent, where nothing can be forked."""

from __future__ import annotations

import json
import os
import select

from easyagent.batch.warm import warm_up
from easyagent.batch.worker import run_job
from easyagent.processes import open_pidfd


def wait_for_job() -> int:
    """Read the job from stdin's first line, `{"job_file": path, "workspace": path}`, and run it.

    Returns 0 without one where the parent has gone or closed its end: then there will be none.
    """
    warm_up()
    line = _first_line()
    if not line:
        return 0
    request = json.loads(line)
    os.chdir(request["workspace"])
    errors = os.open(os.path.join(os.path.dirname(request["job_file"]), "stderr.log"), os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(errors, 2)
    os.close(errors)
    return run_job(request["job_file"])


def _first_line() -> bytes:
    """Byte by byte: what follows is the job's own. No thread may watch the parent, as a sandbox would not hold it."""
    parent = open_pidfd(os.getppid())
    poll = select.poll()
    poll.register(0, select.POLLIN | select.POLLHUP)
    if parent is not None:
        poll.register(parent, select.POLLIN)
    line = b""
    while not line.endswith(b"\n"):
        ready = {descriptor for descriptor, _ in poll.poll()}
        byte = os.read(0, 1) if 0 in ready else b""
        if not byte:
            return b""
        line += byte
    return line
