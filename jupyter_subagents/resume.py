"""`%agent resume`: go on with what the end of a kernel, or of a sub-agent, has cut off."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError

from easyagent.models import SubAgentStatus
from easyagent.models.conversation import ConversationRecord
from easyagent.subagents import SubAgentRun, earlier
from jupyter_subagents.front_end import kind_of
from jupyter_subagents.notebook import Notebook
from jupyter_subagents.options import CellOptions
from jupyter_subagents.outputs import CellOutput
from jupyter_subagents.session import Prompt
from jupyter_subagents.waiting import Waiter


def conversation(notebook: Notebook, label: str) -> Waiter[None]:
    """Go on with the latest conversation under a label. Raises UsageError with one sentence."""
    session = notebook.session(label)
    if session.conversation is not None:
        raise UsageError(f"%agent resume: conversation {label} goes on in this kernel already; just ask on.")
    record = _earlier(notebook, label)
    if record is None:
        known = sorted({found.label for found in earlier.conversations(notebook.store, notebook.identity)})
        some = ", ".join(known) or "none"
        raise UsageError(f"%agent resume: this notebook has no earlier conversation {label!r}; known: {some}.")
    notebook.enter(label, new=False)
    prompt, output = _shown(notebook, label)
    settle = kind_of(notebook.shell) != "live"
    return _waiter(notebook, notebook.runtime.submit(session.reopen(prompt, record, output, settle=settle)))


def run(notebook: Notebook, number: int) -> Waiter[SubAgentRun]:
    """Go on with a sub-agent of the current conversation, or of the one that an earlier kernel left."""
    return _waiter(notebook, _resume(notebook, number, settle=kind_of(notebook.shell) != "live"))


def resume_run(notebook: Notebook, number: int) -> SubAgentRun:
    """The same from Python; returns when it runs. Raises UsageError, SubAgentError."""
    resumed: SubAgentRun = _resume(notebook, number, settle=False).result()
    return resumed


def _resume(notebook: Notebook, number: int, *, settle: bool) -> Any:
    session = notebook.current
    record = None if session.conversation is not None else _earlier(notebook, notebook.current_label)
    ended = {job.agent_id: end.status for job, end in earlier.runs_of(notebook.store, record.id)} if record else {}
    if number in ended:
        status = ended[number]
    else:
        record, status = None, notebook.find(number).status
    if not status.ended:
        raise UsageError(f"Sub-agent {number} is running; there is nothing to go on with.")
    if status is SubAgentStatus.COMPLETED:
        raise UsageError(f"Sub-agent {number} has completed its task; start a new one for more.")
    prompt, output = _shown(notebook, notebook.current_label)
    return notebook.runtime.submit(session.resume(prompt, number, output, earlier=record, settle=settle))


def _earlier(notebook: Notebook, label: str) -> ConversationRecord | None:
    record = notebook.earlier(label)
    if record is not None:
        earlier.record_all_lost(notebook.store)
    return record


def _shown(notebook: Notebook, label: str) -> tuple[Prompt, CellOutput]:
    """A prompt without text, for its settings, and the output of the cell that runs now."""
    prompt = notebook.prompt("", CellOptions(label=label, settings={}))
    return prompt, notebook.output(label, "", model=prompt.config.model or "")


def _waiter(notebook: Notebook, future: Any) -> Waiter[Any]:
    return Waiter(
        future,
        on_interrupt=lambda: None,
        finish=lambda _: None,
        interrupted=lambda: None,
    )
