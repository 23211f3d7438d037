"""What a sub-agent is told over its stdin: the model's settings first, then controls, one JSON line each."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
from collections.abc import Callable
from typing import Protocol

from easyagent.processes import ParentWatch


class Controls(Protocol):
    """`first` blocks until the first line is there; `watch` hands every later one to `on_line` on the running loop."""

    def first(self) -> bytes: ...

    def watch(self, on_line: Callable[[bytes], None]) -> None: ...


class KeptControls:
    """For an agent with a keeper, which sees to it that nothing outlives the kernel: no thread, so less memory."""

    def __init__(self) -> None:
        self._rest = b""
        self._waiting: list[bytes] = []

    def first(self) -> bytes:
        while not self._waiting:
            if not self._read():
                return b""
        return self._waiting.pop(0)

    def watch(self, on_line: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()

        def take() -> None:
            if not self._read():
                loop.remove_reader(0)
            while self._waiting:
                on_line(self._waiting.pop(0))

        while self._waiting:
            on_line(self._waiting.pop(0))
        loop.add_reader(0, take)

    def _read(self) -> bool:
        data = os.read(0, 65536)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._waiting += lines
        return bool(data)


class WatchedControls:
    """For an agent without one: a thread reads, and calls `on_gone` when the parent is no more, whatever the agent
    does at that moment."""

    def __init__(self, on_gone: Callable[[], None]) -> None:
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._on_line: Callable[[bytes], None] | None = None
        ParentWatch(self._take, on_gone, parent_pid=os.getppid()).start()

    def first(self) -> bytes:
        return self._lines.get()

    def watch(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line, self._loop = on_line, asyncio.get_running_loop()
        self._drain()

    def _take(self, line: bytes) -> None:
        """In the watching thread."""
        self._lines.put(line)
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended; so has the job
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        while self._on_line is not None and not self._lines.empty():
            self._on_line(self._lines.get())
