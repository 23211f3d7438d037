"""AgentEvent: all that a run says of itself. One JSON line each; cards, journals and tests are folds over them.

Each event has a `type`, a time (seconds since the epoch) and, in a sub-agent's journal, a gap-free
`seq`. `agent_id` is None for the main agent. `data` is the event without this envelope.
"""

from __future__ import annotations

import time as _time
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from easyagent.models.job import Cause, Stats, SubAgentEnd
from easyagent.models.usage import Usage

_ENVELOPE = {"type", "seq", "time", "agent_id"}


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True)

    seq: int = 0
    time: float = Field(default_factory=_time.time)
    agent_id: int | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The event's own fields as JSON-ready values."""
        return self.model_dump(mode="json", exclude=_ENVELOPE)

    def line(self) -> str:
        """The event as one line of JSON in ASCII."""
        return self.model_dump_json(ensure_ascii=True)


class Started(_Event):
    """A process or round lives: a sub-agent's first heartbeat, written before the model client is loaded."""

    type: Literal["started"] = "started"
    pid: int
    began: float | None = None
    """When the process began, as `easyagent.processes.start_time` tells it: with it the pid is its own."""
    agent: str
    model: str = ""


class RoundStarted(_Event):
    """The main agent begins a round. `origin` says who asked: the user, or a sub-agent's end while idle."""

    type: Literal["round_started"] = "round_started"
    round_id: str
    prompt: str
    origin: Literal["user", "notice"]


class RoundEnded(_Event):
    """The main agent is idle again. `error` is one sentence where the round failed or was interrupted."""

    type: Literal["round_ended"] = "round_ended"
    round_id: str
    content: str
    error: str | None = None
    interrupted: bool = False


class TurnStarted(_Event):
    """A request goes to the model; turns count from 1."""

    type: Literal["turn_started"] = "turn_started"
    turn: int
    max_turns: int | None = None


class TextDelta(_Event):
    """A piece of the reply as it streams. Never journaled: the whole reply follows as a message."""

    type: Literal["text"] = "text"
    text: str


class MessageAdded(_Event):
    """One message was appended to the conversation, in chat-completions form."""

    type: Literal["message"] = "message"
    message: dict[str, Any]
    told: tuple[str, ...] = ()
    """The runs whose ends this message tells: in the main agent's log this is the receipt of the notice."""


class MessagesReplaced(_Event):
    """The messages from `start` on were replaced: the endpoint refused the form in which notices stood."""

    type: Literal["messages_replaced"] = "messages_replaced"
    start: int
    messages: tuple[dict[str, Any], ...]
    told: tuple[str, ...] = ()
    """The runs whose ends these messages are the first to tell."""


class ToolStarted(_Event):
    """A tool call begins; `action` says it in the task's language."""

    type: Literal["tool_started"] = "tool_started"
    call_id: str
    name: str
    arguments: dict[str, Any]
    action: str


class ToolFinished(_Event):
    """A tool call ended. `preview` is the head of its result, `written` the workspace paths it wrote."""

    type: Literal["tool_finished"] = "tool_finished"
    call_id: str
    name: str
    ok: bool
    preview: str
    stats: Stats = Stats()
    written: tuple[str, ...] = ()


class UsageReported(_Event):
    """Tokens and cost of one request, and the model that answered."""

    type: Literal["usage"] = "usage"
    usage: Usage
    model: str


class Retrying(_Event):
    """A request failed and is tried again after a wait."""

    type: Literal["retrying"] = "retrying"
    reason: str
    wait_seconds: float


class WrapUp(_Event):
    """80 % of the time or of the turns are used: the agent was told to finish."""

    type: Literal["wrap_up"] = "wrap_up"
    reason: Literal["time", "turns"]


class ApprovalRequested(_Event):
    """An agent waits for the user's consent to one call. `number` is what the user answers by; a sub-agent's own event
    has none yet."""

    type: Literal["approval_requested"] = "approval_requested"
    approval_id: str
    tool: str
    subject: str
    """The command, the path, or what else the call is about."""
    detail: str = ""
    """What the call would change: for a file, a unified diff without its file names."""
    rule: str
    """Why it is asked."""
    number: int = 0


class ApprovalDecided(_Event):
    """The wait is over: by the user's answer, because nobody answered in time, or because its agent has ended."""

    type: Literal["approval_decided"] = "approval_decided"
    approval_id: str
    number: int
    decision: Literal["once", "run", "deny", "unanswered", "withdrawn"]


class Conclusion(_Event):
    """The last event of a run."""

    type: Literal["conclusion"] = "conclusion"
    content: str
    success: bool = True
    cause: Cause | None = None
    error: str | None = None


class Output(_Event):
    """A line of a sub-agent process that is no event: shown as it came, never trusted."""

    type: Literal["output"] = "output"
    text: str


class AgentCreated(_Event):
    """A sub-agent was started, by the main agent in a round, or for the user in none."""

    type: Literal["agent_created"] = "agent_created"
    run_id: str
    round_id: str | None = None
    agent: str
    summary: str
    deliverables_dir: str
    timeout_seconds: float
    background: bool
    model: str = ""


class AgentEnded(_Event):
    """A sub-agent ended: the same record as `end.json`."""

    type: Literal["agent_ended"] = "agent_ended"
    run_id: str
    end: SubAgentEnd


AgentEvent = (
    Started | RoundStarted | RoundEnded | TurnStarted | TextDelta | MessageAdded | MessagesReplaced | ToolStarted
    | ToolFinished | UsageReported | Retrying | WrapUp | ApprovalRequested | ApprovalDecided | Conclusion | Output
    | AgentCreated | AgentEnded
)  # fmt: skip
"""The closed union of events."""

_adapter: TypeAdapter[AgentEvent] = TypeAdapter(Annotated[AgentEvent, Field(discriminator="type")])


def parse_event(line: str | bytes) -> AgentEvent:
    """Read one event line. A line that is none becomes an `output` event, so that nothing is lost."""
    try:
        return _adapter.validate_json(line)
    except ValueError:
        text = line.decode("utf-8", "backslashreplace") if isinstance(line, bytes) else line
        return Output(text=text[:2000].rstrip("\n"))
