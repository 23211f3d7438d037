"""ConversationLog: a main agent's messages and events, each on disk before it is told."""

from __future__ import annotations

from collections.abc import Callable

from easyagent.chat import OUTCOME_UNKNOWN, Messages
from easyagent.exceptions import EasyAgentError
from easyagent.journal import summarize
from easyagent.models import AgentEvent, MessageAdded, TextDelta
from easyagent.models.conversation import ConversationRecord
from easyagent.subagents import RunStore, earlier


class ConversationLog:
    """The log of one conversation, begun or, where its record was held before, gone on with."""

    def __init__(self, store: RunStore, record: ConversationRecord, on_event: Callable[[AgentEvent], None]) -> None:
        """Raises OSError where it cannot be written."""
        events = store.conversation_events(record.id)
        self.messages = Messages(summarize(events).messages)
        self.told = frozenset(earlier.told(events))
        """The runs whose ends it had told before it was opened here."""
        self._journal = store.open_conversation(record)
        self._on_event = on_event

    def answer_open_calls(self) -> None:
        """Calls that the end of a kernel cut off get a result, as endpoints demand."""
        for message in self.messages.close_calls(OUTCOME_UNKNOWN):
            self.emit(MessageAdded(message=message))

    def append(self, role: str, content: str, *, told: tuple[str, ...] = ()) -> None:
        """One more message, and the runs whose ends it tells."""
        message = {"role": role, "content": content}
        self.messages.append(message)
        self.emit(MessageAdded(message=message, told=told))

    def emit(self, event: AgentEvent) -> None:
        """Record the main agent's own events, then tell of them; a sub-agent's journal is its own.

        Raises EasyAgentError where the record cannot be written; the event is told nevertheless.
        """
        fault: OSError | None = None
        if event.agent_id is None and not isinstance(event, TextDelta):
            try:
                event = self._journal.append(event)
            except OSError as error:
                fault = error
        self._on_event(event)
        if fault is not None:
            raise EasyAgentError(f"The conversation cannot be recorded: {fault}.") from fault

    def close(self) -> None:
        self._journal.close()
