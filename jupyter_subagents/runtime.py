"""The runtime: one background thread with its own event loop, where all agents of a kernel are driven.

On the kernel's own loop a running cell would freeze the cards, delay time limits and fill the pipes of
sub-agents; on a thread of its own none of that happens.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any, TypeVar

from easyagent import Endpoints
from easyagent.subagents import Launcher, open_launcher

Result = TypeVar("Result")
SHUTDOWN_SECONDS = 4.0


class Runtime:
    """The thread, its loop, and what all conversations share."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="jupyter-subagents", daemon=True)
        self._thread.start()
        self.endpoints, self.launcher = self.submit(_make_shared()).result()
        self._closers: list[Any] = []
        atexit.register(self.shut_down)

    def submit(self, work: Coroutine[Any, Any, Result]) -> concurrent.futures.Future[Result]:
        """Run a coroutine on the runtime's loop; the bridge from the kernel's thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def call(self, work: Coroutine[Any, Any, Result], timeout_seconds: float | None = None) -> Result:
        """Run a coroutine on the runtime's loop and wait for it. Not for the runtime's own thread."""
        return self.submit(work).result(timeout_seconds)

    def hand_over(self, action: Callable[..., object], *arguments: object) -> None:
        """Call something on the runtime's loop soon; from any thread, without waiting."""
        self.loop.call_soon_threadsafe(action, *arguments)

    def on_shutdown(self, close: Any) -> None:
        """Register a coroutine function to run when the kernel ends."""
        self._closers.append(close)

    def shut_down(self) -> None:
        """End all agents; called when the kernel exits. What does not end in time sees its stdin close."""
        if not self._thread.is_alive():
            return
        with contextlib.suppress(Exception):
            self.call(self._close(), SHUTDOWN_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(1.0)

    async def _close(self) -> None:
        await asyncio.gather(*(close() for close in self._closers), return_exceptions=True)
        await self.launcher.aclose()
        await self.endpoints.aclose()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()


async def _make_shared() -> tuple[Endpoints, Launcher]:
    return Endpoints(), open_launcher()


@cache
def get_runtime() -> Runtime:
    """The runtime of this kernel, started at the first use."""
    return Runtime()
