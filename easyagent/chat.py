"""Conversations in chat-completions form: messages that are encoded once, and replies put together from chunks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from easyagent.models import Usage

MAX_JSON_DEPTH = 60
"""Of a call's arguments: what is deeper breaks the encoders of events, and no tool means it."""

OUTCOME_UNKNOWN = "Error: interrupted; whether this call took effect is not known."
"""The result of a call whose process ended before it could tell one."""


def clean(text: str) -> str:
    """Text that every encoder takes: lone surrogates, which broken endpoints send, become "?"; NUL is dropped."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "")


def load_json(text: str) -> Any:
    """JSON from a model. Raises ValueError, also for what is nested so deep that nothing after it could take it."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    level, layer = 0, [value]
    while layer := [entry for outer in layer for entry in _inner(outer)]:
        level += 1
        if level > MAX_JSON_DEPTH:
            raise ValueError("it is nested too deeply")
    return without_surrogates(value)


def _inner(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def without_surrogates(value: Any) -> Any:
    """A JSON value whose texts every encoder takes. JSON's escapes may spell surrogates that no text may hold."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [without_surrogates(entry) for entry in value]
    if isinstance(value, dict):
        return {without_surrogates(key): without_surrogates(entry) for key, entry in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a model; `arguments` is the JSON text as it came, perhaps broken."""

    id: str
    name: str
    arguments: str

    @classmethod
    def from_message(cls, call: Mapping[str, Any]) -> ToolCall:
        function = call.get("function")
        function = function if isinstance(function, Mapping) else {}
        arguments = function.get("arguments")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments if arguments is not None else {})
        return cls(clean(str(call.get("id") or _new_call_id())), clean(str(function.get("name") or "")), clean(text))

    def message_form(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments},
        }


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a model."""

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage.unknown)
    model: str = ""
    finish_reason: str = "stop"
    reasoning: str = ""

    def message(self) -> dict[str, Any]:
        """The assistant message to keep. Reasoning is not sent back: endpoints differ on whether they accept it."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content or None}
        if self.tool_calls:
            message["tool_calls"] = [call.message_form() for call in self.tool_calls]
        elif not self.content:
            message["content"] = ""
        return message


class Messages:
    """An append-only conversation whose messages are encoded once, so that a long one costs no more per turn."""

    def __init__(self, messages: Iterable[Mapping[str, Any]] = ()) -> None:
        self._messages: list[dict[str, Any]] = []
        self._encoded: list[bytes] = []
        for message in messages:
            self.append(message)

    def append(self, message: Mapping[str, Any]) -> None:
        self._messages.append(dict(message))
        self._encoded.append(json.dumps(message).encode())

    def replace(self, start: int, messages: Iterable[Mapping[str, Any]]) -> None:
        """Put others in the place of the messages from `start` on."""
        del self._messages[start:], self._encoded[start:]
        for message in messages:
            self.append(message)

    def close_calls(self, answer: str) -> list[dict[str, Any]]:
        """Answer every tool call that has no result, as endpoints demand; returns the messages added."""
        answered = {str(message.get("tool_call_id")) for message in self._messages if message.get("role") == "tool"}
        added = [
            {"role": "tool", "tool_call_id": call["id"], "content": answer}
            for message in self._messages
            for call in message.get("tool_calls") or ()
            if call["id"] not in answered
        ]
        for message in added:
            self.append(message)
        return added

    def copy(self) -> list[dict[str, Any]]:
        return [dict(message) for message in self._messages]

    def __len__(self) -> int:
        return len(self._messages)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._messages[index]

    def request_body(self, head: Mapping[str, Any]) -> bytes:
        """A JSON request: the head's fields, then all messages."""
        return json.dumps(head).encode()[:-1] + b', "messages": [' + b",".join(self._encoded) + b"]}"


STREAM_DONE: Mapping[str, Any] = {"done": True}
"""Stands for the `[DONE]` line: some servers end with it and name no finish reason."""


