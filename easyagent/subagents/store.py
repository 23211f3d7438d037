"""RunStore: the records of all runs of a workspace, under `.subagents/runs/<sub_conversation_id>/`.

| file          | writer                                             |
| job.json      | the kernel, once                                   |
| events.jsonl  | the sub-agent                                      |
| result.json   | the sub-agent, once, at finish_task                |
| end.json      | the run's owner, once; the first writer wins       |
| stderr.log    | the sub-agent's standard error                     |
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from easyagent.directory import Directory
from easyagent.journal import Journal, JournalSummary, conversation_record, read_journal, summarize
from easyagent.models import AgentEvent, DeliveredFile, FileMark, FinishResult, SubAgentEnd, SubAgentJob
from easyagent.models.conversation import ConversationRecord

MAX_RECORD_BYTES = 16 * 1024 * 1024
MAX_DELIVERED_FILES = 1000

Record = TypeVar("Record", bound=BaseModel)
HASH_SECONDS = 5.0
"""For all files of a run: an end must not wait for hours of reading."""


@dataclass(frozen=True, slots=True)
class RunStore:
    """The run records of one workspace."""

    workspace: Path

    @property
    def root(self) -> Path:
        return self.workspace / ".subagents"

    def directory(self, run_id: str) -> Path:
        return self.root / "runs" / run_id

    def create(self, job: SubAgentJob) -> Path:
        """Make the run's directory and its job.json; returns the job file. Raises OSError."""
        with self.open("runs", job.sub_conversation_id, create=True) as directory:
            directory.replace("job.json", job.model_dump_json(indent=1).encode())
            return directory.path / "job.json"

    def open_conversation(self, record: ConversationRecord) -> Journal:
        """Take a main conversation into possession, and its journal to append to. Raises OSError."""
        with self.open("conversations", record.id, create=True) as directory:
            directory.replace("conversation.json", record.model_dump_json(indent=1).encode())
            return Journal(directory)

    def conversation(self, conversation_id: str) -> ConversationRecord | None:
        return self._read("conversations", conversation_id, "conversation.json", ConversationRecord)

    def conversation_events(self, conversation_id: str) -> list[AgentEvent]:
        """The main agent's own events, oldest first."""
        return self._events("conversations", conversation_id)

    def conversation_ids(self) -> list[str]:
        return self._names("conversations", "conversation.json")

    def open(self, *names: str, create: bool = False) -> Directory:
        """A folder of the store. Raises OSError."""
        if create:
            with Directory.open(self.workspace, self.root.name, create=True) as root:
                _ignore_itself(root)
        return Directory.open(self.workspace, self.root.name, *names, create=create)

    def job(self, run_id: str) -> SubAgentJob | None:
        return self._read("runs", run_id, "job.json", SubAgentJob)

    def result(self, run_id: str) -> FinishResult | None:
        return self._read("runs", run_id, "result.json", FinishResult)

    def end(self, run_id: str) -> SubAgentEnd | None:
        return self._read("runs", run_id, "end.json", SubAgentEnd)

    def events(self, run_id: str) -> list[AgentEvent]:
        """The whole events of a run; none where it has no directory."""
        return self._events("runs", run_id)

    def summary(self, run_id: str) -> JournalSummary:
        return summarize(self.events(run_id))

    def write_end(self, run_id: str, end: SubAgentEnd) -> SubAgentEnd:
        """Record the end. Where one is recorded already, that one holds and is returned."""
        with self.open("runs", run_id) as directory:
            written = directory.create("end.json", end.model_dump_json(indent=1).encode())
        return end if written else self.end(run_id) or end

    def _events(self, kind: str, name: str) -> list[AgentEvent]:
        try:
            with self.open(kind, name) as directory:
                return read_journal(directory)
        except OSError:
            return []

    def _read(self, folder: str, identity: str, name: str, kind: type[Record]) -> Record | None:
        """A record, or None where it is missing or not what it should be: the file is taken as hostile input."""
        try:
            with self.open(folder, identity) as directory:
                data = directory.read(name, MAX_RECORD_BYTES)
            return kind.model_validate_json(data) if data is not None else None
        except (OSError, ValidationError):
            return None

    def run_ids(self) -> list[str]:
        """All recorded runs, oldest first."""
        return self._names("runs", "job.json")

    def _names(self, folder: str, name: str) -> list[str]:
        """The folders that hold such a file, oldest file first."""
        found = []
        for file in (self.root / folder).glob(f"*/{name}"):
            with contextlib.suppress(OSError):  # gone meanwhile
                found.append((file.lstat().st_mtime_ns, file.parent.name))
        return [identity for _, identity in sorted(found)]

    def complete_snapshot(self, job: SubAgentJob, end: SubAgentEnd, journal: JournalSummary) -> None:
        """Bring conversations.json up to the journal after an agent's death, however it died."""
        record = conversation_record(
            agent_id=job.agent_id,
            summary=job.summary,
            created_at=job.created_at,
            completed_at=end.ended_at,
            journal=journal,
            runtime_seconds=end.stats.runtime_seconds,
        )
        write_snapshot(self.workspace, job, record)


