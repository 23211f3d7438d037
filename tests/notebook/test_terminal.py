"""The magics in a terminal's IPython, where there is no kernel: real `ipython` behind a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from easyagent.testing import call, calls

SECONDS = 60
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]")


class Terminal:
    """`ipython` in a terminal of its own; what it shows is kept without escape sequences."""

    def __init__(self, workspace: Path, environment: dict[str, str]) -> None:
        self._descriptor, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner"],
            stdin=theirs, stdout=theirs, stderr=theirs, cwd=workspace, env={**os.environ, **environment},
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.shown = ""

    def send(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def until(self, condition: Callable[[str], bool]) -> str:
        """Read until a condition on what has been shown since the last call holds; returns that."""
        end, fresh = time.monotonic() + SECONDS, ""
        while not condition(fresh):
            ready, _, _ = select.select([self._descriptor], [], [], end - time.monotonic())
            assert ready, f"not shown in time:\n{fresh}"
            fresh += _ESCAPES.sub("", os.read(self._descriptor, 65536).decode("utf-8", "replace"))
        self.shown += fresh
        return fresh

    def close(self) -> None:
        os.close(self._descriptor)
        try:
            self._process.wait(10)  # a terminal that is closed ends its program
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@pytest.fixture
def terminal(workspace: Path, fake, tmp_path: Path) -> Iterator[Terminal]:
    environment = {
        "OPENAI_BASE_URL": fake.base_url, "TERM": "dumb", "IPYTHONDIR": str(tmp_path / "ipython"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }  # fmt: skip
    started = Terminal(workspace, environment)
    yield started
    started.close()


def test_a_cell_and_a_sub_agent_from_python(terminal: Terminal, fake) -> None:
    fake.script("main", match="Hello.").reply("Hello from the model.")
    fake.script("probe", match="report_number").reply(calls(call("report_number", number=7)))
    terminal.until(lambda text: "In [1]" in text)
    terminal.send("%load_ext jupyter_subagents\n")
    terminal.until(lambda text: "In [2]" in text)
    terminal.send("%%agent\nHello.\n\n\n")
    answer = terminal.until(lambda text: "In [3]" in text)
    assert "Hello from the model." in answer
    terminal.send("%agent doctor\n")
    told = terminal.until(lambda text: "In [4]" in text)
    assert "front end   terminal" in told
    terminal.send("exit\n")
    assert "Traceback" not in terminal.shown and "Error" not in terminal.shown
