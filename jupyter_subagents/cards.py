"""AgentCard: the one widget under a `%%agent` cell, and the poller that feeds it.

Small things travel as the widget's `state`, pushed whole; transcript text travels as appended custom
messages. The front end sends custom messages only: it never writes a trait back.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any

import anywidget
import traitlets

from jupyter_subagents.card_model import CardState, Entry
from jupyter_subagents.card_state import to_view
from jupyter_subagents.card_view import HEARTBEAT_SECONDS, line
from jupyter_subagents.render import BlockRenderer, clean_text

_STATIC = files("jupyter_subagents") / "static"


class AgentCard(anywidget.AnyWidget):
    """The live card.

    `on_action` gets `{"type": "answer", "number": n, "decision": "once" | "run" | "deny"}`,
    `{"type": "stop", "agent_id": n}`, `{"type": "stop_all"}`, `{"type": "continue"}` or
    `{"type": "ready"}`. It is called in the thread that serves the comm and must only hand over, for
    instance with `loop.call_soon_threadsafe`.
    """

    _esm = (_STATIC / "card.js").read_text("utf-8")
    _css = (_STATIC / "card.css").read_text("utf-8")

    state = traitlets.Dict().tag(sync=True)
    strings = traitlets.Dict().tag(sync=True)

    def __init__(self, *, on_action: Callable[[dict[str, Any]], None], strings: Mapping[str, str]) -> None:
        self._on_action = on_action
        self._lock = threading.Lock()
        self._feed = TranscriptFeed()
        self._last_view: dict[str, Any] = {}
        self._ready = threading.Event()
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        super().__init__(strings=dict(strings))
        self.on_msg(self._received)
        # ipykernel 7.4 answers a comm on the subshell of its last outgoing message; for a widget made in a
        # cell that is the main shell, which the next running cell blocks. Stay where the front end asked.
        if hasattr(self.comm, "_reply_subshell_for"):
            self.comm._reply_subshell_for = lambda data, default: default

    @property
    def attached(self) -> bool:
        """True once a front end has shown this card."""
        return self._ready.is_set()

    async def wait_attached(self, timeout_seconds: float = 3.0) -> bool:
        """Wait until a front end shows this card; False where none did in time."""
        shown = asyncio.Event()
        with self._lock:
            self._waiters.append((asyncio.get_running_loop(), shown))
        if not self.attached:
            try:
                async with asyncio.timeout(timeout_seconds):
                    await shown.wait()
            except TimeoutError:
                return False
        return True

    def push(self, state: CardState, *, force: bool = False) -> bool:
        """Show this state. Sends what changed; with `force` the state goes out even when nothing did.
        True where anything went out."""
        view = to_view(state, now=time.time())
        steady = {key: value for key, value in view.items() if key != "now"}
        changed = force or steady != self._last_view
        if changed:
            self._last_view = steady
            self.state = view
        with self._lock:
            message = self._feed.update(state)
            if message is not None:
                self.send(message)
        return changed or message is not None

    def _received(self, _widget: object, content: object, _buffers: object) -> None:
        action = _action(content)
        if action is None:
            return
        if action["type"] == "ready":
            with self._lock:
                self.send({**self._feed.whole(), "now": time.time()})
                self._ready.set()
                waiters, self._waiters = self._waiters, []
            for loop, shown in waiters:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(shown.set)
        self._on_action(action)


def _action(content: object) -> dict[str, Any] | None:
    """The front end's message, if it is one of ours and well formed."""
    if not isinstance(content, dict):
        return None
    kind = content.get("type")
    if kind in ("ready", "stop_all", "continue"):
        return {"type": kind}
    agent_id = content.get("agent_id")
    if kind == "stop" and type(agent_id) is int:
        return {"type": "stop", "agent_id": agent_id}
    number, decision = content.get("number"), content.get("decision")
    if kind == "answer" and type(number) is int and decision in ("once", "run", "deny"):
        return {"type": "answer", "number": number, "decision": decision}
    return None


