"""What the main agent is told of a sub-agent: tool results with exact keys, and completion notices."""

from __future__ import annotations

from typing import Any

from easyagent.inbox import Notice
from easyagent.models import SubAgentEnd, SubAgentJob, SubAgentStatus
from easyagent.prompts import Language, fill, load
from easyagent.strings import strings
from easyagent.subagents.run import SubAgentRun

SUMMARY_BYTES = 5250
"""About 1,500 tokens at 3.5 bytes each."""


def running_result(run: SubAgentRun) -> dict[str, Any]:
    """The answer to a background create_sub_agent."""
    job = run.job
    return {
        "success": True,
        "agent_id": job.agent_id,
        "status": SubAgentStatus.RUNNING,
        "summary": job.summary,
        "message": _words(run, "running"),
        "deliverables_dir": job.deliverables_dir,
        "sub_conversation_id": run.run_id,
        "background": True,
        "model": job.model,
        "timeout_seconds": int(job.timeout_seconds) if job.timeout_seconds.is_integer() else job.timeout_seconds,
        "automatic_notification": True,
        **_existing(job),
    }


def ended_result(run: SubAgentRun, end: SubAgentEnd) -> dict[str, Any]:
    """The answer to a blocking create_sub_agent or task."""
    job = run.job
    result: dict[str, Any] = {
        "success": end.status is SubAgentStatus.COMPLETED,
        "agent_id": job.agent_id,
        "status": end.status,
        "summary": job.summary,
        "message": _words(run, end.status),
        "deliverables_dir": job.deliverables_dir,
        "deliverables_files": [file.path for file in end.files],
        "result_summary": end.result_summary,
        "sub_conversation_id": run.run_id,
        "stats": end.stats.model_dump(),
        "cause": end.cause,
        "model": end.model,
        "usage": end.usage.model_dump(),
        "files_written": list(end.files_written),
    }
    if job.output_schema is not None:
        result["result"] = end.result
    result |= _existing(job)
    if end.error:
        result["error_detail"] = end.error
    return result


def _existing(job: SubAgentJob) -> dict[str, list[str]]:
    names = [mark.path for mark in job.existing_files]
    return {"existing_files": names} if names else {}


def terminated_result(run: SubAgentRun, end: SubAgentEnd) -> dict[str, Any]:
    """The answer to terminate_sub_agent, whether this call ended the run or it had ended before."""
    files = [file.path for file in end.files]
    return {
        "success": True,
        "agent_id": run.job.agent_id,
        "status": end.status,
        "message": _words(run, end.status),
        "partial_results": bool(files),
        "deliverables_dir": run.job.deliverables_dir,
        "deliverables_files": files,
        "receipt": end.receipt.model_dump(),
    }


def status_entry(run: SubAgentRun) -> dict[str, Any]:
    """One row of get_sub_agent_status."""
    end = run.end
    stats = end.stats if end else run.journal.stats
    usage = end.usage if end else run.journal.usage
    entry = {
        "agent_id": run.job.agent_id,
        "summary": run.job.summary,
        "status": end.status if end else run.status,
        "runtime_seconds": run.runtime_seconds,
        "files_read": stats.files_read,
        "searches": stats.searches,
        "web_pages": stats.web_pages,
        "commands": stats.commands,
        "last_action": run.journal.last_action,
        "deliverables_dir": run.job.deliverables_dir,
        "tokens": usage.total,
        "cost_usd": usage.cost_usd,
    }
    if end:
        return {**entry, "result_summary": end.result_summary, "cause": end.cause}
    return {**entry, "message": _words(run, "still_running")}


def notice(run: SubAgentRun, end: SubAgentEnd) -> Notice:
    """The two forms of a completion notice. A completion is exactly the template; another end changes the
    status word and adds what is known in a paragraph of its own."""
    language = _language(run)
    values: dict[str, Any] = {
        "agent_id": run.job.agent_id,
        "summary": run.job.summary,
        "deliverables_dir": run.job.deliverables_dir,
        "result_summary": cut_summary(run, end),
        **end.stats.model_dump(),
    }
    texts = [fill(_template(form, language, end.status), values) for form in ("notice_system", "notice_user")]
    if end.status is not SubAgentStatus.COMPLETED:
        texts = [f"{text}\n\n{_added(run, end)}" for text in texts]
    return Notice(run.job.agent_id, run.run_id, texts[0], texts[1], quiet=end.quiet)


def _template(form: str, language: Language, status: SubAgentStatus) -> str:
    """The template with its first line's status word changed for ends other than completion."""
    template = load(form, language)
    if status is SubAgentStatus.COMPLETED:
        return template
    first, rest = template.split("\n", 1)
    head = first[: first.index(")") + 1]
    stop = "。" if language == "zh" else "."
    return f"{head} {strings(language)[f'notice.{status}']}{stop}\n{rest}"


def _added(run: SubAgentRun, end: SubAgentEnd) -> str:
    words = strings(_language(run))
    reason = words[f"cause.{end.cause}"].format(timeout_seconds=f"{run.job.timeout_seconds:g}")
    if end.error:
        reason = f"{reason} ({end.error})"
    lines = [words["notice.cause"].format(reason=reason)]
    if end.files:
        lines.append(words["notice.files"].format(files=", ".join(file.path for file in end.files[:20])))
    return "\n".join(lines)


def cut_summary(run: SubAgentRun, end: SubAgentEnd) -> str:
    """The result summary, cut at about 1,500 tokens with its full size and where to read it."""
    words = strings(_language(run))
    text = end.result_summary or words["notice.no_summary"]
    if len(text.encode()) <= SUMMARY_BYTES:
        return text
    head = text.encode()[:SUMMARY_BYTES].decode("utf-8", "ignore")
    path = f"{run.job.deliverables_dir}/.subagent/conversations.json"
    return head + words["notice.cut"].format(characters=len(text), path=path)


def _words(run: SubAgentRun, key: str) -> str:
    return strings(_language(run))[key].format(agent_id=run.job.agent_id)


def _language(run: SubAgentRun) -> Language:
    return "zh" if run.job.language == "zh" else "en"
