"""Conversation: one main agent, its sub-agents, and the rounds between them.

A round begins with the user's prompt or, while the main agent is idle, with the ends of sub-agents.
One round runs at a time; prompts queue. Everything that happens is an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

from easyagent.approvals import Approvals
from easyagent.chat import ChatModel
from easyagent.conversation_log import ConversationLog
from easyagent.exceptions import EasyAgentError
from easyagent.inbox import Inbox, Incoming, Notice
from easyagent.loop import AgentLoop, Outcome
from easyagent.models import (
    TERMINATED,
    AgentEvent,
    Cause,
    ModelSettings,
    RoundEnded,
    RoundStarted,
    Stop,
)
from easyagent.models.conversation import ConversationRecord
from easyagent.prompts import Language, detect_language, system_prompt
from easyagent.sandbox import temporary_directory
from easyagent.setup import Setup
from easyagent.subagents import Launcher, RunStore, SubAgentCalls, SubAgentManager, SubAgentRun, open_launcher
from easyagent.subagents import earlier as earlier_runs
from easyagent.tools.base import ToolContext
from easyagent.tools.builtin.command import end_commands
from easyagent.tools.toolbox import Toolbox

_logger = logging.getLogger(__name__)

State = Literal["idle", "running", "waiting_for_sub_agents"]


class Conversation:
    """Rounds of a main agent with its sub-agents. `on_event` is called on the event loop, in order."""

    def __init__(
        self,
        setup: Setup,
        *,
        label: str,
        workspace: Path,
        open_model: Callable[[ModelSettings], ChatModel],
        on_event: Callable[[AgentEvent], None],
        launcher: Launcher | None = None,
        notebook: str = "",
        earlier: ConversationRecord | None = None,
    ) -> None:
        """`launcher`: where sub-agents start; shared by its giver, else the conversation's own. `earlier`: the
        conversation to go on with, of a kernel that is gone."""
        self.id = earlier.id if earlier else f"main_{uuid.uuid4().hex[:12]}"
        self.label, self._notebook, self.workspace = label, notebook, workspace.resolve()
        self._setup, self._open_model, self._on_event = setup, open_model, on_event
        self._inbox = Inbox()
        self._language: Language | None = None
        self._model: ChatModel | None = None
        self._turn = asyncio.Lock()
        self._round: asyncio.Task[Outcome] | None = None
        self._auto_rounds = 0
        self._closed = False
        self._runners: set[asyncio.subprocess.Process] = set()
        self._store = RunStore(self.workspace)
        self._activity = asyncio.Event()
        record = earlier_runs.owned(self.id, label, notebook, earlier)
        self._log = ConversationLog(self._store, record, self._tell)
        self._launcher, self._owns_launcher = launcher or open_launcher(), launcher is None
        self.approvals = Approvals(self._log.emit)
        self._consents: set[tuple[str, str]] = set()
        scope = setup.scope(self.id, self.label, self._notebook, self.workspace)
        self.manager = SubAgentManager(
            scope,
            emit=self._log.emit,
            notify=self._take_notice,
            launcher=self._launcher,
            ask=self.approvals.ask,
        )
        if earlier is not None:
            self._restore()
        self._listener = asyncio.create_task(self._start_rounds_when_idle())

    def _restore(self) -> None:
        """Take in what an earlier kernel left: open calls are answered, runs known, those untold told."""
        self._log.answer_open_calls()
        for job, end in earlier_runs.runs_of(self._store, self.id):
            self.manager.remember(job, end, told=job.sub_conversation_id in self._log.told)

    # ---- what callers do

    @property
    def state(self) -> State:
        if self._round is not None:
            return "running"
        return "waiting_for_sub_agents" if self.manager.live_runs else "idle"

    @property
    def can_continue(self) -> bool:
        """True where ends wait to be told and no more rounds start by themselves."""
        return self._inbox.wakes and self._auto_rounds >= self._setup.config.max_auto_rounds

    @property
    def has_pending(self) -> bool:
        """True where an end waits to be told, by a round that starts next or after the user's consent."""
        return self._inbox.wakes

    async def ask(self, prompt: str, setup: Setup | None = None) -> RoundEnded:
        """One round for a prompt of the user; waits its turn. A model's failure is not raised: see `error`.

        `setup` holds from this round on, and not before its turn has come; sub-agents that run keep theirs.
        Raises EasyAgentError where the conversation was closed meanwhile.
        """
        async with self._turn:
            if self._closed:
                raise EasyAgentError("This conversation has been closed; the prompt was not run.")
            if setup is not None:
                await self._configure(setup)
            self._auto_rounds = 0
            waiting = self._inbox.after_tools()
            return await self._run_round("user", prompt, [*waiting, Incoming("user", prompt)])

    async def resume(self, run: SubAgentRun) -> SubAgentRun:
        """Go on with an ended sub-agent from its journal. Raises SubAgentError."""
        withdrawn = self._inbox.withdraw(run.run_id)
        try:
            return await self.manager.resume(run)
        except BaseException:
            for notice in withdrawn:
                self._take_notice(notice)
            raise

    def continue_rounds(self) -> None:
        """The user's consent to further rounds from notices."""
        self._auto_rounds = 0
        self._inbox.changed.set()

    def interrupt(self) -> None:
        """End the running round: its blocking children end, its background sub-agents go on."""
        if self._round is not None:
            self._round.cancel()

    async def settled(self) -> None:
        """Return when no round runs, no sub-agent lives and no end waits for a round that would start by itself."""
        while not self._is_settled():
            await self._activity.wait()

    async def aclose(self, stop: Stop = TERMINATED) -> list[SubAgentRun]:
        """End the round and all sub-agents; returns those that were still alive. Prompts that wait are not run."""
        if self._closed:
            return []
        self._closed = True
        self._listener.cancel()
        self.interrupt()
        stopped = await self.manager.stop_all(stop)
        with contextlib.suppress(asyncio.CancelledError):
            await self._listener
        async with self._turn:
            await self._close_model()
            await end_commands(self._runners)
            if self._owns_launcher:
                await self._launcher.aclose()
            shutil.rmtree(temporary_directory(self.id), ignore_errors=True)
            self._log.close()
        return stopped

    # ---- rounds

    async def _start_rounds_when_idle(self) -> None:
        while True:
            await self._inbox.changed.wait()
            self._inbox.changed.clear()
            async with self._turn:
                if self._inbox.wakes and self._auto_rounds < self._setup.config.max_auto_rounds:
                    self._auto_rounds += 1
                    arrived = self._inbox.when_idle()
                    prompt = "\n\n".join(entry.content for entry in arrived)
                    try:
                        await self._run_round("notice", prompt, arrived)
                    except Exception:  # it has been told; the next round must not die of this one
                        _logger.info("a round failed", exc_info=True)
            self._stir()

    async def _run_round(self, origin: Literal["user", "notice"], prompt: str, arrived: list[Incoming]) -> RoundEnded:
        round_id = f"round_{uuid.uuid4().hex[:8]}"
        self.manager.round_id = round_id
        content, interrupted = "", False
        error: str | None = "The round was cut off."
        try:
            self._log.emit(RoundStarted(round_id=round_id, prompt=prompt, origin=origin))
            loop = self._prepare(prompt, arrived)  # at once: an interrupt must not lose what arrived
            self._round = asyncio.create_task(loop.run())
            outcome = await asyncio.shield(self._round)
            content, error = outcome.content, outcome.error
            if outcome.cause is Cause.MAX_ITERATIONS:
                error = f"The limit of {self._setup.config.max_iterations} turns was reached."
        except asyncio.CancelledError:
            interrupted, error = True, "Interrupted by the user."
            if self._round is not None and not self._round.done():  # the caller was cancelled, not the round
                self._round.cancel()
                await asyncio.wait({self._round})
                raise
        except EasyAgentError as fault:
            error = str(fault)
        except Exception as fault:
            error = f"The round ended through a fault of the program: {type(fault).__name__}: {fault}"
            raise
        finally:
            self._round = None
            ended = RoundEnded(round_id=round_id, content=content, error=error, interrupted=interrupted)
            with contextlib.suppress(EasyAgentError):  # it is shown, and what could not be recorded was said
                self._log.emit(ended)
        return ended

    def _prepare(self, prompt: str, arrived: list[Incoming]) -> AgentLoop:
        """The loop of a round, with what starts it in the conversation. Raises EasyAgentError."""
        language = self._language = self._language or detect_language(prompt, self._setup.config.language)
        toolbox = Toolbox.for_main(self._setup.definition, self._setup.tools)
        if not len(self._log.messages):
            self._log.append(
                "system",
                system_prompt(
                    "main",
                    tools=toolbox.names,
                    language=language,
                    workspace=self.workspace,
                    definition=self._setup.definition,
                ),
            )
        if self._model is None:
            self._model = self._open_model(self._setup.settings)
        definition = self._setup.definition
        loop = AgentLoop(
            model=self._model,
            toolbox=toolbox,
            context=self._context(language),
            messages=self._log.messages,
            inbox=self._inbox,
            emit=self._log.emit,
            max_turns=(definition and definition.max_iterations) or self._setup.config.max_iterations,
        )
        loop.take(arrived)
        return loop

    def _context(self, language: Language) -> ToolContext:
        return replace(
            self._setup.context(self.workspace, language),
            temporary=temporary_directory(self.id),
            ask=self.approvals.ask_for_main if self._setup.can_ask else None,
            consents=self._consents,
            subagents=SubAgentCalls(self.manager),
            runners=self._runners,
        )

    # ---- small parts

    async def _configure(self, setup: Setup) -> None:
        if setup.settings != self._setup.settings:
            await self._close_model()
        self._setup = setup
        self.manager.scope = setup.scope(self.id, self.label, self._notebook, self.workspace)

    def _take_notice(self, notice: Notice) -> None:
        self._inbox.put_notice(notice)
        self._stir()

    def _tell(self, event: AgentEvent) -> None:
        self._on_event(event)
        self._stir()

    def _stir(self) -> None:
        """Wake all who wait in `settled`: each holds the event that was current when it looked."""
        activity, self._activity = self._activity, asyncio.Event()
        activity.set()

    def _is_settled(self) -> bool:
        waiting = self._inbox.wakes and not self.can_continue
        return self._round is None and not self._turn.locked() and not self.manager.live_runs and not waiting

    async def _close_model(self) -> None:
        if self._model is not None:
            await self._model.aclose()
            self._model = None
