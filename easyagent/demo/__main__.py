"""`python -m easyagent.demo`: the demo model's server, alive as long as its stdin."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import sys

from pydantic import ValidationError

from easyagent.demo import DEMO_MODEL_ID, DemoAddress, DemoSettings
from easyagent.demo.policy import decide
from easyagent.openai_server import ChatReply, ChatRequest, OpenAIServer
from easyagent.processes import ParentWatch

_PIECES_PER_PACE = 10


def main() -> int:
    """Read the settings line, serve until stdin ends or SIGTERM, return the exit status."""
    parent = os.getppid()  # asked first: a parent that dies meanwhile is not to be mistaken for its successor
    line, rest_open = _read_line()
    try:
        settings = DemoSettings.model_validate_json(line)
    except ValidationError as error:
        print(f"easyagent.demo: the first line of stdin must be its settings as JSON: {error}", file=sys.stderr)
        return 2
    if rest_open:
        asyncio.run(_serve(settings, parent))
    return 0


async def _serve(settings: DemoSettings, parent: int) -> None:
    async def answer(request: ChatRequest) -> ChatReply:
        await asyncio.sleep(settings.pace_seconds)
        reply = await asyncio.to_thread(decide, request.body)
        return dataclasses.replace(reply, chunk_delay_seconds=settings.pace_seconds / _PIECES_PER_PACE)

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # An interrupted cell stops the main agent's turn only: the demo outlives the terminal's Ctrl-C.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(NotImplementedError):  # Windows has no handlers; it ends us by stdin
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    server = OpenAIServer(answer, models=[DEMO_MODEL_ID], token=settings.token)
    address = DemoAddress(base_url=await server.start())
    print(address.model_dump_json(), flush=True)
    ParentWatch(lambda line: None, lambda: _set(loop, stop), parent_pid=parent).start()
    await stop.wait()
    await server.aclose()


# stdin is read by its descriptor: a thread inside sys.stdin's lock would abort the interpreter's exit.
def _read_line() -> tuple[bytes, bool]:
    """The first line, and whether stdin is still open after it."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return line, False
        line += byte
    return line, True


def _set(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """In the watching thread."""
    with contextlib.suppress(RuntimeError):  # the loop is closed: we are ending anyway
        loop.call_soon_threadsafe(stop.set)


if __name__ == "__main__":
    sys.exit(main())
