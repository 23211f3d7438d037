"""CardState: what one `%%agent` output shows, as a pure fold over the run's events.

`reduce` accepts every event of the union in any order and never raises: events come from other
processes and may be late, doubled or about agents this card never met.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from easyagent.models import (
    AgentCreated,
    AgentEnded,
    AgentEvent,
    ApprovalDecided,
    ApprovalRequested,
    Conclusion,
    MessageAdded,
    Output,
    Retrying,
    RoundEnded,
    RoundStarted,
    Started,
    Stats,
    SubAgentEnd,
    SubAgentStatus,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    Usage,
    UsageReported,
    WrapUp,
)
from jupyter_subagents.card_model import CardState, ConversationState, Entry, EntryKind, Question, SubAgentCard
from jupyter_subagents.card_view import to_view

__all__ = ["CardState", "ConversationState", "Entry", "EntryKind", "SubAgentCard", "reduce", "to_view"]

# How the notice templates (prompts/*/notice_*.md) name an agent at the start of a line.
_NOTICE_AGENT = re.compile(r"^(?:子智能体|Sub-agent )\s?(\d{1,6}) \(", re.MULTILINE)


def reduce(state: CardState, event: AgentEvent) -> CardState:
    """The state after one event. Never raises; what it cannot place changes nothing."""
    if isinstance(event, AgentCreated):
        after = _created(state, event)
    elif isinstance(event, AgentEnded):
        after = _ended(state, event)
    elif isinstance(event, ApprovalRequested):
        after = _asked(state, event)
    elif isinstance(event, ApprovalDecided):
        waiting = tuple(question for question in state.questions if question.number != event.number)
        after = state if len(waiting) == len(state.questions) else replace(state, questions=waiting)
    elif event.agent_id is None:
        after = _main(state, event)
    else:
        after = _sub(state, event)
    return state if after is state else _clocked(after, event.time)


def _clocked(state: CardState, time: float) -> CardState:
    """Keep the header's clock: it runs while anything is alive and rests while all is quiet."""
    since, seconds = state.active_since, state.active_seconds
    if since is None:
        since = time if state.alive else None
    elif not state.alive:
        seconds += max(0.0, time - since)
        since = None
    return replace(state, updated_at=max(state.updated_at, time), active_since=since, active_seconds=seconds)


def _asked(state: CardState, event: ApprovalRequested) -> CardState:
    if not event.number or any(question.number == event.number for question in state.questions):
        return state
    question = Question(event.number, event.agent_id, event.tool, event.subject, event.rule, event.detail)
    return replace(state, questions=(*state.questions, question))


# --- the main agent


def _main(state: CardState, event: AgentEvent) -> CardState:
    if state.retry_reason and not isinstance(event, Retrying):
        state = replace(state, retry_reason="", retry_seconds=0.0)
    match event:
        case RoundStarted():
            return _round_started(state, event)
        case RoundEnded():
            return _round_ended(state, event)
        case Started(model=model):
            return replace(state, model=model or state.model)
        case TextDelta(text=text):
            return replace(state, open_text=state.open_text + text)
        case MessageAdded(message=message):
            return _message(state, message)
        case ToolStarted():
            entry = Entry("tool", event.action or event.name, call_id=event.call_id)
            return _append(_close_text(state), entry)
        case ToolFinished():
            return _tool_finished(state, event)
        case UsageReported():
            return replace(state, usage=state.usage + event.usage, model=event.model or state.model)
        case Retrying():
            return replace(state, retry_reason=event.reason, retry_seconds=event.wait_seconds)
        case Conclusion(error=str(error)) if error:
            return _append(_close_text(state), Entry("error", error))
        case _:
            return state


def _append(state: CardState, *entries: Entry) -> CardState:
    return replace(state, transcript=state.transcript + entries)


def _close_text(state: CardState, content: str | None = None) -> CardState:
    """Turn the streamed text into an entry; `content`, the whole reply, takes its place where it is known."""
    text = state.open_text if content is None else content
    state = replace(state, open_text="") if state.open_text else state
    return _append(state, Entry("text", text)) if text.strip() else state


def _round_started(state: CardState, event: RoundStarted) -> CardState:
    state = replace(_close_text(state), round_open=True, can_continue=False)
    if event.origin == "user":
        return _append(state, Entry("prompt", event.prompt))
    noticed = _notice(state, event.prompt)
    if noticed is state:
        noticed = _append(state, Entry("notice", event.prompt.strip().partition("\n")[0]))
    return noticed


def _notice(state: CardState, text: str) -> CardState:
    """Add a row for the ends this text tells of. Each end is told once, whatever form the notice took."""
    named = {int(number) for number in _NOTICE_AGENT.findall(text)}
    ended = {agent.agent_id for agent in state.agents if not agent.alive}
    ids = tuple(sorted((named & ended) - state.told))
    if not ids:
        return state
    state = replace(state, told=state.told | set(ids))
    return _append(state, Entry("notice", "", agent_ids=ids))


