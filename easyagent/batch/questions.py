"""Questions: a sub-agent's side of asking the user, through its owner."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from easyagent.approvals import new_request
from easyagent.models import AgentEvent
from easyagent.tools.base import Answer


class Questions:
    """Asks by an event on stdout; the answer comes as a control line."""

    def __init__(self, emit: Callable[[AgentEvent], None]) -> None:
        self._emit = emit
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._waited, self._since = 0.0, 0.0

    @property
    def waited_seconds(self) -> float:
        """How long it has waited for answers in all; waits at the same time count once."""
        return self._waited + (time.monotonic() - self._since if self._open else 0.0)

    async def ask(self, tool: str, subject: str, rule: str, detail: str) -> Answer:
        """See `easyagent.tools.base.Ask`."""
        request = new_request(tool, subject, rule, detail)
        if not self._open:
            self._since = time.monotonic()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[request.approval_id] = answer
        self._emit(request)
        try:
            return await answer
        finally:
            waited = self.waited_seconds
            del self._open[request.approval_id]
            if not self._open:
                self._waited = waited

    def answer(self, control: Mapping[str, Any]) -> None:
        """Take an answer; one to a question that waits no longer is of no use."""
        waiting = self._open.get(str(control.get("approval_id")))
        decision = control.get("decision")
        if waiting is not None and not waiting.done() and decision in ("once", "run", "deny", "unanswered"):
            waiting.set_result(decision)
