"""A real kernel, driven over its own protocol."""

from __future__ import annotations

import os
import queue
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.manager import KernelManager

from easyagent.testing import FakeOpenAI

CELL_SECONDS = 90


@dataclass
class Outcome:
    """What one cell gave: its reply, what it printed, and its displays as they stand."""

    status: str = ""
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    result: str = ""
    displays: list[dict[str, Any]] = field(default_factory=list)

    @property
    def html(self) -> str:
        return "\n".join(display.get("text/html", "") for display in self.displays)

    @property
    def text(self) -> str:
        return "\n".join(display.get("text/plain", "") for display in self.displays)


class Kernel:
    """One kernel with the extension loaded. `live` cells say that somebody sits in front."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(cwd=str(directory), env={**os.environ, **environment})
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)
        self._display_homes: dict[str, tuple[str, int]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._idle: set[str] = set()

    @property
    def pid(self) -> int:
        pid = self._manager.provisioner.pid
        assert pid is not None
        return int(pid)

    @property
    def connection_file(self) -> str:
        return str(self._manager.connection_file)

    def begin(self, code: str, *, live: bool = False) -> str:
        """Send a cell; returns its id for `outcome` and `wait`."""
        identity = str(self._client.execute(code, allow_stdin=live))
        self._outcomes[identity] = Outcome()
        return identity

    def wait(self, identity: str) -> Outcome:
        """Wait until a cell has ended."""
        self.read_until(lambda: identity in self._idle)
        reply = self._client.get_shell_msg(timeout=CELL_SECONDS)
        while reply["parent_header"].get("msg_id") != identity:
            reply = self._client.get_shell_msg(timeout=CELL_SECONDS)
        outcome = self._outcomes[identity]
        outcome.status = reply["content"]["status"]
        return outcome

    def run(self, code: str, *, live: bool = False) -> Outcome:
        return self.wait(self.begin(code, live=live))

    def outcome(self, identity: str) -> Outcome:
        return self._outcomes[identity]

    def read_until(self, condition: Callable[[], bool], seconds: float = CELL_SECONDS) -> None:
        """Take the kernel's messages until a condition holds."""
        end = time.monotonic() + seconds
        while not condition():
            left = end - time.monotonic()
            assert left > 0, "the kernel said nothing that made the condition true in time"
            try:
                self._take(self._client.get_iopub_msg(timeout=left))
            except queue.Empty:
                continue

    def _take(self, message: dict[str, Any]) -> None:
        identity, kind, content = message["parent_header"].get("msg_id"), message["msg_type"], message["content"]
        outcome = self._outcomes.get(identity)
        if kind == "update_display_data":
            home, index = self._display_homes[content["transient"]["display_id"]]
            self._outcomes[home].displays[index] = content["data"]
        elif outcome is None:
            return
        elif kind == "status" and content["execution_state"] == "idle":
            self._idle.add(identity)
        elif kind == "stream":
            setattr(outcome, content["name"], getattr(outcome, content["name"]) + content["text"])
        elif kind == "error":
            outcome.error = f"{content['ename']}: {content['evalue']}"
        elif kind == "execute_result":
            outcome.result = content["data"]["text/plain"]
        elif kind == "display_data":
            outcome.displays.append(content["data"])
            display_id = content.get("transient", {}).get("display_id")
            if display_id:
                self._display_homes[display_id] = (identity, len(outcome.displays) - 1)

    def processes(self) -> list[psutil.Process]:
        """Every process below the kernel."""
        return psutil.Process(self.pid).children(recursive=True)

    def agents(self) -> list[psutil.Process]:
        """The sub-agents' own processes."""
        return [process for process in self.processes() if re.fullmatch(r"easyagent-\d+", process.name())]

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def restart(self) -> None:
        """As a front end's Restart does; returns once the new kernel answers."""
        self._manager.restart_kernel(now=False)
        self._client.wait_for_ready(timeout=60)

    def shut_down(self) -> None:
        self._manager.shutdown_kernel(now=False)

    def close(self) -> None:
        self._client.stop_channels()
        if self._manager.has_kernel:
            self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    (directory / "a.txt").write_text("alpha\nbeta\n")
    return directory


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def start_kernel(tmp_path: Path, workspace: Path) -> Iterator[Callable[..., Kernel]]:
    """Start kernels with an environment of their own; all are ended with the test."""
    kernels: list[Kernel] = []

    def start(**environment: str) -> Kernel:
        temporary = tmp_path / "tmp"
        temporary.mkdir(exist_ok=True)
        home = {
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "IPYTHONDIR": str(tmp_path / "ipython"),
            "TMPDIR": str(temporary),
        }
        kernel = Kernel(workspace, {**home, "EASYAGENT_DEMO_PACE": "0", **environment})
        kernels.append(kernel)
        assert kernel.run("%load_ext jupyter_subagents").status == "ok"
        return kernel

    yield start
    for kernel in kernels:
        kernel.close()


@pytest.fixture
def kernel(start_kernel: Callable[..., Kernel], fake: FakeOpenAI) -> Kernel:
    """A kernel whose endpoint is the scripted server."""
    return start_kernel(OPENAI_BASE_URL=fake.base_url)
