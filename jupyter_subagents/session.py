"""Session: one labelled conversation of a notebook and the outputs in which it shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from easyagent import AgentConfig, AgentDefinition, AgentRegistry, Conversation, Endpoints, Setup, open_model
from easyagent.models import (
    TERMINATED,
    AgentEvent,
    ModelSettings,
    RoundEnded,
    Started,
    Stop,
)
from easyagent.models.conversation import ConversationRecord
from easyagent.permissions import Access
from easyagent.sandbox import enforcement
from easyagent.subagents import Launcher, SubAgentRun
from easyagent.tools.base import SubAgentRequest
from jupyter_subagents.outputs import CellOutput
from jupyter_subagents.routing import Routing


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt with the options of its cell."""

    text: str
    config: AgentConfig
    registry: AgentRegistry
    definition: AgentDefinition | None = None
    deliverables_root: str = "sub_agent_results"
    timeout_seconds: float | None = None
    access: Access = field(default_factory=Access)
    can_ask: bool = False
    """Somebody sits in front."""
    private_paths: tuple[Path, ...] = ()
    """The kernel's own secrets: commands never read them."""


class Session:
    """Drives one conversation and shows it in its outputs. Lives on the runtime's loop."""

    def __init__(self, label: str, workspace: Path, endpoints: Endpoints, launcher: Launcher, notebook: str) -> None:
        """`notebook`: the identity of the notebook, under which a later kernel finds its conversations."""
        self.label, self.workspace, self._notebook = label, workspace, notebook
        self.conversation: Conversation | None = None
        self.routing = Routing(on_quiet=self._tidy)
        self._endpoints, self._launcher = endpoints, launcher
        self._asking: set[asyncio.Task[Any]] = set()
        """Prompts whose round has not ended."""
        self._cells: dict[CellOutput, asyncio.Task[Any]] = {}
        """What each cell waits for, by its output."""
        self._withdrawn: set[CellOutput] = set()

    @property
    def outputs(self) -> list[CellOutput]:
        return self.routing.outputs

    @property
    def runs(self) -> dict[int, SubAgentRun]:
        return self.conversation.manager.runs if self.conversation is not None else {}

    @property
    def live_runs(self) -> list[SubAgentRun]:
        return [run for run in self.runs.values() if run.live]

    @property
    def state(self) -> str:
        return self.conversation.state if self.conversation is not None else "idle"

    async def ask(self, prompt: Prompt, output: CellOutput, *, settle: bool) -> RoundEnded:
        """One round in an output; with `settle` also all that follows from it. Raises ModelError where no
        endpoint can be had; a round that fails says so in what is returned."""
        asking = asyncio.current_task()
        assert asking is not None
        if output in self._withdrawn:
            output.finish()
            raise asyncio.CancelledError
        self._asking.add(asking)
        self._cells[output] = asking
        try:
            setup = await self._setup(prompt)
            conversation = self._open(setup, output)
            self.routing.queue(output)
            ended = await conversation.ask(prompt.text, setup)
        except Exception:
            self._cells.pop(output, None)
            output.finish()
            raise
        except asyncio.CancelledError:
            self._cells.pop(output, None)
            self.routing.withdraw(output)
            raise
        finally:
            self._asking.discard(asking)
        try:
            if settle:
                await self.settled()
            return ended
        finally:
            self._cells = {shown: task for shown, task in self._cells.items() if task is not asking}

    async def start_agent(self, prompt: Prompt, request: SubAgentRequest, output: CellOutput) -> SubAgentRun:
        """Start one sub-agent for the user, beside the main agent, which is not told of it."""
        with self.routing.within(output):
            conversation = self._open(await self._setup(prompt), output)
            return await conversation.manager.start(request, for_user=True)

    async def reopen(self, prompt: Prompt, earlier: ConversationRecord, output: CellOutput, *, settle: bool) -> None:
        """Go on with a conversation of a kernel that is gone: what it was not told starts a round. Raises OSError."""
        with self.routing.within(output):
            self._open(await self._setup(prompt), output, earlier)
        if settle:
            await self.settled()

    async def resume(
        self, prompt: Prompt, number: int, output: CellOutput, *, earlier: ConversationRecord | None, settle: bool
    ) -> SubAgentRun:
        """Go on with an ended sub-agent of this conversation or of an earlier one. Raises SubAgentError."""
        with self.routing.within(output):
            conversation = self._open(await self._setup(prompt), output, earlier)
            resumed = await conversation.resume(conversation.manager.runs[number])
        if settle:
            await self.settled()
        return resumed

    def attach(self, output: CellOutput, old: CellOutput) -> None:
        """Show in a cell that is run again what its first run is doing."""
        self.routing.attach(output, old)
        if old in self._cells:
            self._cells[output] = self._cells[old]

    def interrupt(self, output: CellOutput) -> None:
        """End the prompt of one cell: its turn, or its waiting for one. Those of other cells go on."""
        waiting = self._cells.get(output)
        if waiting is not None:
            waiting.cancel()
        else:  # an interrupt can overtake the prompt, which was handed over just before
            self._withdrawn.add(output)

    async def settled(self) -> None:
        """Return when every prompt has had its round, no sub-agent lives and no round will start by itself."""
        while self._asking:
            await asyncio.wait(self._asking)
        if self.conversation is not None:
            await self.conversation.settled()
            self._tidy()

    async def stop(self, agent_id: int) -> SubAgentRun | None:
        """The user stops one sub-agent; its end is told quietly. None where there is no such number."""
        run = self.runs.get(agent_id)
        if run is not None and self.conversation is not None:
            await self.conversation.manager.stop(run, quiet=True)
        return run

    async def stop_all(self, *, tell: bool = True) -> list[SubAgentRun]:
        """Stop the round and every sub-agent; returns those that were alive."""
        if self.conversation is None:
            return []
        self.conversation.interrupt()
        return await self.conversation.manager.stop_all(tell=tell)

    async def aclose(self, stop: Stop = TERMINATED) -> list[SubAgentRun]:
        """End everything for good; the outputs keep their last record."""
        if self.conversation is None:
            return []
        stopped = await self.conversation.aclose(stop)
        self.routing.finish()
        return stopped

    def act(self, output: CellOutput, action: dict[str, Any]) -> None:
        """A click in a card; on the runtime's loop."""
        match action["type"]:
            case "ready":
                output.restored()
            case "stop":
                self._spawn(self.stop(action["agent_id"]))
            case "stop_all":
                self._spawn(self.stop_all())
            case "answer" if self.conversation is not None:
                self.conversation.approvals.answer(action["number"], action["decision"])
            case "continue" if self.conversation is not None:
                self.conversation.continue_rounds()

    # ---- inside

    async def _setup(self, prompt: Prompt) -> Setup:
        settings = await self._endpoints.settings(prompt.config)
        held = await asyncio.to_thread(enforcement)
        return Setup(
            confined=held.confined,
            private_paths=prompt.private_paths,
            access=prompt.access,
            can_ask=prompt.can_ask,
            config=prompt.config,
            settings=_with_definition(settings, prompt.definition),
            registry=prompt.registry,
            definition=prompt.definition,
            deliverables_root=prompt.deliverables_root,
            timeout_seconds=prompt.timeout_seconds,
        )

    def _open(self, setup: Setup, output: CellOutput, earlier: ConversationRecord | None = None) -> Conversation:
        if self.conversation is None:
            self.conversation = Conversation(
                setup,
                label=self.label,
                workspace=self.workspace,
                open_model=open_model,
                on_event=self._show,
                launcher=self._launcher,
                notebook=self._notebook,
                earlier=earlier,
            )
        self.routing.add(output)
        output.set_facts(model=setup.settings.name, confined=setup.confined)
        output.start()
        return self.conversation

    def _show(self, event: AgentEvent) -> None:
        self.routing.show(event)
        if self._launcher.note and isinstance(event, Started):
            self.outputs[-1].set_note(self._launcher.note)

    def _tidy(self) -> None:
        if self.conversation is not None:
            self.routing.tidy(offered=self.conversation.can_continue, pending=self.conversation.has_pending)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        _running.add(task)
        task.add_done_callback(_running.discard)


_running: set[asyncio.Task[Any]] = set()
"""Holds tasks that nobody awaits: the loop itself keeps only weak references."""


def _with_definition(settings: ModelSettings, definition: AgentDefinition | None) -> ModelSettings:
    if definition is None:
        return settings
    changes: dict[str, Any] = {}
    if definition.model:
        changes["name"] = definition.model
    if definition.temperature is not None:
        changes["temperature"] = definition.temperature
    return settings.model_copy(update=changes) if changes else settings
