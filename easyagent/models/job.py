"""SubAgentJob and how one ends: the records that cross processes and files."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from easyagent.models.agent import AgentDefinition
from easyagent.models.usage import Usage


class SubAgentStatus(StrEnum):
    """Where a sub-agent is in its life; the last five are ends."""

    STARTING = "starting"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMEOUT = "timeout"
    TERMINATED = "terminated"
    INTERRUPTED = "interrupted"

    @property
    def ended(self) -> bool:
        return self not in (SubAgentStatus.STARTING, SubAgentStatus.RUNNING)


class Cause(StrEnum):
    """Why a sub-agent or a round of the main agent ended."""

    FINISH_TASK = "finish_task"
    NO_FINISH_TASK = "no_finish_task"
    MAX_ITERATIONS = "max_iterations"
    TIMEOUT = "timeout"
    BUDGET = "budget"
    TERMINATED = "terminated"
    KERNEL_EXIT = "kernel_exit"
    CRASH = "crash"
    API_ERROR = "api_error"
    LOST = "lost"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Stats(_Record):
    """What an agent did: distinct files read, searches of files and of the web, pages extracted, commands run."""

    runtime_seconds: int = 0
    files_read: int = 0
    searches: int = 0
    web_pages: int = 0
    commands: int = 0


class FileMark(_Record):
    """A file as it lay before a run, by relative POSIX path, so that what the run changes can be told apart."""

    path: str
    modified_ns: int
    size_bytes: int


class SubAgentJob(_Record):
    """Everything a sub-agent process needs but its key, which arrives on its stdin. Written as `job.json`."""

    agent_id: int
    sub_conversation_id: str
    conversation_id: str
    summary: str
    task: str
    definition: AgentDefinition
    workspace: str
    """Absolute path; the working directory of the agent."""
    deliverables_dir: str
    """Relative to the workspace."""
    write_paths: tuple[str, ...] = ()
    """Relative to the workspace: what the agent may write beside its deliverables."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 600
    run_in_background: bool = False
    output_schema: dict[str, Any] | None = None
    language: str = "en"
    permissions: str = "ask"
    created_at: str
    """ISO 8601, UTC."""
    parent_trace_id: str | None = None
    spawned_by_tool: str | None = None
    for_user: bool = False
    """The user started it herself: the main agent is not told of its end."""
    resumes: str | None = None
    """The run whose conversation this one goes on with."""
    read_paths: tuple[str, ...] = ()
    """Absolute paths outside the workspace that the user has granted to read."""
    granted_paths: tuple[str, ...] = ()
    """Absolute paths that the user has granted to write, to all agents of the cell."""
    network: bool = False
    """The user has granted commands the network."""
    can_ask: bool = False
    """Somebody is there who can be asked for consent."""
    confined: bool = False
    """The OS sandbox holds this agent and its commands."""
    private_paths: tuple[str, ...] = ()
    """Absolute paths that commands must not read wherever they lie."""
    model: str = ""
    """The model's id, for the record of a run that ended before its first request."""
    existing_files: tuple[FileMark, ...] = ()
    """Files that lay in the deliverables directory before the run: unless changed, they are not its deliverables."""
    owner_pid: int | None = None
    """The kernel this run belongs to, and when that began, as `easyagent.processes.start_time` tells it."""
    owner_started: float | None = None


class FinishResult(_Record):
    """What finish_task handed over. Written once as `result.json` by the sub-agent."""

    success: bool
    summary: str
    report: str | None = None
    result: Any = None


class KillReceipt(_Record):
    """What an end from outside found alive of the tree, agent and commands, and ended; and what would not die."""

    processes_killed: int = 0
    still_alive: int = 0


class Stop(_Record):
    """Why a run was ended from outside."""

    status: SubAgentStatus
    cause: Cause
    quiet: bool = False
    """The user's own doing: the end is told at the next turn and wakes nobody."""


KERNEL_GONE = Stop(status=SubAgentStatus.INTERRUPTED, cause=Cause.KERNEL_EXIT)
TIME_IS_UP = Stop(status=SubAgentStatus.TIMEOUT, cause=Cause.TIMEOUT)
TERMINATED = Stop(status=SubAgentStatus.TERMINATED, cause=Cause.TERMINATED)


class AgentExit(_Record):
    """How a sub-agent's process ended, as its launcher saw it; told once nothing of its tree lives any more."""

    exit_code: int | None = None
    """Negative for a signal; None where nobody saw it."""
    receipt: KillReceipt = KillReceipt()
    stop: Stop | None = None
    runtime_seconds: int = 0
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None


class DeliveredFile(_Record):
    """One file of the deliverables directory, by relative POSIX path."""

    path: str
    size_bytes: int
    sha256: str | None
    """None where there was no time to read it all."""


class SubAgentEnd(_Record):
    """How a sub-agent ended: one per run, written as `end.json` by its owner, first writer wins."""

    status: SubAgentStatus
    cause: Cause
    ended_at: str
    exit_code: int | None = None
    receipt: KillReceipt = KillReceipt()
    cpu_seconds: float | None = None
    """Of the agent's process and its commands, where the platform tells."""
    peak_memory_bytes: int | None = None
    """Largest resident memory of the agent's process."""
    stats: Stats = Stats()
    usage: Usage = Usage()
    model: str = ""
    result_summary: str = ""
    result: Any = None
    files: tuple[DeliveredFile, ...] = ()
    files_written: tuple[str, ...] = ()
    """Every path the agent's file tools wrote, relative to the workspace."""
    error: str | None = None
    """One sentence, for ends that are a fault."""
    last_action: str = ""
    quiet: bool = False
    """It is told at the next turn and wakes nobody."""
    partial: bool = False
    """True where the work was cut and what is on disk may be incomplete."""


class ModelSettings(_Record):
    """The model a process talks to. Travels over stdin only and is never written to disk."""

    base_url: str
    api_key: SecretStr | None = None
    name: str
    temperature: float | None = None
    demo: bool = False

    def line(self) -> bytes:
        """One JSON line that holds the key in clear, for a pipe."""
        key = self.api_key.get_secret_value() if self.api_key else None
        return json.dumps({**self.model_dump(mode="json"), "api_key": key}).encode()
