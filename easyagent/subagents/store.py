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
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from easyagent.journal import (
    Journal,
    JournalSummary,
    conversation_record,
    read_journal,
    summarize,
    write_atomically,
    write_snapshot,
)
from easyagent.models import DeliveredFile, FileMark, FinishResult, SubAgentEnd, SubAgentJob

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
        path = self._make(self.directory(job.sub_conversation_id)) / "job.json"
        write_atomically(path, job.model_dump_json(indent=1).encode())
        return path

    def open_conversation(self, conversation_id: str) -> Journal:
        """The journal of a main conversation. Raises OSError."""
        return Journal(self._make(self.root / "conversations" / conversation_id) / "events.jsonl")

    def _make(self, directory: Path) -> Path:
        if self.root.is_symlink():
            raise OSError(f"{self.root} is a symbolic link")
        directory.mkdir(parents=True, mode=0o700)
        ignore = self.root / ".gitignore"
        if not ignore.exists():
            write_atomically(ignore, b"*\n")
        return directory

    def job(self, run_id: str) -> SubAgentJob | None:
        return _read(self.directory(run_id) / "job.json", SubAgentJob)

    def result(self, run_id: str) -> FinishResult | None:
        return _read(self.directory(run_id) / "result.json", FinishResult)

    def end(self, run_id: str) -> SubAgentEnd | None:
        return _read(self.directory(run_id) / "end.json", SubAgentEnd)

    def summary(self, run_id: str) -> JournalSummary:
        return summarize(read_journal(self.directory(run_id) / "events.jsonl"))

    def write_end(self, run_id: str, end: SubAgentEnd) -> SubAgentEnd:
        """Record the end. Where one is recorded already, that one holds and is returned."""
        path = self.directory(run_id) / "end.json"
        temporary = path.with_name(f".end.{os.getpid()}.tmp")
        temporary.write_bytes(end.model_dump_json(indent=1).encode())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return self.end(run_id) or end
        finally:
            temporary.unlink(missing_ok=True)
        return end

    def run_ids(self) -> list[str]:
        """All recorded runs, oldest first."""
        runs = self.root / "runs"
        if not runs.is_dir():
            return []
        found = [entry for entry in runs.iterdir() if (entry / "job.json").is_file()]
        return [entry.name for entry in sorted(found, key=lambda entry: entry.stat().st_mtime_ns)]

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
        write_snapshot(self.workspace / job.deliverables_dir, record)


def _read(path: Path, kind: type[Record]) -> Record | None:
    """A record, or None where it is missing or not what it should be: the file is taken as hostile input."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        information = os.fstat(descriptor)
        if not stat.S_ISREG(information.st_mode) or information.st_size > MAX_RECORD_BYTES:
            return None
        try:
            return kind.model_validate_json(file.read())
        except ValidationError:
            return None


def _files_below(directory: Path) -> list[Path]:
    found = []
    for current, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if name != ".subagent")
        for name in files:
            path = Path(current, name)
            with contextlib.suppress(OSError):
                if stat.S_ISREG(path.lstat().st_mode):
                    found.append(path)
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
    name = path.relative_to(directory).as_posix()
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


def archive_earlier_record(deliverables: Path) -> None:
    """Keep the conversation of an earlier run in the same directory under a name of its own."""
    current = deliverables / ".subagent" / "conversations.json"
    if current.is_file() and not current.is_symlink():
        number = 1
        while (archived := current.with_name(f"conversations.{number}.json")).exists():
            number += 1
        current.rename(archived)
