"""Commands that try to outlive their agent. Each carries a tag in its processes' arguments, by which they are found."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from collections.abc import Callable
from textwrap import dedent

import psutil

START_SECONDS = 30.0
_PROGRAMS = {
    "double fork": """
        import os, time, signal
        signal.signal(15, signal.SIG_IGN); signal.signal(1, signal.SIG_IGN)
        if os.fork(): os._exit(0)
        os.setsid()
        if os.fork(): os._exit(0)
        os.chdir('/'); os.closerange(0, 64); time.sleep(600)
    """,
    "pid hopper": """
        import os, time
        end = time.time() + 600
        while time.time() < end:
            if os.fork(): os._exit(0)
            if os.getpid() != os.getpgrp(): os.setsid()
            time.sleep(.003)
    """,
    "tree of 16": """
        import os, time
        for _ in range(4):
            if os.fork() == 0: os.setsid()
        time.sleep(600)
    """,
    "own subreaper": """
        import ctypes, os, time, signal
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); signal.signal(15, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            if os.fork(): os._exit(0)
            time.sleep(600)
        time.sleep(600)
    """,
    "respawner": """
        import os, time, signal
        signal.signal(15, signal.SIG_IGN)
        while True:
            pid = os.fork()
            if pid == 0: os.setsid(); time.sleep(600); os._exit(0)
            os.waitpid(pid, 0)
    """,
}
_SHELL = {
    "plain": "sh -c 'sleep 600; :' {tag}",
    "setsid": "setsid sh -c 'sleep 600; :' {tag} & sleep 600",
    "nohup": "nohup sh -c 'sleep 600; :' {tag} >/dev/null 2>&1 & exit 0",
    "TERM ignored": "trap '' TERM INT HUP; sh -c \"trap '' TERM INT HUP; while :; do sleep 1; done\" {tag}",
    "clean environment": "env -i setsid sh -c 'sleep 600; :' {tag} & exit 0",
    "stopped": "sh -c 'kill -STOP $$; sleep 600' {tag} & sleep 600",
    "pipe holder": "(sh -c 'sleep 600; :' {tag} &) ; echo done",
}
KINDS = (*_SHELL, *_PROGRAMS)


def command(kind: str, tag: str) -> str:
    """A shell command of one of KINDS."""
    if kind in _SHELL:
        return _SHELL[kind].format(tag=tag)
    program = dedent(_PROGRAMS[kind]).strip()
    return f"{shlex.quote(sys.executable)} -S -c {shlex.quote(program)} {tag}"


def started(tag: str, count: int) -> list[psutil.Process]:
    """The tagged processes, once there are `count`."""
    until(lambda: len(tagged(tag)) >= count)
    return tagged(tag)


def until(condition: Callable[[], bool], timeout_seconds: float = START_SECONDS) -> None:
    """Return once a condition on other processes holds. It is asked again and again, for they tell nobody.

    Raises TimeoutError.
    """
    end = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("what other processes should have done has not happened")
        time.sleep(0.01)


def tagged(tag: str) -> list[psutil.Process]:
    """The live processes that carry the tag, wherever they hang."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if tag in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
