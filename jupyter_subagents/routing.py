"""Routing: which output each event of a conversation shows in."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from easyagent.models import AgentCreated, AgentEnded, AgentEvent, RoundEnded, RoundStarted
from jupyter_subagents.card_model import CardState
from jupyter_subagents.outputs import CellOutput

_log = logging.getLogger(__name__)


class Routing:
    """The outputs of one conversation. A sub-agent shows where it was created, a round where its prompt was, and a
    round that starts by itself where the sub-agent was that woke it."""

    def __init__(self, on_quiet: Callable[[], None]) -> None:
        """`on_quiet` is called soon after something has ended."""
        self.outputs: list[CellOutput] = []
        self._on_quiet = on_quiet
        self._waiting: deque[CellOutput] = deque()
        self._active: CellOutput | None = None
        self._waking: CellOutput | None = None
        self._creating: CellOutput | None = None
        self._homes: dict[int, CellOutput] = {}
        self._observers: list[Callable[[AgentEvent], None]] = []

    def observe(self, observer: Callable[[AgentEvent], None]) -> None:
        """Call `observer` with every event from now on."""
        self._observers.append(observer)

    def add(self, output: CellOutput) -> None:
        """One more output. A cell that runs again has cleared its earlier one: what still lives there moves here."""
        for old in self.outputs:
            if old.cell_id is not None and old.cell_id == output.cell_id and not old.finished:
                output.state = _merged(output, old)
                self._move(old, output)
        self.outputs.append(output)

    def queue(self, output: CellOutput) -> None:
        """The next round of the user's shows in it."""
        self._waiting.append(output)

    def withdraw(self, output: CellOutput) -> None:
        """Its prompt is not run after all, where it had not begun."""
        if output in self._waiting:
            self._waiting.remove(output)
        if not output.state.transcript:
            output.finish()

    @contextlib.contextmanager
    def within(self, output: CellOutput) -> Iterator[None]:
        """What is created for the user meanwhile, of no round, shows in it."""
        previous, self._creating = self._creating, output
        try:
            yield
        except Exception:
            output.finish()
            raise
        finally:
            self._creating = previous

    def alive_output(self, cell_id: str | None, text: str) -> CellOutput | None:
        """The output of a cell whose run of this very text still lives."""
        if cell_id is None:
            return None
        same = [output for output in self.outputs if (output.cell_id, output.text) == (cell_id, text)]
        living = (output for output in same if not output.finished and self._lives(output))
        return next(living, None)

    def attach(self, output: CellOutput, old: CellOutput) -> None:
        """Show in a cell that is run again what its first run is doing, instead of doing it twice."""
        output.state = old.state
        self._waiting = deque(output if waiting is old else waiting for waiting in self._waiting)
        self.outputs.append(output)
        self._move(old, output)
        output.start()

    def show(self, event: AgentEvent) -> None:
        """Take an event. What goes wrong while showing it must not end the agents it tells of."""
        try:
            self._route(event)
        except Exception:
            _log.exception("an event could not be shown: %s", event.type)

    def tidy(self, *, offered: bool, pending: bool) -> None:
        """Write the final record of outputs in which nothing lives and no round will start any more. `pending`: an end
        waits to be told; `offered`: and the user must consent to the round."""
        for output in self.outputs:
            if output.finished or self._lives(output):
                continue
            if pending and output is (self._waking or self.outputs[-1]):
                output.offer_continue(offered)
            else:
                output.finish()

    def finish(self) -> None:
        for output in self.outputs:
            output.finish()

    def _lives(self, output: CellOutput) -> bool:
        return output.state.alive or output in self._waiting

    def _move(self, old: CellOutput, output: CellOutput) -> None:
        for agent_id, home in self._homes.items():
            if home is old:
                self._homes[agent_id] = output
        self._active = output if self._active is old else self._active
        self._waking = output if self._waking is old else self._waking
        old.finish()

    def _route(self, event: AgentEvent) -> None:
        if isinstance(event, RoundStarted):
            queued = self._waiting.popleft() if event.origin == "user" and self._waiting else None
            self._active = queued or self._waking or (self.outputs[-1] if self.outputs else None)
        if isinstance(event, AgentCreated) and event.agent_id is not None:
            home = self._active if event.round_id else self._creating or self._active
            if home is not None:
                self._homes[event.agent_id] = home
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
            asyncio.get_running_loop().call_soon(self._on_quiet)


def _merged(output: CellOutput, old: CellOutput) -> CardState:
    living = tuple(agent for agent in old.state.agents if agent.alive)
    return replace(output.state, agents=living)
