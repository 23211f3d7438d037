"""What can refuse a sub-agent before anything is started: number, kind, limit, directories."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from easyagent.agent_registry import AgentRegistry
from easyagent.chat import clean
from easyagent.exceptions import SubAgentError
from easyagent.models import AgentDefinition, ModelSettings, SubAgentJob
from easyagent.permissions import Access
from easyagent.processes import start_time
from easyagent.prompts import detect_language
from easyagent.subagents.claims import Claim, Claims, Conflict
from easyagent.subagents.ending import utc_now
from easyagent.subagents.run import SubAgentRun
from easyagent.subagents.store import mark_files
from easyagent.tools.base import SubAgentRequest
from easyagent.tools.paths import check_own_path, overlap, relative_to
from easyagent.tools.schemas import schema_fault

FIRST_TASK_NUMBER = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What the sub-agents of one conversation share."""

    conversation_id: str
    label: str
    workspace: Path
    settings: ModelSettings
    registry: AgentRegistry
    language: str
    permissions: str
    notebook: str = ""
    """Whose kernel this is, for those it is in the way of."""
    max_concurrent: int
    deliverables_root: str = "sub_agent_results"
    confined: bool = False
    private_paths: tuple[str, ...] = ()
    access: Access = field(default_factory=Access)
    can_ask: bool = False
    """Somebody is there who can be asked for consent."""
    timeout_seconds: float = 600
    """Time limit of a sub-agent for which the main agent names none."""


class Reservations:
    """Checks requests against the runs of one manager. Every refusal is a SubAgentError that says what to do."""

    def __init__(self, runs: dict[int, SubAgentRun], claims: Claims) -> None:
        self._runs, self._claims = runs, claims

    def reserve(self, request: SubAgentRequest, scope: Scope, call_id: str, *, for_user: bool = False) -> SubAgentRun:
        """Take number, slot and directories for an acceptable request, before anything of it is started."""
        definition, deliverables, write_paths = self.check(request, scope)
        agent_id = self.number(request)
        job = SubAgentJob(
            agent_id=agent_id,
            sub_conversation_id=_new_run_id(),
            conversation_id=scope.conversation_id,
            summary=clean(request.summary),
            task=clean(request.task),
            definition=definition,
            workspace=str(scope.workspace),
            deliverables_dir=deliverables,
            write_paths=write_paths,
            timeout_seconds=scope.timeout_seconds if request.timeout_seconds is None else request.timeout_seconds,
            run_in_background=request.run_in_background,
            output_schema=request.output_schema,
            **_permitted(scope),
            language=detect_language(f"{request.summary}\n{request.task}", scope.language),
            created_at=utc_now(),
            parent_trace_id=scope.conversation_id,
            spawned_by_tool=call_id or None,
            for_user=for_user,
            model=definition.model or scope.settings.name,
            existing_files=mark_files(scope.workspace / deliverables),
            owner_pid=os.getpid(),
            owner_started=start_time(os.getpid()),
        )
        return self._take(job, scope)

    def release(self, run: SubAgentRun) -> None:
        """Give the directories of an ended run free."""
        self._claims.release(run.run_id)

    def _take(self, job: SubAgentJob, scope: Scope) -> SubAgentRun:
        claim = Claim(
            run_id=job.sub_conversation_id,
            agent_id=job.agent_id,
            summary=job.summary,
            notebook=scope.notebook,
            paths=tuple(map(str, _held(job))),
        )
        try:
            self._claims.take(claim)
        except Conflict as conflict:
            raise _conflict(scope.workspace, conflict.path, conflict.held, conflict.claim.holder) from None
        except OSError as error:
            raise SubAgentError("spawn_failed", f"its directory could not be claimed: {error}.") from error
        run = self._runs[job.agent_id] = SubAgentRun(job)
        return run

    def resume(self, job: SubAgentJob, scope: Scope) -> SubAgentRun:
        """Take slot and directories for going on with an ended run, under its number. Raises SubAgentError."""
        current = self._runs.get(job.agent_id)
        if current is not None and current.live:
            raise SubAgentError("agent_id_in_use", f"sub-agent {job.agent_id} is still running.")
        self._check_limit(scope.max_concurrent)
        for path in _held(job):
            self._check_conflict(path, scope.workspace)
        resumed = job.model_copy(
            update={
                "sub_conversation_id": _new_run_id(),
                "conversation_id": scope.conversation_id,
                "resumes": job.sub_conversation_id,
                "run_in_background": True,
                "created_at": utc_now(),
                "owner_pid": os.getpid(),
                "owner_started": start_time(os.getpid()),
                **_permitted(scope),
            }
        )
        return self._take(resumed, scope)

    def check(self, request: SubAgentRequest, scope: Scope) -> tuple[AgentDefinition, str, tuple[str, ...]]:
        """The definition, the deliverables directory and the write paths (relative) of an acceptable request."""
        self._check_number(request.agent_id)
        definition = self._definition(request.subagent_type, scope.registry)
        _check_schema(request.output_schema)
        self._check_limit(scope.max_concurrent)
        workspace = scope.workspace
        directory = _own_path(workspace, self._directory(request, scope), "deliverables_dir", directory=True)
        extra = [_own_path(workspace, path, "write_paths", directory=False) for path in request.write_paths]
        for path in [directory, *extra]:
            self._check_conflict(path, workspace)
        return (
            definition,
            relative_to(workspace, directory),
            tuple(relative_to(workspace, path) for path in extra),
        )

    def number(self, request: SubAgentRequest) -> int:
        """The number of a new run: the one asked for, else the next from 100."""
        if request.agent_id is not None:
            self._runs.pop(request.agent_id, None)  # only an ended and told one of a full range gets here
            return request.agent_id
        return max([FIRST_TASK_NUMBER - 1, *self._runs]) + 1

    def _check_number(self, agent_id: int | None) -> None:
        runs = self._runs
        if agent_id is None or agent_id not in runs:
            return
        free = [number for number in range(1, 100) if number not in runs]
        if free:
            raise SubAgentError(
                "agent_id_in_use",
                f"agent_id {agent_id} is already used in this conversation; the next free one is {free[0]}.",
            )
        reusable = [number for number, run in runs.items() if number < FIRST_TASK_NUMBER and not run.live and run.told]
        if not reusable or agent_id != reusable[0]:
            hint = f"use {reusable[0]}, whose sub-agent has ended" if reusable else "wait until one has ended"
            raise SubAgentError("agent_id_in_use", f"agent_id {agent_id} is in use and 1-99 are used up; {hint}.")

    def _definition(self, name: str, registry: AgentRegistry) -> AgentDefinition:
        definition = registry.get(name)
        if definition is None or definition.mode == "primary":
            known = ", ".join(agent.name for agent in registry.list_subagents())
            raise SubAgentError("unknown_subagent_type", f"there is no sub-agent type {name!r}; available: {known}.")
        return definition

    def _check_limit(self, limit: int) -> None:
        live = self._live()
        if len(live) >= limit:
            holders = ", ".join(f"{run.job.agent_id} ({run.job.summary})" for run in live)
            raise SubAgentError(
                "limit_reached",
                f"at most {limit} sub-agents run at once; running: {holders}. Wait for one or terminate one.",
            )

    def _live(self) -> list[SubAgentRun]:
        return [run for run in self._runs.values() if run.live]

    def _directory(self, request: SubAgentRequest, scope: Scope) -> str:
        """The directory asked for, else the default; where that holds files of another conversation, one beside it."""
        if request.deliverables_dir is not None:
            return request.deliverables_dir
        number = request.agent_id if request.agent_id is not None else self.number(request)
        name, attempt = f"agent_{number}", 0
        directory = f"{scope.deliverables_root}/{name}"
        while _holds_files(scope.workspace / directory) and not self._is_ours(directory):
            attempt += 1
            directory = f"{scope.deliverables_root}/{scope.label}-{attempt}/{name}"
        return directory

    def _is_ours(self, directory: str) -> bool:
        return any(run.job.deliverables_dir == directory for run in self._runs.values())

    def _check_conflict(self, path: Path, workspace: Path) -> None:
        for run in self._live():
            for held in _held(run.job):
                if overlap(path, held):
                    raise _conflict(workspace, path, held, f"sub-agent {run.job.agent_id} ({run.job.summary})")


