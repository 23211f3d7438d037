"""How a run ended: told from the strongest evidence there is, and written down once."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from easyagent.journal import JournalSummary
from easyagent.models import (
    AgentExit,
    Cause,
    DeliveredFile,
    FinishResult,
    SubAgentEnd,
    SubAgentJob,
    SubAgentStatus,
)
from easyagent.sandbox import temporary_directory
from easyagent.subagents.store import RunStore, delivered_files


def record_end(store: RunStore, job: SubAgentJob, ended: AgentExit, *, error: str | None = None) -> SubAgentEnd:
    """Write `end.json` and complete the conversation's record; where the end is recorded already, that one holds.

    Called by the run's owner once nothing of it lives. Raises OSError where nothing can be written.
    """
    run_id = job.sub_conversation_id
    known = store.end(run_id)
    if known is not None:
        return known
    shutil.rmtree(temporary_directory(run_id), ignore_errors=True)
    journal = store.summary(run_id)
    files = delivered_files(Path(job.workspace, job.deliverables_dir), job.existing_files)
    end = store.write_end(run_id, make_end(job, ended, journal, store.result(run_id), files, error=error))
    store.complete_snapshot(job, end, journal)
    return end


def make_end(
    job: SubAgentJob,
    ended: AgentExit,
    journal: JournalSummary,
    finish: FinishResult | None,
    files: tuple[DeliveredFile, ...],
    *,
    error: str | None = None,
) -> SubAgentEnd:
    """The record of an end, from the run's journal, its report if it handed one over, and what lies on disk."""
    status, cause = _how(ended, journal, finish)
    conclusion = journal.conclusion
    return SubAgentEnd(
        status=status,
        cause=cause,
        ended_at=utc_now(),
        exit_code=ended.exit_code,
        receipt=ended.receipt,
        cpu_seconds=ended.cpu_seconds,
        peak_memory_bytes=ended.peak_memory_bytes,
        stats=journal.stats.model_copy(update={"runtime_seconds": ended.runtime_seconds}),
        usage=journal.usage,
        model=journal.model or job.model,
        result_summary=finish.summary if finish else journal.last_text,
        result=finish.result if finish else None,
        files=files,
        files_written=tuple(journal.written),
        error=error or (conclusion.error if conclusion else None),
        last_action=journal.last_action,
        quiet=ended.stop is not None and ended.stop.quiet,
        partial=status is not SubAgentStatus.COMPLETED,
    )


def _how(ended: AgentExit, journal: JournalSummary, finish: FinishResult | None) -> tuple[SubAgentStatus, Cause]:
    """Its report, then who stopped it, then what it said last, else a crash. Never the exit code alone."""
    if finish is not None:
        return (SubAgentStatus.COMPLETED if finish.success else SubAgentStatus.FAILED), Cause.FINISH_TASK
    if ended.stop is not None:
        return ended.stop.status, ended.stop.cause
    said = journal.conclusion.cause if journal.conclusion else None
    return SubAgentStatus.FAILED, said or Cause.CRASH


def utc_now() -> str:
    """The time as records hold it: ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
