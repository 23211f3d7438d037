"""SubAgentRun: one sub-agent as its owner sees it, from reservation to recorded end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

from easyagent.journal import JournalSummary
from easyagent.models import AgentEvent, Started, Stop, SubAgentEnd, SubAgentJob, SubAgentStatus, WrapUp
from easyagent.subagents.launcher import Handle


@dataclass(slots=True)
class SubAgentRun:
    """Live state of one sub-agent. `journal` is the fold of its events; `end` is set once, when it has ended."""

    job: SubAgentJob
    handle: Handle | None = None
    status: SubAgentStatus = SubAgentStatus.STARTING
    journal: JournalSummary = field(default_factory=JournalSummary)
    started_at: float = field(default_factory=time.monotonic)
    heartbeat: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    stop: Stop | None = None
    """Why it is being ended from outside; the first reason holds."""
    end: SubAgentEnd | None = None
    told: bool = False
    """The main agent has this end, as a tool result or as a notice, or need not know of it."""
    awaited: bool = False
    """A tool call waits for this end: it tells it, or where it is interrupted, sees that a notice does."""
    wrapping_up: bool = False
    asking: list[asyncio.Task[None]] = field(default_factory=list)
    """Its questions to the user."""

    @property
    def run_id(self) -> str:
        return self.job.sub_conversation_id

    @property
    def deliverables(self) -> Path:
        return Path(self.job.workspace, self.job.deliverables_dir)

    @property
    def live(self) -> bool:
        return self.end is None

    @property
    def runtime_seconds(self) -> int:
        return self.end.stats.runtime_seconds if self.end else int(time.monotonic() - self.started_at)

    def take(self, event: AgentEvent) -> None:
        """Fold one event of the sub-agent."""
        self.journal.add(event)
        if isinstance(event, Started):
            self.status = SubAgentStatus.RUNNING
            self.heartbeat.set()
        elif isinstance(event, WrapUp):
            self.wrapping_up = True

    def ask_to_stop(self, stop: Stop) -> None:
        if self.stop is None and self.live:
            self.stop = stop