class ReplyBuilder:
    """Puts a reply together from streamed chunks."""

    def __init__(self, on_text: Callable[[str], None]) -> None:
        self._on_text = on_text
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._finish_reason: str | None = None
        self._model = ""
        self.unreadable = False
        """Something stood where tool calls stand and was none."""
        self.raw_usage: Mapping[str, Any] | None = None

    @property
    def started(self) -> bool:
        return bool(self._text or self._calls or self._reasoning)

    @property
    def complete(self) -> bool:
        """False where the stream ended before the model did."""
        return self._finish_reason is not None

    def add(self, chunk: Mapping[str, Any]) -> None:
        if chunk is STREAM_DONE:
            self._finish_reason = self._finish_reason or "stop"
            return
        if isinstance(chunk.get("usage"), Mapping):
            self.raw_usage = chunk["usage"]
        if isinstance(chunk.get("model"), str):
            self._model = clean(chunk["model"]) or self._model
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
            return
        delta = choices[0].get("delta")
        delta = delta if isinstance(delta, Mapping) else {}
        if text := _content(delta.get("content")):
            self._text.append(text)
            self._on_text(text)
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str):
            self._reasoning.append(clean(reasoning))
        pieces = delta.get("tool_calls") or []
        for piece in pieces if isinstance(pieces, list) else [None]:
            if isinstance(piece, Mapping) and isinstance(piece.get("function") or {}, Mapping):
                self._add_call(piece)
            else:
                self.unreadable = True
        if choices[0].get("finish_reason"):
            self._finish_reason = str(choices[0]["finish_reason"])

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        """Some servers leave out the index of a lone call; some send all pieces of a call with its id."""
        index = piece.get("index")
        if not isinstance(index, int):
            known = [key for key, call in self._calls.items() if call["id"] == piece.get("id")]
            index = known[0] if known else len(self._calls) if piece.get("id") or not self._calls else max(self._calls)
        call = self._calls.setdefault(index, {"id": "", "name": "", "arguments": ""})
        function = piece.get("function") or {}
        call["id"] = clean(str(piece.get("id") or call["id"]))
        call["name"] = call["name"] or str(function.get("name") or "")
        arguments = function.get("arguments")
        if arguments is not None:
            call["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def reply(self, usage: Usage) -> Reply:
        return Reply(
            content="".join(self._text),
            tool_calls=unique_calls(self._ordered_calls()),
            usage=usage,
            model=self._model,
            finish_reason=self._finish_reason or "stop",
            reasoning="".join(self._reasoning),
        )

    def _ordered_calls(self) -> Iterable[ToolCall]:
        """Calls in order."""
        for _, call in sorted(self._calls.items()):
            yield ToolCall(call["id"], clean(call["name"]), clean(call["arguments"]))


def _content(content: Any) -> str:
    """The text of a message or a piece of one; some servers send it in parts."""
    if isinstance(content, list):
        content = "".join(
            part["text"] for part in content if isinstance(part, Mapping) and isinstance(part.get("text"), str)
        )
    return clean(content) if isinstance(content, str) else ""


def unique_calls(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """A missing or repeated id gets a new one: each result must name exactly one call."""
    seen: set[str] = set()
    unique: list[ToolCall] = []
    for call in calls:
        identity = call.id if call.id and call.id not in seen else _new_call_id()
        seen.add(identity)
        unique.append(ToolCall(identity, call.name, call.arguments))
    return tuple(unique)


def _new_call_id() -> str:
    return "call_" + uuid.uuid4().hex[:24]


Retry = Callable[[str, float], None]


class ChatModel(Protocol):
    """What the loop needs of a model. Raises ModelError with one sentence when it cannot answer."""

    name: str
    endpoint: str
    """Which endpoint and model: what is learned of one does not hold for another."""

    async def complete(
        self,
        messages: Messages,
        tools: Sequence[Mapping[str, Any]],
        *,
        on_text: Callable[[str], None],
        on_retry: Retry,
    ) -> Reply: ...

    async def aclose(self) -> None: ...
