"""CellOutput: what one `%%agent` cell shows, from its first moment to the record that stays in the notebook."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from easyagent import AgentEvent
from easyagent.models import RoundEnded
from jupyter_subagents.card_model import CardState
from jupyter_subagents.card_state import reduce
from jupyter_subagents.cards import AgentCard, push_changes
from jupyter_subagents.front_end import CellDisplay
from jupyter_subagents.record import record_html, record_text

ATTACH_SECONDS = 3.0
STATIC_SECONDS = 1.0


class CellOutput:
    """Folds events into a card state and shows it: live through the widget, and as a static record.

    Made in the kernel's thread; every other method runs on the runtime's loop.
    """

    def __init__(
        self,
        *,
        label: str,
        text: str = "",
        model: str,
        strings: Mapping[str, str],
        display: CellDisplay | None,
        live: bool,
        on_action: Callable[[CellOutput, dict[str, Any]], None],
    ) -> None:
        self.state = CardState(label=label, model=model)
        self.text = text
        self.finished = False
        self.answer: str | None = None
        """What the main agent said last in it."""
        self.whole = False
        """Its last record came while its cell still ran, so that headless too it is under the cell."""
        self.future: concurrent.futures.Future[RoundEnded] | None = None
        """The round of its prompt."""
        self._strings, self._display = strings, display
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._static = False
        self._card = AgentCard(on_action=lambda action: on_action(self, action), strings=strings) if live else None
        if display is not None:
            display.show(self._bundle(final=False))

    @property
    def live(self) -> bool:
        """True where a widget shows it; a headless output is a record from the start."""
        return self._card is not None

    @property
    def attached(self) -> bool:
        """True once a front end has shown the live card."""
        return self._card is not None and self._card.attached

    @property
    def cell_id(self) -> str | None:
        return self._display.cell_id if self._display is not None else None

    def start(self) -> None:
        """Begin to feed the card."""
        if self._card is not None:
            self._spawn(push_changes(self._card, lambda: self.state, self._changed))
            self._spawn(self._fall_back_without_front_end(self._card))
        elif self._display is not None:
            self._spawn(self._keep_record_up_to_date(lambda: False))

    def take(self, event: AgentEvent) -> None:
        if isinstance(event, RoundEnded) and not event.error:
            self.answer = event.content
        self.state = reduce(self.state, event)
        self._changed.set()

    def set_facts(self, *, model: str, confined: bool) -> None:
        """What the header says of the round: which model answers, and whether the sandbox holds."""
        self.state = replace(self.state, model=model, confined=confined)
        self._changed.set()

    def set_note(self, note: str) -> None:
        if self.state.note != note:
            self.state = replace(self.state, note=note)
            self._changed.set()

    def offer_continue(self, offered: bool) -> None:
        if self.state.can_continue != offered:
            self.state = replace(self.state, can_continue=offered)
            self._changed.set()

    def save(self) -> None:
        """Rewrite the record under the cell as things stand: at the end of each round."""
        if self._display is not None and not self.finished:
            self._display.update(self._bundle(final=False))

    def finish(self) -> None:
        """Nothing of this output lives any more: the last record, without the widget."""
        if self.finished:
            return
        self.finished = True
        for task in self._tasks:
            task.cancel()
        if self._display is not None:
            self.whole = self._display.in_its_cell
            self._display.update(self._bundle(final=True))
        if self._card is not None:
            self._card.close()

    def restored(self) -> None:
        """A front end showed the card after all; give it the widget back."""
        if self._static and not self.finished:
            self._static = False
            self.save()

    def show_again(self, display: CellDisplay) -> None:
        """The record in the output of another cell."""
        display.show(self._bundle(final=not self.state.alive))

    def _bundle(self, *, final: bool) -> dict[str, Any]:
        state_at = None if final else datetime.now()
        data: dict[str, Any] = {
            "text/html": record_html(self.state, strings=self._strings, state_at=state_at),
            "text/plain": record_text(self.state, strings=self._strings, state_at=state_at),
        }
        if self._static:
            data["text/html"] += f"<p><em>{self._strings['magic.no_front_end']}</em></p>"
        elif self._card is not None and not final:
            view = {"version_major": 2, "version_minor": 0, "model_id": self._card.model_id}
            data["application/vnd.jupyter.widget-view+json"] = view
        return data

    async def _fall_back_without_front_end(self, card: AgentCard) -> None:
        """Where no widget shows up, the record itself is kept up to date, once a second."""
        if await card.wait_attached(ATTACH_SECONDS):
            return
        self._static = True
        await self._keep_record_up_to_date(lambda: card.attached)
        self.restored()

    async def _keep_record_up_to_date(self, stop: Callable[[], bool]) -> None:
        shown: CardState | None = None
        while not stop():
            if self.state is not shown:
                shown = self.state
                self.save()
            await asyncio.sleep(STATIC_SECONDS)

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(_quietly(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: work.close())  # cancelled before it began, it would warn in a later cell


async def _quietly(work: Any) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await work