class TranscriptFeed:
    """The transcript as small dicts, of which those from the first changed one on are sent."""

    def __init__(self) -> None:
        self._shown: list[dict[str, Any]] = []
        self._tail = ""
        self._rendered: list[tuple[Entry, list[dict[str, Any]]]] = []
        self._open = BlockRenderer()

    def update(self, state: CardState) -> dict[str, Any] | None:
        """Take the state; the message that brings a view up to date, None where nothing changed."""
        rows = self._closed_rows(state)
        self._open.update(state.open_text)
        rows += [{"kind": "text", "html": block} for block in self._open.blocks]
        start = _first_difference(self._shown, rows)
        if start == len(rows) == len(self._shown) and self._open.tail == self._tail:
            return None
        self._shown, self._tail = rows, self._open.tail
        return {"type": "transcript", "from": start, "entries": rows[start:], "tail": self._tail}

    def whole(self) -> dict[str, Any]:
        """All of it, for a view that has just appeared."""
        return {"type": "transcript", "from": 0, "entries": list(self._shown), "tail": self._tail}

    def _closed_rows(self, state: CardState) -> list[dict[str, Any]]:
        known = self._rendered
        del known[len(state.transcript) :]
        for index, entry in enumerate(state.transcript):
            if index == len(known):
                known.append((entry, self._rows(entry, first=index == 0)))
            elif known[index][0] is not entry and known[index][0] != entry:
                known[index] = (entry, self._rows(entry, first=index == 0))
        return [row for _entry, rows in known for row in rows]

    def _rows(self, entry: Entry, *, first: bool) -> list[dict[str, Any]]:
        if entry.kind == "text":
            blocks = self._open.finish(entry.text)  # most often the text that was streaming until now
            self._open = BlockRenderer()
            return [{"kind": "text", "html": block} for block in blocks]
        if entry.kind == "tool":
            return [{"kind": "tool", "text": line(entry.text, 300), "ok": entry.ok}]
        if entry.kind == "prompt":
            # The first prompt is the cell itself, right above.
            return [] if first else [{"kind": "prompt", "text": line(entry.text, 300)}]
        if entry.kind == "notice":
            return [{"kind": "notice", "text": line(entry.text, 300), "agents": list(entry.agent_ids)}]
        return [{"kind": entry.kind, "text": clean_text(entry.text)[:4000]}]


def _first_difference(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> int:
    for index, (left, right) in enumerate(zip(old, new, strict=False)):
        if left is not right and left != right:
            return index
    return min(len(old), len(new))


async def push_changes(
    card: AgentCard,
    read_state: Callable[[], CardState],
    changed: asyncio.Event,
    *,
    interval_seconds: float = 0.25,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> None:
    """Feed the card until cancelled. Set `changed` after each change of what `read_state` returns.

    Changes within `interval_seconds` go out together. While something lives, something goes out at least
    every `heartbeat_seconds`, even where all that changed is not shown: hubs cull kernels that say nothing,
    and the card takes a long silence for the kernel's end. The last state is always pushed.
    """
    pushed: CardState | None = None
    sent_at = time.monotonic()
    try:
        while True:
            state = read_state()
            beat = state.alive and time.monotonic() - sent_at >= heartbeat_seconds
            if (state is not pushed or beat) and card.push(state, force=beat):
                sent_at = time.monotonic()
            pushed = state
            await asyncio.sleep(interval_seconds)
            left = max(0.0, sent_at + heartbeat_seconds - time.monotonic())
            await _wait(changed, left if state.alive else None)
            changed.clear()
    finally:
        state = read_state()
        if state is not pushed:
            card.push(state)


async def _wait(changed: asyncio.Event, timeout_seconds: float | None) -> None:
    try:
        # asyncio.wait_for of Python 3.11 loses a cancellation that comes together with the event (gh-86296).
        async with asyncio.timeout(timeout_seconds):
            await changed.wait()
    except TimeoutError:
        return
