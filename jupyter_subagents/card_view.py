"""to_view: a card's state as the JSON the front end, the static record and the side panel read."""

from __future__ import annotations

from typing import Any

from easyagent.models import Usage
from jupyter_subagents.card_model import CardState, Question, SubAgentCard
from jupyter_subagents.render import clean_text

DEMO_MODEL = "demo-rules-not-a-language-model"
"""The embedded demo model's id: its cost is no cost, and each card says that it is no language model."""

HEARTBEAT_SECONDS = 60.0
"""While something lives, a card gets news at least this often; a long silence means that the kernel has ended."""

MAX_SUBJECT = 20_000
"""Characters of a call that asks for consent."""

MAX_FILES = 100
"""File names sent to the front end for one sub-agent; the rest is a number."""


def to_view(state: CardState, *, now: float) -> dict[str, Any]:
    """What a card shows. `now` is the kernel's clock, so that a browser can correct its own."""
    return {
        "now": now,
        "heartbeat": HEARTBEAT_SECONDS,
        "label": line(state.label, 100),
        "model": line(state.model, 100),
        "demo": state.model == DEMO_MODEL,
        "confined": state.confined,
        "note": line(state.note, 300),
        "state": state.conversation_state,
        "alive": state.alive,
        "can_continue": state.can_continue,
        "since": state.active_since,
        "seconds": round(state.active_seconds, 1),
        "usage": usage_view(state.total_usage),
        "retry": _retry(state.retry_reason, state.retry_seconds),
        "questions": [_question(question) for question in state.questions],
        "agents": [_agent(agent, {question.agent_id for question in state.questions}) for agent in state.agents],
    }


def _question(question: Question) -> dict[str, Any]:
    """The whole input: nobody can consent to what she does not see."""
    return {
        "number": question.number,
        "agent_id": question.agent_id,
        "tool": line(question.tool, 60),
        "subject": clean_text(question.subject)[:MAX_SUBJECT],
        "detail": clean_text(question.detail)[:MAX_SUBJECT],
        "more": max(0, len(question.subject) - MAX_SUBJECT) + max(0, len(question.detail) - MAX_SUBJECT),
        "rule": line(question.rule, 200),
    }


def _status(agent: SubAgentCard, asking: set[int | None]) -> str:
    if agent.alive and agent.agent_id in asking:
        return "waiting_for_approval"
    return "wrapping_up" if agent.alive and agent.wrapping_up else str(agent.status)


def _agent(agent: SubAgentCard, asking: set[int | None]) -> dict[str, Any]:
    stats = agent.stats
    return {
        "agent_id": agent.agent_id,
        "type": line(agent.agent, 60),
        "summary": line(agent.summary, 200),
        "status": _status(agent, asking),
        "alive": agent.alive,
        "background": agent.background,
        "since": agent.since,
        "seconds": agent.seconds,
        "limit": agent.timeout_seconds,
        "counts": {
            "files": stats.files_read,
            "searches": stats.searches,
            "pages": stats.web_pages,
            "commands": stats.commands,
        },
        "last_action": line(agent.last_action, 300),
        "retry": _retry(agent.retry_reason, agent.retry_seconds),
        "model": line(agent.model, 100),
        "demo": agent.model == DEMO_MODEL,
        "usage": usage_view(agent.usage),
        "directory": line(agent.deliverables_dir, 300),
        "files": [{"path": line(f.path, 300), "size": size_text(f.size_bytes)} for f in agent.files[:MAX_FILES]],
        "more_files": max(0, len(agent.files) - MAX_FILES),
        "result": clean_text(agent.result_summary)[:8000],
        "error": line(agent.error, 1000),
        "cause": str(agent.cause),
        "partial": agent.partial and bool(agent.files or agent.result_summary),
    }


def _retry(reason: str, seconds: float) -> dict[str, Any] | None:
    return {"reason": line(reason, 200), "seconds": round(seconds)} if reason else None


def line(text: str, limit: int) -> str:
    """Text from elsewhere as one clean line of at most `limit` characters."""
    cleaned = " ".join(clean_text(text[: limit * 4]).split())
    return cleaned if len(cleaned) <= limit else cleaned[: limit - 1] + "…"


def usage_view(usage: Usage) -> dict[str, Any]:
    """Tokens and cost as short texts; None where they are unknown.

    `reported` is False as long as the endpoint has reported nothing: then there is no number to show, not even 0.
    """
    total = usage.total
    if total is None and usage.prompt is not None and usage.completion is not None:
        total = usage.prompt + usage.completion
    return {
        "reported": total != 0,
        "tokens": None if total is None else count_text(total),
        "cost": None if usage.cost_usd is None else cost_text(usage.cost_usd),
    }


def count_text(number: int) -> str:
    """980, 12.3k, 4.56M."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.2f}M"


def cost_text(dollars: float) -> str:
    """US dollars: enough digits that a small cost is not shown as nothing."""
    if dollars == 0:
        return "$0"
    if dollars < 0.0001:
        return "<$0.0001"
    return f"${dollars:.4f}" if dollars < 0.1 else f"${dollars:.2f}"


def size_text(size_bytes: int) -> str:
    """1000-based units, as file managers show them."""
    if size_bytes < 1000:
        return f"{size_bytes} B"
    size, unit = size_bytes / 1000, "kB"
    for larger in ("MB", "GB"):
        if size < 999.5:
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}" if size < 10 else f"{size:.0f} {unit}"


def duration_text(seconds: float) -> str:
    """0:42, 12:05, 1:02:03."""
    whole = max(0, int(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
