"""The journal of a run: one checksummed JSON line an event, appended; and what can be read out of it.

A line is the event's JSON with a last member `crc`, the CRC-32 of the JSON before it was added. Reading
stops at the first line that is torn, altered or out of order.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from easyagent.directory import Directory
from easyagent.models import (
    AgentEvent,
    Conclusion,
    MessageAdded,
    MessagesReplaced,
    Stats,
    ToolFinished,
    ToolStarted,
    Usage,
    UsageReported,
    parse_event,
)

JOURNAL = "events.jsonl"
MAX_JOURNAL_BYTES = 1 << 30
_LINE = re.compile(rb'^(\{.*),"crc":"([0-9a-f]{8})"\}$', re.DOTALL)


def sealed(line: str) -> bytes:
    """An event's JSON line with its checksum."""
    body = line.encode()[:-1]
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


class Journal:
    """Appends events to a file that this process alone writes. What an earlier writer left torn at its end is cut off,
    and the numbers go on after its last whole event."""

    def __init__(self, directory: Directory, name: str = JOURNAL) -> None:
        self._descriptor = directory.open_file(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        earlier, self._size = _whole_events(_content(self._descriptor))
        os.ftruncate(self._descriptor, self._size)
        self._next = len(earlier)

    def append(self, event: AgentEvent) -> AgentEvent:
        """Write one event with the next sequence number; raises OSError and leaves no half line behind."""
        numbered = event.model_copy(update={"seq": self._next})
        data = sealed(numbered.line())
        try:
            written = os.write(self._descriptor, data)
            if written != len(data):
                raise OSError("short write")
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)
        self._next += 1
        return numbered

    def close(self) -> None:
        os.close(self._descriptor)


def read_journal(directory: Directory, name: str = JOURNAL) -> list[AgentEvent]:
    """The whole events of a journal, up to the first line that is not sound. Takes the file as hostile input."""
    try:
        descriptor = directory.open_file(name, os.O_RDONLY)
    except OSError:
        return []
    try:
        return _whole_events(_content(descriptor))[0]
    finally:
        os.close(descriptor)


def _content(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read(MAX_JOURNAL_BYTES)


def _whole_events(data: bytes) -> tuple[list[AgentEvent], int]:
    """The events up to the first line that is torn, altered or out of order, and how many bytes they are."""
    events: list[AgentEvent] = []
    size = 0
    for raw in data.split(b"\n")[:-1]:
        match = _LINE.match(raw)
        if match is None or zlib.crc32(match[1]) != int(match[2], 16):
            break
        event = parse_event(match[1] + b"}")
        if event.seq != len(events):
            break
        events.append(event)
        size += len(raw) + 1
    return events, size


@dataclass(slots=True)
class JournalSummary:
    """What a run's events add up to."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    stats: Stats = field(default_factory=Stats)
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    written: dict[str, None] = field(default_factory=dict)
    last_action: str = ""
    last_text: str = ""
    conclusion: Conclusion | None = None

    def add(self, event: AgentEvent) -> None:
        if isinstance(event, MessageAdded):
            self.messages.append(event.message)
            if event.message.get("role") == "assistant" and event.message.get("content"):
                self.last_text = str(event.message["content"])
        elif isinstance(event, MessagesReplaced):
            self.messages[event.start :] = event.messages
        elif isinstance(event, ToolStarted):
            self.last_action = event.action
        elif isinstance(event, ToolFinished):
            self.stats = event.stats
            self.written |= dict.fromkeys(event.written)
        elif isinstance(event, UsageReported):
            self.usage, self.model = self.usage + event.usage, event.model
        elif isinstance(event, Conclusion):
            self.conclusion = event


def summarize(events: Iterable[AgentEvent]) -> JournalSummary:
    summary = JournalSummary()
    for event in events:
        summary.add(event)
    return summary


def conversation_record(
    *,
    agent_id: int,
    summary: str,
    created_at: str,
    completed_at: str | None,
    journal: JournalSummary,
    runtime_seconds: int,
) -> dict[str, Any]:
    """The content of conversations.json, in the format of the founding plan."""
    usage = journal.usage
    return {
        "agent_id": agent_id,
        "summary": summary,
        "created_at": created_at,
        "completed_at": completed_at,
        "messages": journal.messages,
        "stats": {
            **journal.stats.model_copy(update={"runtime_seconds": runtime_seconds}).model_dump(),
            "token_usage": {"prompt": usage.prompt, "completion": usage.completion, "total": usage.total},
        },
    }
