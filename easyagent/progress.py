"""Events as single lines for a terminal; nothing is repainted."""

from __future__ import annotations

from collections.abc import Mapping

from easyagent.models import (
    AgentCreated,
    AgentEnded,
    AgentEvent,
    MessageAdded,
    Retrying,
    RoundEnded,
    RoundStarted,
    SubAgentEnd,
    ToolStarted,
    WrapUp,
)
from easyagent.prompts import Language
from easyagent.strings import strings


def describe(event: AgentEvent, language: Language = "en") -> str | None:
    """One line for an event worth a line, else None."""
    words = strings(language)
    who = words["progress.main"] if event.agent_id is None else f"  #{event.agent_id}"
    match event:
        case RoundStarted(origin="notice"):
            return f"{who} | {words['progress.new_round']}"
        case AgentCreated():
            values = {"agent": event.agent, "summary": _line(event.summary), "directory": event.deliverables_dir}
            return f"{who} | {words['progress.created'].format(**values)}"
        case AgentEnded():
            return f"{who} | {_ended(event.end, words)}"
        case ToolStarted() if event.agent_id is not None or event.name != "create_sub_agent":
            return f"{who} | {_line(event.action)}"
        case Retrying():
            return f"{who} | {_line(event.reason)}"
        case WrapUp():
            return f"{who} | {words[f'progress.wrap_up.{event.reason}']}"
        case RoundEnded() if event.error:
            return f"{who} | {_line(event.error)}"
        case MessageAdded() if event.agent_id is None and event.message.get("role") == "assistant":
            text = event.message.get("content")
            return f"{who} | {_line(str(text))}" if text else None
        case _:
            return None


def _ended(end: SubAgentEnd, words: Mapping[str, str]) -> str:
    text = _line(end.error or end.result_summary)
    status = words.get(f"status.{end.status}", end.status)
    return words["progress.ended"].format(status=status, seconds=end.stats.runtime_seconds, text=text)


def _line(text: str, limit: int = 160) -> str:
    """One printable line: control characters, which could move a terminal's cursor, are dropped."""
    flat = "".join(character for character in " ".join(text.split()) if character.isprintable())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
