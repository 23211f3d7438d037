"""`%%agent` and `%agent`: parse and hand over."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from easyagent.models import AgentEvent, RoundEnded
from easyagent.plain_text import is_blank
from easyagent.progress import describe
from easyagent.subagents import SubAgentRun
from jupyter_subagents import commands
from jupyter_subagents.api import CellRun
from jupyter_subagents.front_end import awaits, kind_of
from jupyter_subagents.notebook import Notebook, get_notebook
from jupyter_subagents.options import expand, parse_line
from jupyter_subagents.session import Session
from jupyter_subagents.waiting import Waiter, one_sentence

_CELL_PREFIX = "get_ipython().run_cell_magic('agent',"
_LINE_PREFIXES = tuple(f"get_ipython().run_line_magic('agent', '{name}" for name in ("wait", "result", "resume"))


@magics_class
class AgentMagics(Magics):
    """The magics; everything they do lives in `Notebook` and in `commands`."""

    @no_var_expand
    @line_cell_magic
    def agent(self, line: str, cell: str | None = None) -> Any:
        """%%agent [label] [options]: the cell's text is a prompt. %agent help tells the rest."""
        with one_sentence():
            notebook = get_notebook()
            work = commands.run(notebook, line) if cell is None else run_cell(notebook, line, cell)
            return _delivered(notebook.shell, work)


def run_cell(notebook: Notebook, line: str, cell: str) -> Waiter[RoundEnded] | Waiter[None]:
    """Start the round of a `%%agent` cell. Raises UsageError with one sentence, and then nothing has begun."""
    options = parse_line(line, notebook.workspace)
    text = expand(cell, notebook.shell.user_ns).strip()
    if is_blank(text):
        raise UsageError("%%agent: the cell is empty; write below the first line what you need.")
    prompt = notebook.prompt(text, options, typed=cell)
    notebook.check_endpoint(prompt, options)
    session, left, stopped = notebook.enter(options.label, new=options.new)
    words = notebook.words(text)
    if stopped:
        print(words["magic.switched"].format(label=left, ids=_ids(stopped)))
    output = notebook.output(options.label, text, model=prompt.config.model or "")
    run = CellRun(notebook, session, output)
    if options.out:
        notebook.shell.user_ns[options.out] = run
    kind = kind_of(notebook.shell)
    tick = _print_changes(session) if kind == "terminal" else None
    alive = session.routing.alive_output(output.cell_id, text)
    if alive is not None and alive.future is not None:
        print(words["magic.attached"])
        notebook.runtime.hand_over(session.attach, output, alive)
        future = alive.future
    else:
        settle = kind != "live" and not options.background
        future = notebook.runtime.submit(session.ask(prompt, output, settle=settle))
    run.future = output.future = future
    if options.background:
        return Waiter.nothing()
    return Waiter(
        future,
        on_interrupt=lambda: notebook.runtime.hand_over(session.interrupt, output),
        finish=_raise_error,
        interrupted=lambda: _tell_interrupted(session, words),
        on_tick=tick,
    )


def _delivered(shell: InteractiveShell, work: Waiter[Any] | Any) -> Any:
    """Hand a waiter to the cell's `await`, or wait here where the cell cannot."""
    if not isinstance(work, Waiter):
        return work
    return work if awaits(shell) else work.block()


def _raise_error(ended: RoundEnded) -> None:
    """A turn that failed raises one sentence, so that Run All stops."""
    if ended.error and not ended.interrupted:
        raise UsageError(ended.error)


def _tell_interrupted(session: Session, words: Any) -> None:
    live = session.live_runs
    print(words["magic.interrupted"] + (" " + words["magic.go_on"].format(ids=_ids(live)) if live else ""))


def _ids(runs: Iterable[SubAgentRun]) -> str:
    return ", ".join(str(run.job.agent_id) for run in runs)


def _print_changes(session: Session) -> Callable[[], None]:
    """In a terminal: one line a change, printed by the waiting thread."""
    waiting: queue.SimpleQueue[AgentEvent] = queue.SimpleQueue()
    session.routing.observe(waiting.put)

    def print_waiting() -> None:
        while not waiting.empty():
            text = describe(waiting.get())
            if text:
                print(text)

    return print_waiting


def add_await(lines: list[str]) -> list[str]:
    """Input transformer: make the cell wait for `%%agent`, `%agent wait` and `%agent result`."""
    if not lines or not awaits(get_notebook().shell):
        return lines
    if lines[0].startswith(_CELL_PREFIX):
        return ["await " + lines[0], *lines[1:]]
    return ["await " + line if line.startswith(_LINE_PREFIXES) else line for line in lines]
