"""The records a card is made of: frozen, and filled by `card_state.reduce` alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from easyagent.models import DeliveredFile, Stats, SubAgentStatus, Usage

EntryKind = Literal["prompt", "text", "tool", "notice", "error", "interrupted"]
ConversationState = Literal["idle", "running", "waiting_for_sub_agents"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line or block of the transcript. `ok` is None while a tool call runs."""

    kind: EntryKind
    text: str
    call_id: str = ""
    ok: bool | None = None
    agent_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """A call that waits for the user's consent; `agent_id` is None for the main agent."""

    number: int
    agent_id: int | None
    tool: str
    subject: str
    rule: str
    detail: str
    """What the call would change, a unified diff; empty where the subject says it all."""


@dataclass(frozen=True, slots=True)
class SubAgentCard:
    """One sub-agent as its card shows it. Times are seconds since the epoch."""

    agent_id: int
    run_id: str
    agent: str
    summary: str
    deliverables_dir: str
    timeout_seconds: float
    background: bool
    model: str
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    status: SubAgentStatus = SubAgentStatus.STARTING
    wrapping_up: bool = False
    stats: Stats = field(default_factory=Stats)
    usage: Usage = field(default_factory=Usage)
    last_action: str = ""
    retry_reason: str = ""
    retry_seconds: float = 0.0
    last_output: str = ""
    result_summary: str = ""
    error: str = ""
    cause: str = ""
    """Why it came to a bad end, where that says more than its status: a `Cause`."""
    files: tuple[DeliveredFile, ...] = ()
    partial: bool = False

    @property
    def alive(self) -> bool:
        return not self.status.ended

    @property
    def since(self) -> float:
        """When its clock began: the first heartbeat, before that its creation."""
        return self.created_at if self.started_at is None else self.started_at

    @property
    def seconds(self) -> float | None:
        """How long it ran, once it has ended."""
        if self.alive:
            return None
        measured = float(self.stats.runtime_seconds)
        return measured or max(0.0, (self.ended_at or self.since) - self.since)


@dataclass(frozen=True, slots=True)
class CardState:
    """One conversation's output. Times are seconds since the epoch.

    `can_continue` is set by the session (`dataclasses.replace`), no event says it; a new round clears it.
    """

    label: str = "main"
    model: str = ""
    confined: bool | None = None
    """Whether the sandbox holds the agents; None where it is not known yet."""
    note: str = ""
    """One sentence where sub-agents run in another way than they should."""
    round_open: bool = False
    can_continue: bool = False
    usage: Usage = field(default_factory=Usage)
    transcript: tuple[Entry, ...] = ()
    open_text: str = ""
    agents: tuple[SubAgentCard, ...] = ()
    questions: tuple[Question, ...] = ()
    told: frozenset[int] = frozenset()
    retry_reason: str = ""
    retry_seconds: float = 0.0
    active_since: float | None = None
    active_seconds: float = 0.0
    updated_at: float = 0.0

    @property
    def alive(self) -> bool:
        """True while a round or a sub-agent runs."""
        return self.round_open or any(agent.alive for agent in self.agents)

    @property
    def conversation_state(self) -> ConversationState:
        if self.round_open:
            return "running"
        return "waiting_for_sub_agents" if self.alive else "idle"

    @property
    def total_usage(self) -> Usage:
        """The tree's sum: the main agent and its sub-agents."""
        total = self.usage
        for agent in self.agents:
            total = total + agent.usage
        return total

    def agent(self, agent_id: int | None) -> SubAgentCard | None:
        return next((agent for agent in self.agents if agent.agent_id == agent_id), None)
