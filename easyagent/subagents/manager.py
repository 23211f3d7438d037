"""SubAgentManager: owns the sub-agents of one conversation, from the argument check to the recorded end."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from easyagent.exceptions import SubAgentError
from easyagent.inbox import Notice
from easyagent.models import (
    AgentCreated,
    AgentDefinition,
    AgentEnded,
    AgentEvent,
    Cause,
    ModelSettings,
    SubAgentEnd,
    SubAgentJob,
    SubAgentStatus,
)
from easyagent.processes import start_time
from easyagent.prompts import detect_language
from easyagent.subagents import reports
from easyagent.subagents.launcher import Launcher, LocalLauncher
from easyagent.subagents.reservations import Reservations, Scope
from easyagent.subagents.run import SubAgentRun
from easyagent.subagents.store import RunStore, archive_earlier_record, delivered_files, mark_files
from easyagent.tools.base import SubAgentRequest

HEARTBEAT_SECONDS = 60.0
GRACE_SECONDS = 1.0


class SubAgentManager:
    """Starts, watches and ends sub-agents. Implements the `SubAgents` protocol of the tools.

    `emit` gets every event, those of sub-agents with their agent_id; `notify` gets each end that the main
    agent does not already have as a tool result.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        emit: Callable[[AgentEvent], None],
        notify: Callable[[Notice], None],
        launcher: Launcher | None = None,
    ) -> None:
        self.scope = scope
        self.runs: dict[int, SubAgentRun] = {}
        self.round_id: str | None = None
        self._emit, self._notify = emit, notify
        self._launcher: Launcher = launcher or LocalLauncher()
        self._store = RunStore(scope.workspace)
        self._reservations = Reservations(self.runs)
        self._followers: set[asyncio.Task[None]] = set()

    # ---- the tools' side

    async def create(self, request: SubAgentRequest, *, call_id: str = "") -> dict[str, Any]:
        """Start a sub-agent; blocking requests wait for its end. Raises SubAgentError, and then nothing was started."""
        run = await self.start(request, call_id=call_id)
        if request.run_in_background:
            return reports.running_result(run)
        return reports.ended_result(run, await self._wait_blocking(run))

    async def task(self, subagent_type: str, description: str, prompt: str, *, call_id: str = "") -> dict[str, Any]:
        request = SubAgentRequest(
            agent_id=None,
            summary=description,
            task=prompt,
            subagent_type=subagent_type,
            timeout_seconds=self.scope.timeout_seconds or 600,
        )
        return await self.create(request, call_id=call_id)

    async def terminate(self, agent_id: int) -> dict[str, Any]:
        """End one for the main agent, which thereby knows of it. Idempotent; unknown ids get a clear answer."""
        run = self.runs.get(agent_id)
        if run is None:
            known = ", ".join(map(str, sorted(self.runs))) or "none"
            message = f"there is no sub-agent {agent_id} in this conversation; known: {known}."
            return {"success": False, "agent_id": agent_id, "status": "unknown", "message": message}
        run.told = run.told or run.live
        end = await self.stop(run, SubAgentStatus.TERMINATED, Cause.TERMINATED)
        return reports.terminated_result(run, end)

    def status(self, agent_ids: list[int]) -> dict[str, Any]:
        return {
            "success": True,
            "agents": [
                reports.status_entry(run)
                if (run := self.runs.get(number))
                else {"agent_id": number, "status": "unknown"}
                for number in agent_ids
            ],
        }

    def types(self) -> list[str]:
        return [agent.name for agent in self.scope.registry.list_subagents()]

    # ---- the owner's side

    @property
    def live_runs(self) -> list[SubAgentRun]:
        return [run for run in self.runs.values() if run.live]

    async def start(self, request: SubAgentRequest, *, call_id: str = "") -> SubAgentRun:
        """Check, reserve and start; returns after the first heartbeat. Raises SubAgentError."""
        job, definition = self._reserve(request, call_id)
        run = self.runs[job.agent_id]
        self._announce(run)
        try:
            job_file = self._store.create(job)
            archive_earlier_record(run.deliverables)
            run.handle = await self._launcher.start(job, job_file, self._settings(definition))
        except OSError as error:
            await self._record(run, exit_code=None, error=str(error))
            del self.runs[job.agent_id]
            raise SubAgentError("spawn_failed", f"the sub-agent's process could not be started: {error}.") from error
        follower = asyncio.create_task(self._follow(run))
        self._followers.add(follower)
        follower.add_done_callback(self._followers.discard)
        await self._await_heartbeat(run)
        return run

    async def stop(self, run: SubAgentRun, status: SubAgentStatus, cause: Cause, *, quiet: bool = False) -> SubAgentEnd:
        """End a run from outside; returns when its whole process tree is dead and the end is recorded."""
        if run.live:
            run.quiet = run.quiet or quiet
            run.ask_to_stop(status, cause)
            if run.handle is not None:
                await run.handle.terminate(GRACE_SECONDS)
        await run.ended.wait()
        assert run.end is not None
        return run.end

    async def stop_all(self, cause: Cause = Cause.TERMINATED, *, tell: bool = False) -> list[SubAgentRun]:
        """End every live run at the same time; returns them. Unless `tell`, their ends send no notice."""
        stopped = self.live_runs
        for run in stopped:
            run.told = run.told or not tell
        status = SubAgentStatus.INTERRUPTED if cause is Cause.KERNEL_EXIT else SubAgentStatus.TERMINATED
        await asyncio.gather(*(self.stop(run, status, cause, quiet=True) for run in stopped))
        return stopped

    # ---- inside

    def _reserve(self, request: SubAgentRequest, call_id: str) -> tuple[SubAgentJob, AgentDefinition]:
        """Everything that can refuse a request, without a pause, so that calls of one reply cannot race."""
        definition, deliverables, write_paths = self._reservations.check(request, self.scope)
        agent_id = self._reservations.number(request)
        directory = self.scope.workspace / deliverables
        before = mark_files(directory)
        language = detect_language(f"{request.summary}\n{request.task}", self.scope.language)
        job = SubAgentJob(
            agent_id=agent_id,
            sub_conversation_id=f"conv_{uuid.uuid4().hex[:12]}",
            conversation_id=self.scope.conversation_id,
            summary=request.summary,
            task=request.task,
            definition=definition,
            workspace=str(self.scope.workspace),
            deliverables_dir=deliverables,
            write_paths=write_paths,
            timeout_seconds=request.timeout_seconds,
            run_in_background=request.run_in_background,
            output_schema=request.output_schema,
            language=language,
            permissions=self.scope.permissions,
            created_at=_now(),
            parent_trace_id=self.scope.conversation_id,
            spawned_by_tool=call_id or None,
            existing_files=tuple(before),
            owner_pid=os.getpid(),
            owner_started=start_time(os.getpid()),
        )
        model = definition.model or self.scope.settings.name
        self.runs[agent_id] = SubAgentRun(job, directory, before, model, request.run_in_background)
        return job, definition

    def _settings(self, definition: AgentDefinition) -> ModelSettings:
        changes: dict[str, Any] = {}
        if definition.model:
            changes["name"] = definition.model
        if definition.temperature is not None:
            changes["temperature"] = definition.temperature
        return self.scope.settings.model_copy(update=changes)

    def _announce(self, run: SubAgentRun) -> None:
        job = run.job
        self._emit(
            AgentCreated(
                agent_id=job.agent_id,
                run_id=run.run_id,
                round_id=self.round_id,
                agent=job.definition.name,
                summary=job.summary,
                deliverables_dir=job.deliverables_dir,
                timeout_seconds=job.timeout_seconds,
                background=run.background,
                model=run.model,
            )
        )

    async def _await_heartbeat(self, run: SubAgentRun) -> None:
        waiting = {asyncio.create_task(run.heartbeat.wait()), asyncio.create_task(run.ended.wait())}
        try:
            await asyncio.wait(waiting, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiting:
                waiter.cancel()
        if run.heartbeat.is_set():
            return
        run.told = True
        end = await self.stop(run, SubAgentStatus.FAILED, Cause.CRASH)
        del self.runs[run.job.agent_id]
        log = f".subagents/runs/{run.run_id}/stderr.log"
        detail = end.error or f"it ended with exit code {end.exit_code} before its first sign of life"
        raise SubAgentError("spawn_failed", f"the sub-agent could not be started: {detail}; see {log}.")

    async def _follow(self, run: SubAgentRun) -> None:
        """Read a run's events to its end, enforce its deadline, record how it ended."""
        assert run.handle is not None
        loop = asyncio.get_running_loop()
        deadline = loop.call_later(run.job.timeout_seconds, self._on_deadline, run)
        try:
            async for event in run.handle.events():
                run.take(event)
                self._emit(event.model_copy(update={"agent_id": run.job.agent_id}))
            exit_code, receipt = await run.handle.wait()
        finally:
            deadline.cancel()
        await self._record(run, exit_code=exit_code, receipt=receipt)

    def _on_deadline(self, run: SubAgentRun) -> None:
        if run.live:
            run.ask_to_stop(SubAgentStatus.TIMEOUT, Cause.TIMEOUT)
            assert run.handle is not None
            task = asyncio.ensure_future(run.handle.terminate(0.0))
            self._followers.add(task)
            task.add_done_callback(self._followers.discard)

    async def _record(
        self, run: SubAgentRun, *, exit_code: int | None, receipt: Any = None, error: str | None = None
    ) -> None:
        """Write end.json once, complete the conversation's record, tell who must know."""
        journal = self._store.summary(run.run_id)
        finish = self._store.result(run.run_id)
        conclusion = journal.conclusion
        status, cause = reports.final_status(
            run,
            finished=finish is not None,
            success=finish is not None and finish.success,
            concluded=conclusion.cause if conclusion else None,
        )
        end = SubAgentEnd(
            status=status,
            cause=cause,
            ended_at=_now(),
            exit_code=exit_code,
            **({"receipt": receipt} if receipt else {}),
            stats=journal.stats.model_copy(update={"runtime_seconds": run.runtime_seconds}),
            usage=journal.usage,
            model=journal.model or run.model,
            result_summary=finish.summary if finish else journal.last_text,
            result=finish.result if finish else None,
            files=await asyncio.to_thread(delivered_files, run.deliverables, run.before),
            files_written=tuple(journal.written),
            error=error or (conclusion.error if conclusion else None),
            last_action=journal.last_action,
            partial=status is not SubAgentStatus.COMPLETED,
        )
        try:
            end = await asyncio.to_thread(self._store.write_end, run.run_id, end)
            await asyncio.to_thread(self._store.complete_snapshot, run.job, end, journal)
        except OSError as fault:
            end = end.model_copy(update={"error": f"its record could not be written: {fault}"})
        run.end, run.status = end, end.status
        run.ended.set()
        self._emit(AgentEnded(agent_id=run.job.agent_id, run_id=run.run_id, end=end))
        if not run.told and run.heartbeat.is_set():  # without a heartbeat the call itself says that nothing started
            run.told = True
            self._notify(reports.notice(run, end))

    async def _wait_blocking(self, run: SubAgentRun) -> SubAgentEnd:
        """Wait for a blocking child; where the turn is interrupted, the child is ended and told of later, quietly."""
        run.told = True
        try:
            await run.ended.wait()
        except asyncio.CancelledError:
            run.told = not run.live
            await asyncio.shield(self.stop(run, SubAgentStatus.TERMINATED, Cause.TERMINATED, quiet=True))
            raise
        assert run.end is not None
        return run.end


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