def _round_ended(state: CardState, event: RoundEnded) -> CardState:
    state = replace(_close_text(state), round_open=False)
    if event.content.strip() and not _answered(state, event.content):
        state = _append(state, Entry("text", event.content))
    rows = tuple(_unanswered_failed(entry) for entry in state.transcript)
    state = replace(state, transcript=rows)
    if event.interrupted:
        return _append(state, Entry("interrupted", event.error or ""))
    if event.error and not (rows and rows[-1].kind == "error" and rows[-1].text == event.error):
        return _append(state, Entry("error", event.error))
    return state


def _answered(state: CardState, content: str) -> bool:
    """True where the round's last text already stands in the transcript."""
    for entry in reversed(state.transcript):
        if entry.kind == "text":
            return entry.text.strip() == content.strip()
        if entry.kind in ("prompt", "notice"):
            return False
    return False


def _unanswered_failed(entry: Entry) -> Entry:
    return replace(entry, ok=False) if entry.kind == "tool" and entry.ok is None else entry


def _message(state: CardState, message: dict[str, Any]) -> CardState:
    content = _text_of(message.get("content"))
    if message.get("role") == "assistant":
        return _close_text(state, content)
    return _notice(state, content) if content else state


def _text_of(content: object) -> str | None:
    """A message's text; None where it has none. Content may be a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(text for text in texts if isinstance(text, str))
    return None


def _tool_finished(state: CardState, event: ToolFinished) -> CardState:
    rows = state.transcript
    for index in range(len(rows) - 1, -1, -1):
        if rows[index].call_id == event.call_id and rows[index].kind == "tool" and rows[index].ok is None:
            row = replace(rows[index], ok=event.ok)
            return replace(state, transcript=(*rows[:index], row, *rows[index + 1 :]))
    return state


# --- sub-agents


def _created(state: CardState, event: AgentCreated) -> CardState:
    if event.agent_id is None:
        return state
    known = state.agent(event.agent_id)
    if known is not None and known.run_id == event.run_id:
        return state
    card = SubAgentCard(
        agent_id=event.agent_id,
        run_id=event.run_id,
        agent=event.agent,
        summary=event.summary,
        deliverables_dir=event.deliverables_dir,
        timeout_seconds=event.timeout_seconds,
        background=event.background,
        model=event.model,
        created_at=event.time,
    )
    others = (agent for agent in state.agents if agent.agent_id != event.agent_id)
    agents = tuple(sorted((*others, card), key=lambda agent: agent.agent_id))
    return replace(state, agents=agents, told=state.told - {event.agent_id})


def _ended(state: CardState, event: AgentEnded) -> CardState:
    def change(card: SubAgentCard) -> SubAgentCard:
        return _closed(card, event.end, event.time) if card.run_id == event.run_id else card

    return _with_agent(state, event.agent_id, change)


def _closed(card: SubAgentCard, end: SubAgentEnd, time: float) -> SubAgentCard:
    # The owner's record is right where it has numbers; one written without them keeps what was counted live.
    return replace(
        card,
        status=end.status if end.status.ended else SubAgentStatus.FAILED,
        wrapping_up=False,
        ended_at=time,
        stats=_merged(card.stats, end.stats),
        usage=card.usage if end.usage == Usage() else end.usage,
        model=end.model or card.model,
        last_action=end.last_action or card.last_action,
        retry_reason="",
        result_summary=end.result_summary,
        error=end.error or (card.last_output if end.status is SubAgentStatus.FAILED else ""),
        cause="" if end.status in (SubAgentStatus.COMPLETED, SubAgentStatus.TERMINATED) else end.cause,
        files=end.files,
        partial=end.partial,
    )


def _sub(state: CardState, event: AgentEvent) -> CardState:
    return _with_agent(state, event.agent_id, lambda card: _card_after(card, event))


def _with_agent(state: CardState, agent_id: int | None, change: Callable[[SubAgentCard], SubAgentCard]) -> CardState:
    """Change one living card. An unknown or ended agent's events change nothing."""
    for index, card in enumerate(state.agents):
        if card.agent_id == agent_id and card.alive:
            after = change(card)
            if after is card:
                return state
            return replace(state, agents=(*state.agents[:index], after, *state.agents[index + 1 :]))
    return state


def _card_after(card: SubAgentCard, event: AgentEvent) -> SubAgentCard:
    if card.retry_reason and not isinstance(event, Retrying):
        card = replace(card, retry_reason="", retry_seconds=0.0)
    match event:
        case Started():
            return replace(card, status=SubAgentStatus.RUNNING, started_at=event.time, model=event.model or card.model)
        case WrapUp():
            return replace(card, wrapping_up=True)
        case ToolStarted():
            return replace(card, last_action=event.action or event.name)
        case ToolFinished():
            return replace(card, stats=_merged(card.stats, event.stats))
        case UsageReported():
            return replace(card, usage=card.usage + event.usage, model=event.model or card.model)
        case Retrying():
            return replace(card, retry_reason=event.reason, retry_seconds=event.wait_seconds)
        case Output(text=text) if text.strip():
            return replace(card, last_output=text.strip())
        case Conclusion(error=str(error)) if error:
            return replace(card, last_output=error)
        case TurnStarted() | _:
            return card


def _merged(old: Stats, new: Stats) -> Stats:
    """Counts never go back: events report running totals, and one without totals reports zeros."""
    return Stats(**{name: max(getattr(old, name), getattr(new, name)) for name in Stats.model_fields})
