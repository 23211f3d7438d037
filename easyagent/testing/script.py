"""What a script of FakeOpenAI is made of: replies, matchers, gates."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from easyagent.openai_server import BrokenStream, ChatReply, ChatRequest, RawReply, ToolCallReply, error_reply

# The first line of easyagent/prompts/{en,zh}/first_message.md.
_SUB_AGENT = re.compile(r"(?:You are sub-agent|你是子智能体) (\d+)(?:,|，)")

Matcher = Callable[[ChatRequest], bool]


@dataclass(frozen=True, slots=True)
class Hang:
    """A reply that never comes: until the client leaves or the server closes."""


FixedReply = str | ChatReply | RawReply | BrokenStream | Hang
ScriptedReply = FixedReply | Callable[[ChatRequest], FixedReply]


class Gate:
    """Holds a reply back until the test opens it, so that a test orders things by events."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        """Set when a request waits at this gate (or has passed it)."""
        self._lock = threading.Lock()
        self._opened = False
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        """Let all requests pass, now and later. Callable from any thread."""
        with self._lock:
            self._opened = True
            waiting, self._waiting = self._waiting, []
        for loop, passed in waiting:
            loop.call_soon_threadsafe(passed.set)

    async def wait(self) -> None:
        """Return once the gate is open."""
        passed = asyncio.Event()
        entry = (asyncio.get_running_loop(), passed)
        with self._lock:
            if self._opened:
                passed.set()
            else:
                self._waiting.append(entry)
        self.reached.set()
        try:
            await passed.wait()
        finally:
            with self._lock:
                if entry in self._waiting:
                    self._waiting.remove(entry)


@dataclass(slots=True)
class RecordedRequest(ChatRequest):
    """A request as FakeOpenAI got it."""

    arrived: float = 0.0
    """time.monotonic() at its arrival."""
    script: str | None = None
    """Name of the script that answers it; None: unexpected."""
    state: Literal["open", "answered", "cancelled"] = "open"

    @property
    def cancelled(self) -> bool:
        """True where the client left before the whole reply was sent."""
        return self.state == "cancelled"


@dataclass(slots=True)
class _Planned:
    reply: ScriptedReply
    gate: Gate | None
    forever: bool = False


@dataclass(slots=True)
class Script:
    """A queue of replies for the requests that match. Made by `FakeOpenAI.script`."""

    name: str
    matches: Matcher
    requests: list[RecordedRequest] = field(default_factory=list)
    """The requests this script has taken, in order."""
    _planned: list[_Planned] = field(default_factory=list)

    def reply(self, reply: ScriptedReply, *, gate: Gate | None = None) -> Script:
        """Answer the next matching request with this; `gate` holds the answer back until it is opened.

        A callable gets the request and returns the reply. Returns the script, for chaining.
        """
        self._planned.append(_Planned(reply, gate))
        return self

    def repeat(self, reply: ScriptedReply, *, gate: Gate | None = None) -> Script:
        """Answer all further matching requests with this; it never counts as unused."""
        self._planned.append(_Planned(reply, gate, forever=True))
        return self

    @property
    def unused(self) -> int:
        """Replies that no request has asked for."""
        return sum(not planned.forever for planned in self._planned)

    def take(self, request: RecordedRequest) -> _Planned | None:
        """The next reply if this script answers the request."""
        if not self._planned or not self.matches(request):
            return None
        request.script = self.name
        self.requests.append(request)
        return self._planned[0] if self._planned[0].forever else self._planned.pop(0)


def call(name: str, /, **arguments: Any) -> ToolCallReply:
    """One tool call. For malformed arguments use `ToolCallReply(name, "text as it is")`."""
    return ToolCallReply(name, arguments)


def calls(*tool_calls: ToolCallReply, text: str | None = None) -> ChatReply:
    """A reply with tool calls, several of them in one message if several are given."""
    return ChatReply(content=text, tool_calls=tool_calls)


def error(status: int, message: str, *, retry_after: float | None = None, code: str | None = None) -> RawReply:
    """An HTTP error in OpenAI's form; `retry_after` in seconds."""
    return error_reply(status, message, code=code, retry_after=retry_after)


def cut_stream(text: str) -> BrokenStream:
    """A stream that says `text` and then breaks off: the socket closes without an end."""
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
    item = {
        "id": "chatcmpl-cut",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "",
        "choices": [choice],
    }
    return BrokenStream((b"data: " + json.dumps(item).encode() + b"\n\n",))


def hang() -> Hang:
    """A reply that never comes."""
    return Hang()


def for_sub_agent(agent_id: int | None = None) -> Matcher:
    """Matches the requests of sub-agent `agent_id`, or of any sub-agent."""

    def matches(request: ChatRequest) -> bool:
        found = _SUB_AGENT.match(request.first_user_text)
        return found is not None and (agent_id is None or int(found[1]) == agent_id)

    return matches


def for_main() -> Matcher:
    """Matches the requests of the main agent: all that are no sub-agent's."""
    return lambda request: _SUB_AGENT.match(request.first_user_text) is None


def matcher(match: str | Sequence[str] | Matcher | None) -> Matcher:
    """Make a matcher of what `FakeOpenAI.script` takes."""
    if match is None:
        return lambda request: True
    if callable(match):
        return match
    wanted = (match,) if isinstance(match, str) else tuple(match)
    return lambda request: all(part in request.text for part in wanted)
