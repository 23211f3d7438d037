"""How a cell waits for the runtime: awaiting where the kernel can, else blocking; an interrupt ends it at once."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import time
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from IPython.core.error import UsageError

from easyagent import EasyAgentError
from easyagent.plain_text import one_line

Result = TypeVar("Result")
TICK_SECONDS = 0.25
_logger = logging.getLogger(__name__)
CLEAN_UP_SECONDS = 5.0


def _nothing() -> None:
    pass


@contextlib.contextmanager
def one_sentence() -> Generator[None, None, None]:
    """What goes wrong within is told in one sentence: a file or a directory that is not as it should be is the user's
    to see, not a fault of this program. What its words quote from elsewhere does not act on a terminal."""
    try:
        yield
    except (EasyAgentError, UsageError) as error:
        raise UsageError(one_line(str(error))) from None
    except OSError as error:
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        raise UsageError(one_line(f"%agent: {where}{error.strerror or error}.")) from None
    except Exception as error:  # no traceback for who did not write the code: the log has it
        _logger.info("a fault", exc_info=True)
        raise UsageError(one_line(f"%agent: a fault of the program: {type(error).__name__}: {error}")) from None


def _seen(future: asyncio.Future[Any]) -> None:
    """Take note of a failure that is told elsewhere: asyncio prints those nobody has asked for, in a later cell."""
    if not future.cancelled():
        future.exception()


class Waiter(Generic[Result]):
    """Waits for work that has already begun on the runtime's loop; not awaiting it leaves it in the background.

    Waiting goes in short ticks: ipykernel's interrupt does not wake an idle loop. `on_interrupt` is called
    when the user interrupts, `finish` turns the result into the cell's value; what it prints stands in the cell.
    """

    def __init__(
        self,
        future: concurrent.futures.Future[Result],
        *,
        on_interrupt: Callable[[], None],
        finish: Callable[[Result], Any],
        interrupted: Callable[[], Any],
        on_tick: Callable[[], None] | None = None,
    ) -> None:
        self._future, self._on_interrupt = future, on_interrupt
        self._finish, self._interrupted, self._on_tick = finish, interrupted, on_tick or _nothing

    @classmethod
    def nothing(cls) -> Waiter[None]:
        """For a cell that awaits and has nothing to wait for."""
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        future.set_result(None)
        return Waiter(future, on_interrupt=_nothing, finish=lambda _: None, interrupted=_nothing)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        waiting = asyncio.wrap_future(self._future)
        try:
            while not waiting.done():
                await asyncio.wait({waiting}, timeout=TICK_SECONDS)
                self._on_tick()
        except (asyncio.CancelledError, KeyboardInterrupt):
            self._on_interrupt()
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await asyncio.wait({waiting}, timeout=CLEAN_UP_SECONDS)
            return self._interrupted()
        finally:
            waiting.add_done_callback(_seen)
        return self._done()

    def block(self) -> Any:
        """Wait without an event loop."""
        try:
            while not self._future.done():
                with contextlib.suppress(concurrent.futures.TimeoutError, TimeoutError):
                    self._future.exception(timeout=TICK_SECONDS)
                self._on_tick()
        except KeyboardInterrupt:
            self._on_interrupt()
            end = time.monotonic() + CLEAN_UP_SECONDS
            with contextlib.suppress(Exception):
                self._future.exception(timeout=max(0.0, end - time.monotonic()))
            return self._interrupted()
        return self._done()

    def _done(self) -> Any:
        if self._future.cancelled():  # interrupted in another cell that shows the same run
            return self._interrupted()
        with one_sentence():
            return self._finish(self._future.result())
