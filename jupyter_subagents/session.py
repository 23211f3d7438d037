"""Session: one labelled conversation of a notebook and the outputs in which it shows."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from easyagent import AgentConfig, AgentDefinition, AgentRegistry, Conversation, Endpoints, Setup, open_model
from easyagent.models import (
    TERMINATED,
    AgentCreated,
    AgentEnded,
    AgentEvent,
    ModelSettings,
    RoundEnded,
    RoundStarted,
    Stop,
)
from easyagent.sandbox import enforcement
from easyagent.subagents import Launcher, SubAgentRun
from easyagent.tools.base import SubAgentRequest
from jupyter_subagents.card_model import CardState
from jupyter_subagents.outputs import CellOutput

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt with the options of its cell."""

    text: str
    config: AgentConfig
    registry: AgentRegistry
    definition: AgentDefinition | None = None
    deliverables_root: str = "sub_agent_results"
    timeout_seconds: float | None = None
    private_paths: tuple[Path, ...] = ()
    """The kernel's own secrets: commands never read them."""


class Session:
    """Drives one conversation and routes its events to the output they belong to. Lives on the runtime's loop."""

    def __init__(self, label: str, workspace: Path, endpoints: Endpoints, launcher: Launcher) -> None:
        self.label, self.workspace = label, workspace
        self.conversation: Conversation | None = None
        self.outputs: list[CellOutput] = []
        self._endpoints, self._launcher = endpoints, launcher
        self._waiting: deque[CellOutput] = deque()
        self._active: CellOutput | None = None
        self._waking: CellOutput | None = None
        self._homes: dict[int, CellOutput] = {}
        self._asking: set[asyncio.Task[Any]] = set()
        self._observers: list[Callable[[AgentEvent], None]] = []

    @property
    def runs(self) -> dict[int, SubAgentRun]:
        return self.conversation.manager.runs if self.conversation is not None else {}

    @property
    def live_runs(self) -> list[SubAgentRun]:
        return [run for run in self.runs.values() if run.live]

    @property
    def state(self) -> str:
        return self.conversation.state if self.conversation is not None else "idle"

    def observe(self, observer: Callable[[AgentEvent], None]) -> None:
        """Call `observer` with every event from now on."""
        self._observers.append(observer)

    async def ask(self, prompt: Prompt, output: CellOutput, *, settle: bool) -> RoundEnded:
        """One round in an output; with `settle` also all that follows from it. Raises ModelError where no
        endpoint can be had; a round that fails says so in what is returned."""
        asking = asyncio.current_task()
        assert asking is not None
        self._asking.add(asking)
        try:
            setup = await self._setup(prompt)
            conversation = self._open(setup, output)
            self._waiting.append(output)
            ended = await conversation.ask(prompt.text, setup)
        except Exception:
            output.finish()
            raise
        finally:
            self._asking.discard(asking)
        if settle:
            await self.settled()
        return ended

    async def start_agent(self, prompt: Prompt, request: SubAgentRequest, output: CellOutput) -> SubAgentRun:
        """Start one sub-agent for the user, beside the main agent, which is not told of it."""
        conversation = self._open(await self._setup(prompt), output)
        previous, self._active = self._active, output
        try:
            run = await conversation.manager.start(request)
        finally:
            self._active = previous
        run.told = True
        return run

    def interrupt(self) -> None:
        if self.conversation is not None:
            self.conversation.interrupt()

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
        for output in self.outputs:
            output.finish()
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
            case "continue" if self.conversation is not None:
                self.conversation.continue_rounds()

    # ---- inside

    async def _setup(self, prompt: Prompt) -> Setup:
        settings = await self._endpoints.settings(prompt.config)
        held = await asyncio.to_thread(enforcement)
        return Setup(
            confined=held.confined,
            private_paths=prompt.private_paths,
            config=prompt.config,
            settings=_with_definition(settings, prompt.definition),
            registry=prompt.registry,
            definition=prompt.definition,
            deliverables_root=prompt.deliverables_root,
            timeout_seconds=prompt.timeout_seconds,
        )

    def _open(self, setup: Setup, output: CellOutput) -> Conversation:
        if self.conversation is None:
            self.conversation = Conversation(
                setup,
                label=self.label,
                workspace=self.workspace,
                open_model=open_model,
                on_event=self._show,
                launcher=self._launcher,
            )
        self._adopt(output)
        self.outputs.append(output)
        output.set_model(setup.settings.name)
        output.start()
        return self.conversation

    def _adopt(self, output: CellOutput) -> None:
        """A cell that runs again has cleared its earlier output: what still lives there moves to the new one."""
        for old in self.outputs:
            if old.cell_id is None or old.cell_id != output.cell_id or old.finished:
                continue
            for agent_id, home in self._homes.items():
                if home is old:
                    self._homes[agent_id] = output
            if self._active is old:
                self._active = output
            output.state = _merged(output, old)
            old.finish()

    def _show(self, event: AgentEvent) -> None:
        """Take an event. What goes wrong while showing it must not end the agents it tells of."""
        try:
            self._route(event)
        except Exception:
            _log.exception("an event could not be shown: %s", event.type)

    def _route(self, event: AgentEvent) -> None:
        """Each event to its output: a sub-agent's to its home, the main agent's to the round's."""
        if isinstance(event, RoundStarted):
            queued = self._waiting.popleft() if event.origin == "user" and self._waiting else None
            self._active = queued or self._waking or (self.outputs[-1] if self.outputs else None)
        if isinstance(event, AgentCreated) and self._active is not None and event.agent_id is not None:
            self._homes[event.agent_id] = self._active
        home = self._homes.get(event.agent_id) if event.agent_id is not None else self._active
        if isinstance(event, AgentEnded):
            self._waking = home
        if home is not None:
            home.take(event)
        for observer in self._observers:
            observer(event)
        if isinstance(event, RoundEnded) and home is not None:
            home.save()
        if isinstance(event, RoundEnded | AgentEnded):
            asyncio.get_running_loop().call_soon(self._tidy)

    def _tidy(self) -> None:
        """Write the final record of outputs in which nothing lives and no round will start any more."""
        if self.conversation is None:
            return
        offered = self.conversation.can_continue
        pending = self.conversation.has_pending
        for output in self.outputs:
            if output.finished or output.state.alive or output in self._waiting:
                continue
            if pending and output is (self._waking or self.outputs[-1]):
                output.offer_continue(offered)
            else:
                output.finish()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        _running.add(task)
        task.add_done_callback(_running.discard)


_running: set[asyncio.Task[Any]] = set()
"""Holds tasks that nobody awaits: the loop itself keeps only weak references."""


def _merged(output: CellOutput, old: CellOutput) -> CardState:
    living = tuple(agent for agent in old.state.agents if agent.alive)
    return replace(output.state, agents=living)


def _with_definition(settings: ModelSettings, definition: AgentDefinition | None) -> ModelSettings:
    if definition is None:
        return settings
    changes: dict[str, Any] = {}
    if definition.model:
        changes["name"] = definition.model
    if definition.temperature is not None:
        changes["temperature"] = definition.temperature
    return settings.model_copy(update=changes) if changes else settings
