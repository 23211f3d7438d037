"""Whether the sandbox holds on this machine: decided by a child that must fail, not by version numbers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from easyagent.sandbox.policy import DEVICES, SYSTEM_READS

PROBE_SECONDS = 20
_WORKER = Path(__file__).with_name("probe_worker.py")
MUST_FAIL = (
    "read outside", "write outside", "truncate what is read only", "empty what is read only", "tcp", "unix socket",
    "environment of the parent",
)  # fmt: skip
MUST_WORK = ("write inside", "overwrite inside", "read inside", "socket pair")
SIGNALS = "signal the parent"
"""Held from Linux 6.12 on. Before it a command can end the user's other processes, though not take them over."""


@dataclass(frozen=True, slots=True)
class Enforcement:
    """What holds here. `confined` is the promise; `reason` says in words why it is given or not."""

    confined: bool
    reason: str


def enforcement() -> Enforcement:
    """The sandbox of this process's machine. EASYAGENT_SANDBOX=off switches it off, and then nothing is promised."""
    if os.environ.get("EASYAGENT_SANDBOX", "auto") == "off":
        return Enforcement(False, "switched off by EASYAGENT_SANDBOX=off")
    return _probed()


@cache
def _probed() -> Enforcement:
    if not sys.platform.startswith("linux"):
        return Enforcement(False, f"there is none for {sys.platform} yet")
    return probe()


def probe(most_landlock: int | None = None) -> Enforcement:
    """Try it in a child. `most_landlock`: with no more than an older kernel's Landlock."""
    try:
        answer = _run_probe(most_landlock)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return Enforcement(False, f"the probe could not run: {error}")
    if "error" in answer:
        return Enforcement(False, str(answer["error"]))
    open_ways = [name for name in MUST_FAIL if answer.get(name) is not False]
    broken = [name for name in MUST_WORK if answer.get(name) is not True]
    if open_ways:
        return Enforcement(False, f"the probe got through: {', '.join(open_ways)}")
    if broken:
        return Enforcement(False, f"the probe could not even: {', '.join(broken)}")
    gap = "; it does not keep commands from signalling other processes (Linux 6.12 does)" if answer[SIGNALS] else ""
    return Enforcement(True, f"Landlock {answer['landlock']} and seccomp{gap}")


def _run_probe(most_landlock: int | None) -> dict[str, object]:
    with (
        tempfile.TemporaryDirectory(prefix="easyagent-probe-") as outside,
        tempfile.TemporaryDirectory(prefix="easyagent-probe-") as inside,
        tempfile.TemporaryDirectory(prefix="easyagent-probe-") as read_only,
        socket.socket() as listener,
        socket.socket(socket.AF_UNIX) as local,
    ):
        canary = Path(outside, "canary")
        canary.write_text("secret")
        readable = Path(read_only, "readable")
        readable.write_text("to be read")
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = str(Path(outside, "socket"))
        local.bind(address)
        local.listen()
        request = {
            "read": [*SYSTEM_READS, sys.prefix, sys.base_prefix, read_only],
            "write": [inside, *DEVICES],
            "inside": inside,
            "canary": str(canary),
            "readable": str(readable),
            "most_landlock": most_landlock,
            "port": listener.getsockname()[1],
            "socket": address,
        }
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(_WORKER)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            check=True,
        )
        answer: dict[str, object] = json.loads(done.stdout)
        return answer
