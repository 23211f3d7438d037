"""The journal of a run: one checksummed JSON line an event, appended; and what can be read out of it.

A line is the event's JSON with a last member `crc`, the CRC-32 of the JSON before it was added. Reading
stops at the first line that is torn, altered or out of order.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from easyagent.models import (
    AgentEvent,
    Conclusion,
    MessageAdded,
    Stats,
    ToolFinished,
    ToolStarted,
    Usage,
    UsageReported,
    parse_event,
)

MAX_JOURNAL_BYTES = 1 << 30
_LINE = re.compile(rb'^(\{.*),"crc":"([0-9a-f]{8})"\}$', re.DOTALL)


def sealed(line: str) -> bytes:
    """An event's JSON line with its checksum."""
    body = line.encode()[:-1]
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


class Journal:
    """Appends events to a file that this process alone writes."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        self._descriptor = os.open(path, flags, 0o600)
        self._size = os.fstat(self._descriptor).st_size
        self._next = 0

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


def read_journal(path: Path) -> list[AgentEvent]:
    """The whole events of a journal, up to the first line that is not sound. Takes the file as hostile input."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return []
    events: list[AgentEvent] = []
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return []
        for raw in file.read(MAX_JOURNAL_BYTES).split(b"\n"):
            match = _LINE.match(raw)
            if match is None or zlib.crc32(match[1]) != int(match[2], 16):
                break
            event = parse_event(match[1] + b"}")
            if event.seq != len(events):
                break
            events.append(event)
    return events


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


def write_atomically(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file so that a reader sees the old content or the new one. Follows no symbolic link at `path`."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    try:
        descriptor = os.open(temporary, flags, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_snapshot(deliverables: Path, record: dict[str, Any]) -> None:
    """Write `.subagent/conversations.json` below a deliverables directory, and keep git out of it."""
    directory = deliverables / ".subagent"
    directory.mkdir(parents=True, exist_ok=True)
    if directory.is_symlink():
        raise OSError(f"{directory} is a symbolic link")
    ignore = directory / ".gitignore"
    if not ignore.exists():
        write_atomically(ignore, b"*\n")
    write_atomically(directory / "conversations.json", json.dumps(record, ensure_ascii=False, indent=2).encode())
