"""Approvals: questions for the user's consent, numbered, all of them listed and answerable at any time."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from easyagent.models import AgentEvent, ApprovalDecided, ApprovalRequested
from easyagent.tools.base import Answer

PATIENCE_SECONDS = 30 * 60.0

Decision = Literal["once", "run", "deny"]


@dataclass(frozen=True, slots=True)
class Pending:
    """One question that waits."""

    request: ApprovalRequested
    answer: asyncio.Future[Answer] = field(repr=False)


class Approvals:
    """The questions of one conversation, of its main agent and of its sub-agents. `emit` gets each and its decision."""

    def __init__(self, emit: Callable[[AgentEvent], None]) -> None:
        self._emit = emit
        self._pending: dict[int, Pending] = {}
        self._count = 0

    @property
    def pending(self) -> list[ApprovalRequested]:
        """What waits for an answer, oldest first."""
        return [entry.request for entry in self._pending.values()]

    async def ask_for_main(self, tool: str, subject: str, rule: str, detail: str) -> Answer:
        """Ask on behalf of the main agent; see `easyagent.tools.base.Ask`."""
        return await self.ask(new_request(tool, subject, rule, detail))

    async def ask(self, request: ApprovalRequested) -> Answer:
        """Wait for the user's answer, half an hour at most."""
        self._count += 1
        request = request.model_copy(update={"number": self._count})
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._pending[request.number] = Pending(request, future)
        self._emit(request)
        decision: Literal["once", "run", "deny", "unanswered", "withdrawn"] = "withdrawn"
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                decision = answer = await future
        except TimeoutError:
            decision = answer = "unanswered"
        finally:
            del self._pending[request.number]
            decided = ApprovalDecided(
                approval_id=request.approval_id, number=request.number, decision=decision, agent_id=request.agent_id
            )
            self._emit(decided)
        return answer

    def answer(self, number: int, decision: Decision) -> bool:
        """Answer one; False where it waits no longer."""
        entry = self._pending.get(number)
        if entry is None or entry.answer.done():
            return False
        entry.answer.set_result(decision)
        return True


def new_request(tool: str, subject: str, rule: str, detail: str) -> ApprovalRequested:
    """A question that has no number yet."""
    approval_id = f"approval_{uuid.uuid4().hex[:12]}"
    return ApprovalRequested(approval_id=approval_id, tool=tool, subject=subject, rule=rule, detail=detail)
