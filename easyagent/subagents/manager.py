"""SubAgentManager: owns the sub-agents of one conversation, from the argument check to the recorded end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from easyagent.exceptions import SubAgentError
from easyagent.inbox import Notice
from easyagent.models import (
    TERMINATED,
    AgentCreated,
    AgentDefinition,
    AgentEnded,
    AgentEvent,
    AgentExit,
    ApprovalRequested,
    Cause,
    Conclusion,
    ModelSettings,
    Stop,
    SubAgentEnd,
    SubAgentJob,
    SubAgentStatus,
)
from easyagent.subagents import reports
from easyagent.subagents.claims import claims_of
from easyagent.subagents.ending import make_end, record_end
from easyagent.subagents.launcher import Launcher
from easyagent.subagents.reservations import Reservations, Scope
from easyagent.subagents.run import SubAgentRun
from easyagent.subagents.store import RunStore, archive_earlier_record
from easyagent.tools.base import Answer, SubAgentRequest

HEARTBEAT_SECONDS = 60.0
GRACE_SECONDS = 1.0


class SubAgentManager:
    """Starts, watches and ends sub-agents.

    `emit` gets every event, those of sub-agents with their agent_id; `notify` gets each end that the main
    agent does not already have as a tool result; `ask` asks the user for a sub-agent.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        emit: Callable[[AgentEvent], None],
        notify: Callable[[Notice], None],
        launcher: Launcher,
        ask: Callable[[ApprovalRequested], Awaitable[Answer]],
    ) -> None:
        self.scope = scope
        self.runs: dict[int, SubAgentRun] = {}
        self.round_id: str | None = None
        self._emit, self._notify = emit, notify
        self._launcher, self._ask = launcher, ask
        self._store = RunStore(scope.workspace)
        self._reservations = Reservations(self.runs, claims_of(self._store))
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def live_runs(self) -> list[SubAgentRun]:
        return [run for run in self.runs.values() if run.live]

    async def start(
        self, request: SubAgentRequest, *, call_id: str = "", awaited: bool = False, for_user: bool = False
    ) -> SubAgentRun:
        """Check, reserve and start; returns after the first heartbeat. Raises SubAgentError.

        Where the caller is cancelled meanwhile, the run is ended: nobody would know of it.
        """
        run = self._reservations.reserve(request, self.scope, call_id, for_user=for_user)  # no pause: calls cannot race
        run.awaited, run.told = awaited, for_user
        return await self._launch(run)

    async def resume(self, ended: SubAgentRun) -> SubAgentRun:
        """Go on with an ended run from its journal, under its number, in the background. Raises SubAgentError."""
        run = self._reservations.resume(ended.job, self.scope)
        run.told = run.job.for_user
        return await self._launch(run)

    def remember(self, job: SubAgentJob, end: SubAgentEnd, *, told: bool) -> SubAgentRun:
        """Take in a run of an earlier kernel: it has its number and its answers, and its end is told unless it was."""
        run = self.runs[job.agent_id] = SubAgentRun(job, end=end, status=end.status, told=told or job.for_user)
        run.journal = self._store.summary(run.run_id)
        run.ended.set()
        self._announce(run)
        self._emit(AgentEnded(agent_id=job.agent_id, run_id=run.run_id, end=end))
        if self._store.events(run.run_id):
            run.heartbeat.set()
            self.tell(run)
        return run

    async def _launch(self, run: SubAgentRun) -> SubAgentRun:
        self._announce(run)
        beginning = self._keep(self._begin(run))
        try:
            await asyncio.shield(beginning)
            await self._await_heartbeat(run)
        except asyncio.CancelledError:
            await asyncio.shield(self._keep(self._abandon(run, beginning)))
            raise
        return run

    async def stop(self, run: SubAgentRun, stop: Stop = TERMINATED, *, quiet: bool = False) -> SubAgentEnd:
        """End a run from outside; returns when its whole process tree is dead and the end is recorded."""
        await asyncio.shield(self.begin_stop(run, stop.model_copy(update={"quiet": quiet})))
        assert run.end is not None
        return run.end

    async def stop_all(self, stop: Stop = TERMINATED, *, tell: bool = False) -> list[SubAgentRun]:
        """End every live run at the same time; returns them. Unless `tell`, their ends send no notice."""
        stopped = self.live_runs
        for run in stopped:
            run.told = run.told or not tell
        await asyncio.gather(*(self.stop(run, stop, quiet=True) for run in stopped))
        return stopped

    # ---- inside

    async def _begin(self, run: SubAgentRun) -> None:
        """Make the run's directory and its process. A start once begun is never cut short, or a process gets lost."""
        try:
            job_file = self._store.create(run.job)
            archive_earlier_record(self.scope.workspace, run.job)
            run.handle = await self._launcher.start(run.job, job_file, self._settings(run.job.definition))
        except (OSError, ValueError) as error:
            await self._record(run, AgentExit(), error=str(error))
            del self.runs[run.job.agent_id]
            raise SubAgentError("spawn_failed", f"the sub-agent's process could not be started: {error}.") from error
        self._keep(self._follow(run))
        if run.stop is not None:  # asked for while there was no process yet
            await run.handle.terminate(run.stop, 0.0)

    async def _abandon(self, run: SubAgentRun, beginning: asyncio.Task[None]) -> None:
        """End a run whose start was interrupted; its end is told later, quietly."""
        run.awaited = False
        run.ask_to_stop(TERMINATED.model_copy(update={"quiet": True}))
        await asyncio.wait({beginning})
        if beginning.exception() is None:
            await self.stop(run, quiet=True)

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that lives as long as its work: the loop itself holds tasks weakly."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

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
                round_id=None if job.for_user or job.resumes or not run.live else self.round_id,
                agent=job.definition.name,
                summary=job.summary,
                deliverables_dir=job.deliverables_dir,
                timeout_seconds=job.timeout_seconds,
                background=job.run_in_background,
                model=job.model,
            )
        )

    async def _await_heartbeat(self, run: SubAgentRun) -> None:
        waiting = {asyncio.create_task(run.heartbeat.wait()), asyncio.create_task(run.ended.wait())}
        try:
            await asyncio.wait(waiting, timeout=HEARTBEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiting:
                waiter.cancel()
        if run.heartbeat.is_set() or run.stop is not None:  # alive, or ended by somebody who knows of it
            return
        run.told = True
        end = await self.stop(run, Stop(status=SubAgentStatus.FAILED, cause=Cause.CRASH))
        del self.runs[run.job.agent_id]
        log = f".subagents/runs/{run.run_id}/stderr.log"
        detail = end.error or f"it ended with exit code {end.exit_code} before its first sign of life"
        raise SubAgentError("spawn_failed", f"the sub-agent could not be started: {detail}; see {log}.")

    async def _follow(self, run: SubAgentRun) -> None:
        """Read a run's events to its end, record how it ended."""
        assert run.handle is not None
        async for event in run.handle.events():
            run.take(event)
            if isinstance(event, ApprovalRequested):
                run.asking.append(self._keep(self._ask_for(run, event)))
            elif not isinstance(event, Conclusion):  # the recorded end says it, once the process is gone
                self._emit(event.model_copy(update={"agent_id": run.job.agent_id}))
        for question in run.asking:
            question.cancel()  # nobody needs the answer any more
        await self._record(run, await run.handle.wait())

    async def _ask_for(self, run: SubAgentRun, request: ApprovalRequested) -> None:
        """Ask the user for a sub-agent, whose time stands still meanwhile."""
        assert run.handle is not None
        run.handle.hold_clock(True)
        answer = await self._ask(request.model_copy(update={"agent_id": run.job.agent_id}))
        run.handle.hold_clock(False)
        run.handle.send({"type": "approval", "approval_id": request.approval_id, "decision": answer})

    async def _record(self, run: SubAgentRun, ended: AgentExit, *, error: str | None = None) -> None:
        """See that the end is on disk, once, then tell who must know."""
        ended = ended.model_copy(update={"stop": ended.stop or run.stop})
        try:
            end = await asyncio.to_thread(record_end, self._store, run.job, ended, error=error)
        except Exception as fault:  # whatever lies there: an end that is not told would hold its slot for ever
            fault_sentence = f"its record could not be written: {fault}"
            end = make_end(run.job, ended, run.journal, self._store.result(run.run_id), (), error=fault_sentence)
        run.end, run.status = end, end.status
        self._reservations.release(run)
        run.ended.set()
        self._emit(AgentEnded(agent_id=run.job.agent_id, run_id=run.run_id, end=end))
        if not run.awaited:
            self.tell(run)

    def begin_stop(self, run: SubAgentRun, stop: Stop = TERMINATED) -> asyncio.Task[None]:
        """Begin to end a run, which goes on whoever waits for it."""
        return self._keep(self._end(run, stop))

    async def _end(self, run: SubAgentRun, stop: Stop) -> None:
        if run.live:
            run.ask_to_stop(stop)
            if run.handle is not None:
                await run.handle.terminate(stop, GRACE_SECONDS)
        await run.ended.wait()

    def tell(self, run: SubAgentRun) -> None:
        """Give an end to the main agent as a notice, unless it has it."""
        if not run.told and run.heartbeat.is_set():  # without a heartbeat the call itself says that nothing started
            run.told = True
            assert run.end is not None
            self._notify(reports.notice(run, run.end))
