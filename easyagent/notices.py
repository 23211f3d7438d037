"""The forms in which an endpoint accepts a notice after tool results; the one that works is remembered.

Some endpoints take a system message in mid-conversation, some only a user message, some neither after a tool result:
there the notice stands at the end of the last tool result, under a heading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from easyagent.inbox import Incoming
from easyagent.prompts import Language
from easyagent.strings import strings

Form = Literal["system", "user", "tool"]
FORMS: tuple[Form, ...] = ("system", "user", "tool")

_accepted: dict[str, Form] = {}
"""By endpoint and model, for as long as the process lives."""


def accepted(endpoint: str) -> Form:
    """The form to begin with."""
    return _accepted.get(endpoint, FORMS[0])


def remember(endpoint: str, form: Form) -> None:
    _accepted[endpoint] = form


@dataclass(frozen=True, slots=True)
class Written:
    """Notices at the end of a conversation: after message number `start`, which is `last`, in a form."""

    start: int
    last: dict[str, Any]
    arrivals: tuple[Incoming, ...]
    form: Form

    def messages(self, language: Language) -> list[dict[str, Any]]:
        """The messages from `start` on. Only notices change their form; what the user says stays a user message."""
        told = [arrival.content for arrival in self.arrivals if arrival.role == "system"]
        others = [{"role": "user", "content": arrival.content} for arrival in self.arrivals if arrival.role == "user"]
        if self.form == "tool":
            parts = [str(self.last["content"]), strings(language)["notice.heading"], *told]
            return [{**self.last, "content": "\n\n".join(parts)}, *others]
        return [self.last, *({"role": self.form, "content": content} for content in told), *others]

    def reworded(self) -> Written | None:
        """The same in the next form; None where there is none: only a tool result can carry a notice."""
        later = FORMS[FORMS.index(self.form) + 1 :]
        if not later or (later[0] == "tool" and self.last.get("role") != "tool"):
            return None
        return replace(self, form=later[0])
