"""What a kernel and the host process of its sub-agents say to each other, one JSON message each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from easyagent.models.job import AgentExit, Stop


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    def line(self) -> bytes:
        return self.model_dump_json().encode() + b"\n"


class StartAgent(_Message):
    """To the host, with three descriptors: the agent's stdin and stdout, and its keeper's end of the control socket."""

    job_file: str
    workspace: str
    timeout_seconds: float
    environment: dict[str, str]


class StopAgent(_Message):
    """To a keeper: ask the agent to save and end, and kill it when the grace is over."""

    type: Literal["stop"] = "stop"
    stop: Stop
    grace_seconds: float


class HoldClock(_Message):
    """To a keeper: the agent's time stands still, or runs on."""

    type: Literal["clock"] = "clock"
    held: bool


class AgentStarted(_Message):
    """From a keeper: the agent's process lives."""

    type: Literal["started"] = "started"
    pid: int


class AgentRefused(_Message):
    """From a keeper: no process could be had; nothing was started."""

    type: Literal["refused"] = "refused"
    error: str


class AgentGone(_Message):
    """From a keeper, its last word: nothing of the agent lives, and its end is on disk."""

    type: Literal["gone"] = "gone"
    exit: AgentExit


ToKeeper: TypeAdapter[StopAgent | HoldClock] = TypeAdapter(
    Annotated[StopAgent | HoldClock, Field(discriminator="type")]
)
FromKeeper: TypeAdapter[AgentStarted | AgentRefused | AgentGone] = TypeAdapter(
    Annotated[AgentStarted | AgentRefused | AgentGone, Field(discriminator="type")]
)