def _conflict(workspace: Path, path: Path, held: Path, holder: str) -> SubAgentError:
    return SubAgentError(
        "directory_conflict",
        f"{relative_to(workspace, path)!r} overlaps {relative_to(workspace, held)!r}, where {holder} works; "
        "choose another directory or wait for it.",
    )


def _own_path(workspace: Path, text: str, what: str, *, directory: bool) -> Path:
    try:
        return check_own_path(workspace, text, what=what, directory=directory)
    except ValueError as error:
        raise SubAgentError("invalid_argument", f"{error}.") from error


def _check_schema(schema: dict[str, Any] | None) -> None:
    fault = schema_fault(schema) if schema is not None else None
    if fault is not None:
        raise SubAgentError("invalid_argument", f"output_schema {fault}.")


def _permitted(scope: Scope) -> dict[str, Any]:
    """What a sub-agent may, as the fields of its job."""
    return {
        "permissions": scope.permissions,
        "confined": scope.confined,
        "private_paths": scope.private_paths,
        "read_paths": tuple(map(str, scope.access.read)),
        "granted_paths": tuple(map(str, scope.access.write)),
        "network": scope.access.network,
        "can_ask": scope.can_ask,
    }


def _new_run_id() -> str:
    return f"conv_{uuid.uuid4().hex[:12]}"


def _held(job: SubAgentJob) -> list[Path]:
    return [Path(job.workspace, path).resolve() for path in (job.deliverables_dir, *job.write_paths)]


def _holds_files(directory: Path) -> bool:
    return directory.is_dir() and any(directory.iterdir())
