"""A real JupyterLab server and a real Chromium, driven by playwright."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
]
SHOTS = Path(__file__).parent / "shots"
START_SECONDS = 90


@dataclass
class Lab:
    """A running JupyterLab over one folder."""

    url: str
    root: Path
    page: Page
    console: list[str] = field(default_factory=list)

    def write(self, name: str, cells: list[str]) -> Path:
        """A notebook of code cells."""
        path = self.root / name
        notebook = {
            "nbformat": 4,
            "nbformat_minor": 5,
            "metadata": {
                "kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"},
                "language_info": {"name": "python"},
            },
            "cells": [
                {
                    "cell_type": "code",
                    "id": f"cell-{index}",
                    "source": source,
                    "metadata": {},
                    "outputs": [],
                    "execution_count": None,
                }
                for index, source in enumerate(cells)
            ],
        }
        path.write_text(json.dumps(notebook))
        return path

    def open(self, name: str, *, kernel: bool = True) -> None:
        """Open a notebook in a fresh workspace and wait for its kernel to be idle."""
        self.page.goto(f"{self.url}/lab/tree/{name}?reset", wait_until="domcontentloaded")
        self.page.wait_for_function(
            "() => window.jupyterapp && document.querySelector('.jp-Notebook .jp-Cell')", timeout=60_000
        )
        if kernel:
            self.page.wait_for_function(
                """() => {
                    const panel = window.jupyterapp.shell.currentWidget;
                    const kernel = panel?.sessionContext?.session?.kernel;
                    return kernel && kernel.status === 'idle';
                }""",
                timeout=60_000,
            )

    def run_cell(self, index: int, *, wait: bool = True, timeout: float = 60) -> None:
        self.page.evaluate(
            """(index) => {
                const notebook = window.jupyterapp.shell.currentWidget.content;
                notebook.activeCellIndex = index;
                notebook.deselectAll();
                window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            index,
        )
        if wait:
            self.wait_cell(index, timeout)

    def wait_cell(self, index: int, timeout: float = 60) -> None:
        """Wait until a cell has run: its prompt shows a number."""
        self.page.wait_for_function(
            """(index) => {
                const cell = window.jupyterapp.shell.currentWidget.content.widgets[index];
                return /\\[\\d+\\]/.test(cell.node.querySelector('.jp-InputPrompt').textContent);
            }""",
            arg=index,
            timeout=timeout * 1000,
        )

    def cell_is_running(self, index: int) -> bool:
        return bool(
            self.page.evaluate(
                """(index) => window.jupyterapp.shell.currentWidget.content.widgets[index]
                    .node.querySelector('.jp-InputPrompt').textContent.includes('*')""",
                index,
            )
        )

    def cell_text(self, index: int) -> str:
        return str(
            self.page.evaluate(
                """(index) => window.jupyterapp.shell.currentWidget.content.widgets[index]
                    .node.querySelector('.jp-Cell-outputWrapper')?.innerText || ''""",
                index,
            )
        )

    def wait_text(self, index: int, text: str, timeout: float = 60) -> None:
        self.page.wait_for_function(
            """([index, text]) => (window.jupyterapp.shell.currentWidget?.content.widgets[index]
                ?.node.querySelector('.jp-Cell-outputWrapper')?.innerText || '').includes(text)""",
            arg=[index, text],
            timeout=timeout * 1000,
        )

    def save(self, name: str) -> dict[str, Any]:
        """Save and read the file back."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        self.page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty", timeout=30_000)
        saved: dict[str, Any] = json.loads((self.root / name).read_text())
        return saved

    def shut_kernel_down(self) -> None:
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")

    def screenshot(self, name: str) -> None:
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=str(SHOTS / f"{name}.png"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for one module's tests: playwright's loop counts as running in this thread for as long as it
    lives, so a longer scope would keep every later test from `asyncio.run`."""
    assert CHROMIUM, "no Chromium found; `make test` installs Debian's where apt is available"
    with sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield instance
        instance.close()


@pytest.fixture
def lab(browser: Browser, tmp_path: Path, kernel_environment: dict[str, str]) -> Iterator[Lab]:
    """A JupyterLab of its own for each test, whose kernels get `kernel_environment`."""
    root, home = tmp_path / "work", tmp_path / "home"
    root.mkdir()
    port = _free_port()
    news = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    news.parent.mkdir(parents=True)
    news.write_text('{"fetchNews": "false"}')
    environment = {
        **os.environ,
        **{f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")},
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "XDG_CONFIG_HOME": str(home / "xdg"),
        **kernel_environment,
    }
    log = (tmp_path / "server.log").open("wb")
    server = subprocess.Popen(
        [
            sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--allow-root",
            "--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.root_dir={root}",
            "--LabApp.expose_app_in_browser=True", "--LabApp.news_url=",
            "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        ],
        env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    context = None
    try:
        _wait_for_server(url, server, tmp_path / "server.log")
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        context.set_default_timeout(60_000)
        page = context.new_page()
        instance = Lab(url, root, page)
        page.on("console", lambda message: instance.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: instance.console.append(f"pageerror: {error}"))
        yield instance
    finally:
        if context is not None:
            context.close()
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
        log.close()


@pytest.fixture
def kernel_environment() -> dict[str, str]:
    """Environment of the kernels; a test module overrides it."""
    return {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for_server(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """A server in another process sends no event here: it is asked until it answers."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/api/status", timeout=2) as answer:
                answer.read()
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(errors='replace')[-3000:]}")
