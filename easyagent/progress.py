"""Events as single lines for a terminal; nothing is repainted."""

from __future__ import annotations

from easyagent.models import (
    AgentCreated,
    AgentEnded,
    AgentEvent,
    MessageAdded,
    Retrying,
    RoundEnded,
    RoundStarted,
    ToolStarted,
    WrapUp,
)


def describe(event: AgentEvent) -> str | None:
    """One line for an event worth a line, else None."""
    who = "main" if event.agent_id is None else f"  #{event.agent_id}"
    match event:
        case RoundStarted(origin="notice"):
            return "main | a notice of ended sub-agents starts a new round"
        case AgentCreated():
            return f"{who} | starting ({event.agent}): {_line(event.summary)} -> {event.deliverables_dir}"
        case AgentEnded():
            end = event.end
            return f"{who} | {end.status} after {end.stats.runtime_seconds} s: {_line(end.error or end.result_summary)}"
        case ToolStarted() if event.agent_id is not None or event.name != "create_sub_agent":
            return f"{who} | {_line(event.action)}"
        case Retrying():
            return f"{who} | {_line(event.reason)}"
        case WrapUp():
            return f"{who} | wrapping up: {event.reason} nearly used up"
        case RoundEnded() if event.error:
            return f"{who} | {_line(event.error)}"
        case MessageAdded() if event.agent_id is None and event.message.get("role") == "assistant":
            text = event.message.get("content")
            return f"{who} | {_line(str(text))}" if text else None
        case _:
            return None


def _line(text: str, limit: int = 160) -> str:
    """One printable line: control characters, which could move a terminal's cursor, are dropped."""
    flat = "".join(character for character in " ".join(text.split()) if character.isprintable())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
