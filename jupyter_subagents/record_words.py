"""What a record says, in words: the same for its HTML and its plain text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from jupyter_subagents.card_model import CardState, Entry
from jupyter_subagents.card_state import to_view
from jupyter_subagents.card_view import duration_text, line


def question_text(question: Mapping[str, Any], strings: Mapping[str, str]) -> str:
    """One question for consent, as `%agent` and the record say it."""
    number, tool, subject = question["number"], question["tool"], line(question["subject"], 300)
    who = strings["main_agent"]
    if question["agent_id"] is not None:
        who = strings["sub_agent"].format(id=question["agent_id"])
    return strings["magic.question"].format(number=number, who=who, tool=tool, subject=subject)


class RecordWords:
    """One conversation in words; `state_at` is the time named while something still runs."""

    def __init__(self, state: CardState, strings: Mapping[str, str], state_at: datetime | None) -> None:
        self.state = state
        self.view = to_view(state, now=state.updated_at)
        self.strings = strings
        self.at = (state_at or datetime.fromtimestamp(state.updated_at).astimezone()).strftime("%H:%M")

    def header_parts(self) -> list[str]:
        view, strings = self.view, self.strings
        since = view["since"]
        seconds = view["seconds"] + (max(0.0, view["now"] - since) if since is not None else 0.0)
        demo = [strings["demo_tag"]] if view["demo"] else []
        demo += [strings["no_sandbox"]] if view["confined"] is False else []
        return [view["model"] or strings["model_unknown"], *demo, duration_text(seconds), *self.usage(view)]

    def word(self, key: str, alive: bool) -> str:
        """The state in words, with its time while it may still change."""
        word = self.strings[key]
        return self.strings["state_at"].format(time=self.at, state=word) if alive else word

    def usage(self, view: dict[str, Any]) -> list[str]:
        usage, strings = view["usage"], self.strings
        if not usage["reported"]:
            return []
        tokens = strings["tokens_unknown"] if usage["tokens"] is None else strings["tokens"].format(n=usage["tokens"])
        if view["demo"]:
            return [tokens, strings["cost_demo"]]
        return [tokens, usage["cost"] or strings["cost_unknown"]]

    def questions(self) -> list[str]:
        """What waits for the user's consent, each in one line."""
        return [question_text(question, self.strings) for question in self.view["questions"]]

    def header_word(self) -> str:
        return self.word(f"state_{self.view['state']}", self.view["alive"])

    def status(self, agent: dict[str, Any]) -> str:
        return self.word(f"status_{agent['status']}", agent["alive"])

    def facts(self, agent: dict[str, Any]) -> list[str]:
        if agent["seconds"] is not None:
            return [duration_text(agent["seconds"]), *self.usage(agent)]
        elapsed, limit = duration_text(self.view["now"] - agent["since"]), duration_text(agent["limit"])
        return [self.strings["elapsed_of_limit"].format(elapsed=elapsed, limit=limit), *self.usage(agent)]

    def why(self, agent: dict[str, Any]) -> str:
        """Why an agent came to a bad end; empty where its status says it all."""
        words = self.strings.get(f"cause.{agent['cause']}")
        if words is None:
            return ""
        cause = words.format(timeout_seconds=f"{agent['limit']:g}")
        return self.strings["ended_because"].format(status=self.strings[f"status_{agent['status']}"], cause=cause)

    def counts(self, agent: dict[str, Any]) -> list[str]:
        return [
            self.strings[f"{name}_{'one' if number == 1 else 'many'}"].format(n=number)
            for name, number in agent["counts"].items()
            if number
        ]

    def entry_text(self, entry: Entry) -> str:
        """An entry that is no Markdown, as one line."""
        text = line(entry.text, 600)
        if entry.kind == "notice" and entry.agent_ids:
            key = "notice_ended_one" if len(entry.agent_ids) == 1 else "notice_ended_many"
            return self.strings[key].format(ids=", ".join(str(number) for number in entry.agent_ids))
        if entry.kind in ("notice", "prompt"):
            return self.strings[entry.kind].format(text=text)
        if entry.kind == "interrupted":
            return self.strings["interrupted"]
        if entry.kind == "tool" and entry.ok is False:
            return f"{text} ({self.strings['tool_failed']})"
        return text

    def entries(self) -> list[Entry]:
        """The transcript without the first prompt, which is the cell itself, and with the open text."""
        rows = list(self.state.transcript)
        if rows and rows[0].kind == "prompt":
            rows = rows[1:]
        return [*rows, Entry("text", self.state.open_text)] if self.state.open_text.strip() else rows
