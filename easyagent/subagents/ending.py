"""How a run ended: told from the strongest evidence there is, and written down once."""

from __future__ import annotations

from datetime import UTC, datetime

from easyagent.journal import JournalSummary
from easyagent.models import Cause, DeliveredFile, FinishResult, KillReceipt, SubAgentEnd, SubAgentStatus
from easyagent.subagents.run import SubAgentRun


def make_end(
    run: SubAgentRun,
    journal: JournalSummary,
    finish: FinishResult | None,
    files: tuple[DeliveredFile, ...],
    *,
    exit_code: int | None,
    receipt: KillReceipt | None = None,
    error: str | None = None,
) -> SubAgentEnd:
    """The record of an end, from the run's journal, its report if it handed one over, and what lies on disk."""
    status, cause = _how(run, journal, finish)
    conclusion = journal.conclusion
    return SubAgentEnd(
        status=status,
        cause=cause,
        ended_at=utc_now(),
        exit_code=exit_code,
        receipt=receipt or KillReceipt(),
        stats=journal.stats.model_copy(update={"runtime_seconds": run.runtime_seconds}),
        usage=journal.usage,
        model=journal.model or run.model,
        result_summary=finish.summary if finish else journal.last_text,
        result=finish.result if finish else None,
        files=files,
        files_written=tuple(journal.written),
        error=error or (conclusion.error if conclusion else None),
        last_action=journal.last_action,
        partial=status is not SubAgentStatus.COMPLETED,
    )


def _how(run: SubAgentRun, journal: JournalSummary, finish: FinishResult | None) -> tuple[SubAgentStatus, Cause]:
    """Its report, then who stopped it, then what it said last, else a crash. Never the exit code alone."""
    if finish is not None:
        return (SubAgentStatus.COMPLETED if finish.success else SubAgentStatus.FAILED), Cause.FINISH_TASK
    if run.stop is not None:
        return run.stop
    said = journal.conclusion.cause if journal.conclusion else None
    return SubAgentStatus.FAILED, said or Cause.CRASH


def utc_now() -> str:
    """The time as records hold it: ISO 8601, UTC, whole seconds."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