def write_snapshot(workspace: Path, job: SubAgentJob, record: dict[str, Any]) -> None:
    """Write `.subagent/conversations.json` below the deliverables directory. Raises OSError."""
    data = json.dumps(record, ensure_ascii=False, indent=2).encode("utf-8", "replace")
    try:
        _write_snapshot(workspace, job, data)
    except OSError:
        _clear_the_way(workspace, job)
        _write_snapshot(workspace, job, data)


def _write_snapshot(workspace: Path, job: SubAgentJob, data: bytes) -> None:
    with _snapshots(workspace, job, create=True) as directory:
        _ignore_itself(directory)
        directory.replace("conversations.json", data)


def _clear_the_way(workspace: Path, job: SubAgentJob) -> None:
    """A command of the agent may have put something in the record's place: it is kept under another name."""
    aside = f".subagent.{os.getpid()}.{time.monotonic_ns()}"
    with Directory.open(workspace, *Path(job.deliverables_dir).parts) as deliverables:
        if deliverables.has(".subagent"):
            deliverables.rename(".subagent", aside)


def _snapshots(workspace: Path, job: SubAgentJob, *, create: bool) -> Directory:
    return Directory.open(workspace, *Path(job.deliverables_dir).parts, ".subagent", create=create)


def _ignore_itself(directory: Directory) -> None:
    """Keep git out of it."""
    if not directory.has(".gitignore"):
        directory.replace(".gitignore", b"*\n")


def _files_below(directory: Path) -> list[Path]:
    """The regular files below a directory, without the record's own folder and what stood in its place."""
    found: list[Path] = []
    waiting = [directory]
    while waiting and len(found) < MAX_DELIVERED_FILES:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.name.startswith(".subagent"):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        found.append(Path(entry.path))
        except OSError:  # gone, closed, or deeper than a path can be
            continue
    return sorted(found)[:MAX_DELIVERED_FILES]


def mark_files(directory: Path) -> tuple[FileMark, ...]:
    """What lies in a deliverables directory before a run, so that what the run changes can be told apart."""
    marks = []
    for path in _files_below(directory):
        with contextlib.suppress(OSError):  # gone meanwhile
            marks.append(_mark(path, directory))
    return tuple(marks)


def delivered_files(directory: Path, before: tuple[FileMark, ...]) -> tuple[DeliveredFile, ...]:
    """The files a run made or changed, sorted by path, with size and sha256."""
    known, end = set(before), time.monotonic() + HASH_SECONDS
    delivered = []
    for path in _files_below(directory):
        with contextlib.suppress(OSError):
            mark = _mark(path, directory)
            if mark not in known:
                digest = _sha256(path, end)
                delivered.append(DeliveredFile(path=mark.path, size_bytes=mark.size_bytes, sha256=digest))
    return tuple(delivered)


def _mark(path: Path, directory: Path) -> FileMark:
    information = path.lstat()
    # A name need not be text: what is none is written with escapes.
    name = os.fsencode(path.relative_to(directory).as_posix()).decode("utf-8", "backslashreplace")
    return FileMark(path=name, modified_ns=information.st_mtime_ns, size_bytes=information.st_size)


def _sha256(path: Path, end: float) -> str | None:
    """The digest of a file; None where the time is up before it is read. Raises OSError."""
    digest = hashlib.sha256()
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        while data := file.read(1 << 20):
            digest.update(data)
            if time.monotonic() > end:
                return None
    return digest.hexdigest()


def archive_earlier_record(workspace: Path, job: SubAgentJob) -> None:
    """Keep the conversation of an earlier run in the same directory under a name of its own. Raises OSError."""
    try:
        directory = _snapshots(workspace, job, create=False)
    except FileNotFoundError:
        return
    except OSError:
        _clear_the_way(workspace, job)
        return
    with directory:
        if directory.has("conversations.json"):
            number = 1
            while directory.has(f"conversations.{number}.json"):
                number += 1
            directory.rename("conversations.json", f"conversations.{number}.json")
