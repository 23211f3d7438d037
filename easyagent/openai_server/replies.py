"""What a chat-completions server is asked and what it answers, in the API's own shapes."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from easyagent.models import Usage

_STREAM_PIECES = 40
_PIECE_CHARACTERS = 16


@dataclass(slots=True)
class ChatRequest:
    """One POST to /v1/chat/completions: the parsed body, and the headers with lower-case names."""

    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def messages(self) -> list[dict[str, Any]]:
        return list(self.body.get("messages", []))

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the tools that the request offers, in its order."""
        tools: list[dict[str, Any]] = self.body.get("tools") or []
        return tuple(str(tool.get("function", {}).get("name", "")) for tool in tools)

    @property
    def text(self) -> str:
        """The text of all messages, one after the other."""
        return "\n".join(message_text(message) for message in self.messages)

    @property
    def first_user_text(self) -> str:
        """The text of the first user message: for a sub-agent, its task."""
        return next((message_text(m) for m in self.messages if m.get("role") == "user"), "")

    @property
    def last_text(self) -> str:
        """The text of the last message: the prompt, a notice or a tool's result."""
        return message_text(self.messages[-1]) if self.messages else ""


@dataclass(frozen=True, slots=True)
class ToolCallReply:
    """A tool call of the model. `arguments` as a string is sent as it is, be it valid JSON or not."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    call_id: str | None = None
    """None: the server makes one."""

    @property
    def arguments_json(self) -> str:
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class ChatReply:
    """One assistant message."""

    content: str | None = None
    tool_calls: tuple[ToolCallReply, ...] = ()
    reasoning: str | None = None
    """Sent as `reasoning_content`, as several servers do."""
    usage: Usage | Mapping[str, Any] | Literal["estimate"] | None = "estimate"
    """A mapping is sent as it is; "estimate" counts UTF-8 bytes / 3.5; None: no usage is reported."""
    finish_reason: str | None = None
    """None: `tool_calls` where there are calls, else `stop`."""
    chunk_delay_seconds: float = 0.0
    """Pause after each piece of a streamed reply; a field of it is cut into at most 40 pieces."""


@dataclass(frozen=True, slots=True)
class RawReply:
    """Status, headers and body, served as they are. A missing Content-Length is added."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})


@dataclass(frozen=True, slots=True)
class BrokenStream:
    """Pieces of an event stream, after which the socket is closed: no [DONE], no last HTTP chunk."""

    pieces: tuple[bytes, ...] = ()


Reply = ChatReply | RawReply | BrokenStream
Answer = Callable[[ChatRequest], Awaitable[Reply]]


def message_text(message: Mapping[str, Any]) -> str:
    """The text of a message whose content is a string, a list of parts, or null."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def error_reply(status: int, message: str, *, code: str | None = None, retry_after: float | None = None) -> RawReply:
    """An error in OpenAI's JSON form. `retry_after` is in seconds."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    error = {"message": message, "type": kind, "param": None, "code": code}
    headers = {"Content-Type": "application/json"}
    if retry_after is not None:
        headers["Retry-After"] = f"{retry_after:g}"
    return RawReply(status, json.dumps({"error": error}).encode(), headers)


def estimate_tokens(value: Any) -> int:
    """A rough token count of a JSON value: UTF-8 bytes of its compact text / 3.5, rounded up."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / 3.5)


def completion(reply: ChatReply, request: ChatRequest) -> dict[str, Any]:
    """The `chat.completion` object of a reply that is not streamed."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [_tool_call(call) for call in reply.tool_calls]
    choice = {"index": 0, "message": message, "finish_reason": _finish_reason(reply)}
    usage = _usage(reply, request)
    return _envelope(request, "chat.completion", [choice]) | ({"usage": usage} if usage is not None else {})


def completion_chunks(reply: ChatReply, request: ChatRequest) -> Iterator[dict[str, Any]]:
    """The `chat.completion.chunk` objects of a streamed reply, texts and arguments cut in pieces."""
    envelope = _envelope(request, "chat.completion.chunk", [])
    for delta in _deltas(reply):
        yield envelope | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield envelope | {"choices": [{"index": 0, "delta": {}, "finish_reason": _finish_reason(reply)}]}
    usage = _usage(reply, request)
    if usage is not None and (request.body.get("stream_options") or {}).get("include_usage"):
        yield envelope | {"usage": usage}


def _deltas(reply: ChatReply) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": "" if reply.content is not None else None}
    for piece in _pieces(reply.reasoning or ""):
        yield {"reasoning_content": piece}
    for piece in _pieces(reply.content or ""):
        yield {"content": piece}
    for index, call in enumerate(reply.tool_calls):
        head = _tool_call(call)
        arguments = head["function"].pop("arguments")
        head["function"]["arguments"] = ""
        yield {"tool_calls": [{"index": index, **head}]}
        for piece in _pieces(arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Sequence[str]:
    size = max(_PIECE_CHARACTERS, math.ceil(len(text) / _STREAM_PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _tool_call(call: ToolCallReply) -> dict[str, Any]:
    call_id = call.call_id or f"call_{uuid.uuid4().hex[:16]}"
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments_json},
    }


def _finish_reason(reply: ChatReply) -> str:
    return reply.finish_reason or ("tool_calls" if reply.tool_calls else "stop")


def _envelope(request: ChatRequest, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex[:16]}",
        "object": kind,
        "created": int(time.time()),
        "model": request.model,
        "choices": choices,
    }


def _usage(reply: ChatReply, request: ChatRequest) -> Mapping[str, Any] | None:
    usage = reply.usage
    if usage == "estimate":
        prompt = estimate_tokens([request.messages, request.body.get("tools") or []])
        calls = "".join(call.name + call.arguments_json for call in reply.tool_calls)
        completed = estimate_tokens((reply.content or "") + (reply.reasoning or "") + calls)
        usage = Usage(prompt=prompt, completion=completed, total=prompt + completed)
    if isinstance(usage, Usage):
        return {
            "prompt_tokens": usage.prompt,
            "completion_tokens": usage.completion,
            "total_tokens": usage.total,
        }
    return usage
