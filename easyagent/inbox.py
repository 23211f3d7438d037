"""Inbox: what arrives while an agent works waits here until the loop asks for it. Nothing is dropped."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Notice:
    """The end of a sub-agent, in the two forms in which a main agent is told."""

    agent_id: int
    run_id: str
    system_text: str
    user_text: str
    quiet: bool = False
    """A quiet notice waits for the next turn and wakes nobody: the user's own stop."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message for the conversation and the runs whose ends it tells."""

    role: Literal["system", "user"]
    content: str
    run_ids: tuple[str, ...] = ()


class Inbox:
    """Two queues: notices of ended sub-agents and instructions of the user."""

    def __init__(self) -> None:
        self._notices: deque[Notice] = deque()
        self._instructions: deque[str] = deque()
        self.changed = asyncio.Event()
        """Set whenever something is put in; who waits on it clears it first."""

    def put_notice(self, notice: Notice) -> None:
        self._notices.append(notice)
        self.changed.set()

    def put_instruction(self, text: str) -> None:
        self._instructions.append(text)
        self.changed.set()

    def withdraw(self, run_id: str) -> list[Notice]:
        """Take the notices of a run back, which goes on; returns them."""
        taken = [notice for notice in self._notices if notice.run_id == run_id]
        self._notices = deque(notice for notice in self._notices if notice.run_id != run_id)
        return taken

    @property
    def wakes(self) -> bool:
        """True where an idle agent should start a new round."""
        return bool(self._instructions) or any(not notice.quiet for notice in self._notices)

    def after_tools(self) -> list[Incoming]:
        """What to append once all tool results of a turn are there: a system message per end, then instructions."""
        taken = [Incoming("system", notice.system_text, (notice.run_id,)) for notice in self._notices]
        self._notices.clear()
        return taken + self._take_instructions()

    def when_idle(self) -> list[Incoming]:
        """What starts a new round: all ends in one user message, so that several ends are one round."""
        taken: list[Incoming] = []
        if self._notices:
            text = "\n\n".join(notice.user_text for notice in self._notices)
            taken.append(Incoming("user", text, tuple(notice.run_id for notice in self._notices)))
            self._notices.clear()
        return taken + self._take_instructions()

    def _take_instructions(self) -> list[Incoming]:
        taken = [Incoming("user", text) for text in self._instructions]
        self._instructions.clear()
        return taken
