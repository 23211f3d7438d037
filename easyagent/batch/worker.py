"""One job from start to end: the same loop as the main agent's, with another toolbox.

After each step the effect is on disk first, then one journal line, then the same line on stdout.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from easyagent.batch.controls import KeptControls, WatchedControls
from easyagent.batch.opening import opening_messages
from easyagent.batch.questions import Questions
from easyagent.directory import Directory
from easyagent.exceptions import EasyAgentError, ModelError
from easyagent.inbox import Inbox
from easyagent.journal import Journal, JournalSummary, conversation_record
from easyagent.loop import AgentLoop, Outcome
from easyagent.models import (
    AgentEvent,
    Cause,
    Conclusion,
    FinishResult,
    MessageAdded,
    ModelSettings,
    Started,
    SubAgentJob,
    TextDelta,
)
from easyagent.permissions import Access, Grants
from easyagent.processes import kill_tree, name_process, start_time
from easyagent.prompts import Language
from easyagent.sandbox import agent_policy, temporary_directory
from easyagent.sandbox.confine import confine
from easyagent.subagents.store import RunStore, write_snapshot
from easyagent.tools.base import StatsCounter, ToolContext
from easyagent.tools.builtin.command import end_commands
from easyagent.tools.paths import make_roots
from easyagent.tools.toolbox import Toolbox

SNAPSHOT_SECONDS = 2.0
EXIT_PARENT_GONE = 75


class Worker:
    """Runs one job. Everything it says goes through `_emit`."""

    def __init__(self, job_file: str, *, kept: bool) -> None:
        self._kept = kept
        self._started = time.monotonic()
        self._run_directory = Path(job_file).resolve().parent
        self._job = SubAgentJob.model_validate_json(Path(job_file).read_bytes())
        self._workspace = Path(self._job.workspace).resolve()
        self._deliverables = self._workspace / self._job.deliverables_dir
        self._language: Language = "zh" if self._job.language == "zh" else "en"
        # Before the sandbox, which may keep the other runs' records out of reach.
        earlier = self._job.resumes and RunStore(self._workspace).summary(self._job.resumes).messages
        self._earlier: list[dict[str, Any]] = earlier or []
        self._directory = Directory.open(self._run_directory)
        self._journal = Journal(self._directory)
        self._record = JournalSummary()
        self._snapshot_at = 0.0
        self._inbox = Inbox()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Task[Outcome] | None = None
        self._stop_asked = False
        self._questions = Questions(self._emit)
        self._runners: set[asyncio.subprocess.Process] = set()

    def run(self) -> int:
        name_process(f"easyagent-{self._job.agent_id}")
        signal.signal(signal.SIGTERM, lambda *_: self._on_stop())
        self._confine()
        self._emit(Started(pid=os.getpid(), began=start_time(os.getpid()), agent=self._job.definition.name))
        self._write_snapshot()
        self._controls = KeptControls() if self._kept else WatchedControls(self._on_parent_gone)
        settings = ModelSettings.model_validate_json(self._controls.first())
        try:
            outcome = asyncio.run(self._main(settings))
        finally:
            self._empty_temporary()
        self._conclude(outcome)
        return 0

    def _empty_temporary(self) -> None:
        """What commands left in their TMPDIR. The directory itself is the owner's to remove: it is out of our reach."""
        shutil.rmtree(temporary_directory(self._job.sub_conversation_id), ignore_errors=True)

    def _confine(self) -> None:
        """Before any thread: this process writes in its roots, its run directory and its TMPDIR, nowhere else."""
        if not self._job.confined:
            return
        temporary = temporary_directory(self._job.sub_conversation_id)
        temporary.mkdir(mode=0o700)
        make_roots(self._roots())
        policy = agent_policy(
            workspace=self._workspace,
            roots=(*self._roots(), self._run_directory),
            temporary=temporary,
            private=map(Path, self._job.private_paths),
            granted_reads=map(Path, self._job.read_paths),
        )
        fault = confine(list(policy.read), list(policy.write), list(policy.listing), network=True)
        if fault:
            raise OSError(f"the sandbox could not be had: {fault}")

    async def _main(self, settings: ModelSettings) -> Outcome:
        self._loop = asyncio.get_running_loop()
        self._work = asyncio.create_task(self._converse(settings))
        if self._stop_asked:
            self._work.cancel()
        self._controls.watch(self._on_control)
        try:
            return await self._work
        except asyncio.CancelledError:
            return Outcome(self._record.last_text, Cause.TERMINATED)
        except ModelError as error:
            return Outcome(self._record.last_text, Cause.API_ERROR, error=str(error))
        except (EasyAgentError, OSError) as error:
            return Outcome(self._record.last_text, Cause.CRASH, error=str(error))

    async def _converse(self, settings: ModelSettings) -> Outcome:
        from easyagent.llm import EndpointModel  # loads openai: after the first heartbeat

        model = EndpointModel(
            base_url=settings.base_url,
            api_key=settings.api_key.get_secret_value() if settings.api_key else None,
            name=settings.name,
            temperature=settings.temperature,
            demo=settings.demo,
        )
        toolbox = Toolbox.for_sub_agent(self._job.definition)
        messages = opening_messages(self._job, toolbox.names, self._language, self._earlier)
        for message in messages.copy():
            self._emit(MessageAdded(message=message))
        loop = AgentLoop(
            model=model,
            toolbox=toolbox,
            context=self._context(),
            messages=messages,
            inbox=self._inbox,
            emit=self._emit,
            max_turns=self._job.definition.max_iterations,
            must_finish=True,
            time_used=lambda: self._working_seconds / self._job.timeout_seconds,
        )
        try:
            return await loop.run()
        finally:
            await end_commands(self._runners)
            await model.aclose()

    @property
    def _working_seconds(self) -> float:
        """Its time as the deadline counts it: without waiting for the user."""
        return time.monotonic() - self._started - self._questions.waited_seconds

    def _context(self) -> ToolContext:
        return ToolContext(
            workspace=self._workspace,
            language=self._language,
            grants=Grants(
                self._job.permissions, self._job.definition.permissions, owns_roots=True, confined=self._job.confined
            ),
            roots=self._roots(),
            temporary=temporary_directory(self._job.sub_conversation_id),
            private_paths=tuple(map(Path, self._job.private_paths)),
            deliverables_dir=self._deliverables,
            stats=StatsCounter(),
            output_schema=self._job.output_schema,
            runners=self._runners,
            access=Access(
                read=tuple(map(Path, self._job.read_paths)),
                write=tuple(map(Path, self._job.granted_paths)),
                network=self._job.network,
            ),
            ask=self._questions.ask if self._job.can_ask else None,
        )

    def _roots(self) -> tuple[Path, ...]:
        declared = (*self._job.write_paths, *self._job.granted_paths)
        paths = (self._deliverables, *(self._workspace / path for path in declared))
        return tuple(path.resolve() for path in paths)

    def _conclude(self, outcome: Outcome) -> None:
        if outcome.finish is not None:
            self._write_result(outcome.finish)
        success = outcome.finish is not None and outcome.finish.success
        self._emit(Conclusion(content=outcome.content, success=success, cause=outcome.cause, error=outcome.error))
        self._write_snapshot(completed=True)

    def _write_result(self, finish: FinishResult) -> None:
        if finish.report is not None:
            parts = Path(self._job.deliverables_dir).parts
            try:
                with Directory.open(self._workspace, *parts, create=True) as deliverables:
                    deliverables.replace("report.md", finish.report.encode("utf-8", "replace"), mode=0o644)
            except OSError as error:  # the result stands without it
                lost = f"{finish.summary} (report.md could not be written: {error.strerror or error})"
                finish = finish.model_copy(update={"summary": lost})
        self._directory.replace("result.json", finish.model_dump_json(indent=1).encode())

    def _emit(self, event: AgentEvent) -> None:
        if isinstance(event, TextDelta):
            return  # the whole reply follows as a message
        numbered = self._journal.append(event)
        self._record.add(numbered)
        sys.stdout.write(numbered.line() + "\n")
        sys.stdout.flush()
        if time.monotonic() - self._snapshot_at > SNAPSHOT_SECONDS:
            self._write_snapshot()

    def _write_snapshot(self, *, completed: bool = False) -> None:
        self._snapshot_at = time.monotonic()
        record = conversation_record(
            agent_id=self._job.agent_id,
            summary=self._job.summary,
            created_at=self._job.created_at,
            completed_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if completed else None,
            journal=self._record,
            runtime_seconds=int(time.monotonic() - self._started),
        )
        with contextlib.suppress(OSError):  # the journal holds it all, and the owner completes the record and says so
            write_snapshot(self._workspace, self._job, record)

    def _on_control(self, line: bytes) -> None:
        with contextlib.suppress(ValueError, KeyError, AttributeError):  # what is no control is no reason to die
            self._obey(json.loads(line))

    def _obey(self, control: dict[str, Any]) -> None:
        if control.get("type") == "stop":
            self._cancel()
        elif control.get("type") == "approval":
            self._questions.answer(control)
        elif control.get("type") == "message":
            self._inbox.put_instruction(str(control["text"]))

    def _on_stop(self) -> None:
        """SIGTERM, at any moment: the same as the control line."""
        self._stop_asked = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()

    def _on_parent_gone(self) -> None:
        """In the watching thread: nobody is left to work for. Nothing of this agent may live on."""
        kill_tree(os.getpid(), spare_root=True)
        self._empty_temporary()
        os._exit(EXIT_PARENT_GONE)


def run_job(job_file: str, *, kept: bool = False) -> int:
    """Run one job file to its end; the exit code is 0 where it could be told how it ended.

    `kept`: a keeper sees to it that nothing of the agent outlives the kernel.
    """
    return Worker(job_file, kept=kept).run()
