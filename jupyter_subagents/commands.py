"""The sub-commands of `%agent`, one function each."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError

from easyagent.config import AgentConfig, without_password
from easyagent.plain_text import one_line
from easyagent.subagents import SubAgentRun
from jupyter_subagents import consent, doctor, resume, setup
from jupyter_subagents.card_view import duration_text, usage_view
from jupyter_subagents.front_end import CellDisplay
from jupyter_subagents.notebook import Notebook
from jupyter_subagents.session import Session
from jupyter_subagents.waiting import Waiter

HELP = """\
%%agent [label] [options]        the cell's text is a prompt; the same label continues a conversation
  -a, --agent TYPE    kind of main agent          -m, --model ID      model
  --base-url URL      endpoint                    -b, --bg            return at once
  -o, --out VAR       bind the run (or VAR <<)    --dir PATH          where results go
  --max-agents N      1-99, sub-agents at once    --timeout S         60-3600, default limit of task calls
  --new               fresh conversation          --permissions ask|edits|auto|read-only
  --read PATH         readable outside            --write PATH  writable       --net  network for commands
  {{ expression }} in the text is replaced by its value; every other brace stays.

%agent                  table of all sub-agents   %agent status N     one of them
%agent show [LABEL]     the record again          %agent stop N|all   stop sub-agents
%agent wait             wait until all is done    %agent reset        forget the conversation
%agent resume LABEL     go on with a conversation that a kernel's end cut off
%agent allow N [run]    consent to a call         %agent deny N       or not
%agent resume N         go on with a sub-agent that did not come to its end
%agent config NAME=VAL  settings of this session  %agent setup        address, key and model, saved
%agent doctor           check what is set up      %agent help         this text

from jupyter_subagents import agents     agents[1].status, .result, .files, .report, .trace; agents.start("...")"""


def run(notebook: Notebook, line: str) -> Any:
    """Carry out `%agent LINE`. Raises UsageError with one sentence."""
    try:
        name, *words = shlex.split(line) or ["table"]
    except ValueError as error:
        raise UsageError(f"%agent: the line cannot be read: {error}.") from None
    command = _COMMANDS.get(name)
    if command is None:
        raise UsageError(f"%agent: there is no {name!r}; there are {', '.join(sorted(set(_COMMANDS) - {'table'}))}.")
    if name in _MOST_WORDS and len(words) > _MOST_WORDS[name]:
        extra = " ".join(words[_MOST_WORDS[name] :])
        raise UsageError(f"%agent {name}: {extra!r} is too much; see %agent help.")
    return command(notebook, words)


def _table(notebook: Notebook, words: list[str]) -> None:
    if words and words != ["all"]:
        return _status(notebook, words)
    names = notebook.words()
    runs = [*notebook.all_runs(), *notebook.earlier_runs()]
    for question in consent.pending(notebook):
        print(question)
    if not runs:
        print(names["magic.no_runs"])
        return None
    head = [names[f"table.{key}"] for key in ("agent", "conversation", "type", "summary", "status", "time", "tokens")]
    print(_aligned([[*head, names["table.directory"]], *(_row(label, run, names) for label, run in runs)]))
    return None


def _row(label: str, run: SubAgentRun, names: Any) -> list[str]:
    tokens = usage_view(run.end.usage if run.end else run.journal.usage)["tokens"] or "?"
    status = names[f"status_{run.status}"]
    summary = one_line(run.job.summary)
    summary = summary if len(summary) <= 40 else summary[:39] + "…"
    directory = run.job.deliverables_dir
    time = duration_text(run.runtime_seconds)
    return [str(run.job.agent_id), label, run.job.definition.name, summary, status, time, tokens, directory]


def _aligned(rows: list[list[str]]) -> str:
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _width(text: str) -> int:
    """Columns on a terminal: Han and other wide characters take two."""
    return sum(2 if ord(character) >= 0x1100 else 1 for character in text)


def _status(notebook: Notebook, words: list[str]) -> None:
    run = notebook.find(_number(words))
    names = notebook.words()
    end, stats = run.end, run.end.stats if run.end else run.journal.stats
    print(f"{run.job.agent_id} ({run.job.definition.name}) {one_line(run.job.summary)}")
    cause = f" ({end.cause})" if end else ""
    limit = duration_text(run.job.timeout_seconds)
    print(f"  {names[f'status_{run.status}']}{cause}, {duration_text(run.runtime_seconds)} / {limit}")
    counts = {
        "files": stats.files_read,
        "searches": stats.searches,
        "pages": stats.web_pages,
        "commands": stats.commands,
    }
    print("  " + ", ".join(names[f"{key}_{'one' if n == 1 else 'many'}"].format(n=n) for key, n in counts.items()))
    print(f"  {one_line(run.journal.last_action)}")
    if end:
        print(f"  {one_line(end.error or end.result_summary)}")
        for file in end.files:
            print(f"  {one_line(f'{run.job.deliverables_dir}/{file.path}')}")


def _show(notebook: Notebook, words: list[str]) -> None:
    for output in _session(notebook, "show", words).outputs:
        output.show_again(CellDisplay(notebook.shell))


def _stop(notebook: Notebook, words: list[str]) -> None:
    names, session = notebook.words(), notebook.current
    if not words or words == ["all"]:
        stopped = notebook.runtime.call(session.stop_all())
    else:
        runs = [notebook.find(_number([word])) for word in words]
        stopped = [run for run in runs if run.live]
        for run in stopped:
            notebook.runtime.call(session.stop(run.job.agent_id))
    numbers = ", ".join(str(run.job.agent_id) for run in stopped)
    print(names["magic.stopped"].format(ids=numbers) if stopped else names["magic.nothing_to_stop"])


def _wait(notebook: Notebook, words: list[str]) -> Waiter[None]:
    """Wait for the current conversation. Headless, its records are shown again: what came late was lost there."""
    session = _session(notebook, "wait", words) if words else notebook.current

    def show(_: object) -> None:
        ids = [str(number) for number in sorted(session.runs)]
        key = {0: "magic.settled_none", 1: "magic.settled_one"}.get(len(ids), "magic.settled")
        print(notebook.words()[key].format(ids=", ".join(ids), count=len(ids)))
        for output in session.outputs:
            if not output.live and not output.whole:
                output.show_again(CellDisplay(notebook.shell))

    return Waiter(
        notebook.runtime.submit(session.settled()),
        on_interrupt=lambda: None,
        finish=show,
        interrupted=lambda: None,
    )


def _resume(notebook: Notebook, words: list[str]) -> Waiter[Any]:
    """`%agent resume [LABEL]` goes on with a conversation of an earlier kernel, `%agent resume N` with a sub-agent."""
    if len(words) > 1:
        raise UsageError("%agent: name one conversation or one sub-agent, such as %agent resume main.")
    word = words[0] if words else notebook.current_label
    return resume.run(notebook, int(word)) if _is_number(word) else resume.conversation(notebook, word)


def _reset(notebook: Notebook, words: list[str]) -> None:
    session, names = _session(notebook, "reset", words), notebook.words()
    stopped = notebook.reset(session.label)
    key = "magic.reset_stopped" if stopped else "magic.reset"
    print(names[key].format(label=session.label, ids=", ".join(str(run.job.agent_id) for run in stopped)))


def _config(notebook: Notebook, words: list[str]) -> None:
    """`name=value` sets, `name=` forgets, nothing shows all with where each came from."""
    changed = dict(notebook.settings)
    for word in words:
        name, separator, value = word.partition("=")
        if name == "api_key":
            raise UsageError("%agent config: a key is not written in a notebook; use %agent setup or OPENAI_API_KEY.")
        if name == "max_agents":
            raise UsageError("%agent config: that setting is called max_concurrent.")
        if not separator or name not in AgentConfig.model_fields or name in ("sources", "workspace"):
            allowed = ", ".join(sorted(set(AgentConfig.model_fields) - {"sources", "workspace", "api_key"}))
            raise UsageError(f"%agent config: {name!r} is not name=value with one of {allowed}.")
        changed.pop(name, None)
        if value:
            changed[name] = value
    before, notebook.settings = notebook.settings, changed
    try:
        config = notebook.config()
    except UsageError:
        notebook.settings = before
        raise
    for name in sorted(set(AgentConfig.model_fields) - {"sources", "workspace"}):
        value = getattr(config, name)
        shown = "set" if name == "api_key" and value else without_password(value) if name == "base_url" else value
        print(f"{name} = {shown}  ({config.sources.get(name, 'default')})")


def _setup(notebook: Notebook, words: list[str]) -> None:
    path = setup.run(notebook)
    print(notebook.words()["magic.saved"].format(path=path))


def _doctor(notebook: Notebook, words: list[str]) -> None:
    for finding in doctor.examine(notebook):
        print(finding)


def _help(notebook: Notebook, words: list[str]) -> None:
    print(HELP)


def _is_number(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 10


def _number(words: list[str]) -> int:
    if len(words) != 1 or not _is_number(words[0]):
        raise UsageError("%agent: name a sub-agent by its number, such as %agent status 1.")
    return int(words[0])


def _session(notebook: Notebook, command: str, words: list[str]) -> Session:
    """The conversation that a command names, or the current one. Raises UsageError that names those there are."""
    label = words[0] if words else notebook.current_label
    known = {name: session for name, session in notebook.sessions.items() if session.outputs}
    if label in known:
        return known[label]
    labels = f"there are {', '.join(sorted(known))}" if known else "there is none yet"
    raise UsageError(f"%agent {command}: there is no conversation {label!r}; {labels}.")


_MOST_WORDS = {
    "status": 1,
    "show": 1,
    "wait": 1,
    "resume": 1,
    "reset": 1,
    "deny": 1,
    "setup": 0,
    "doctor": 0,
    "help": 0,
}
"""How many words a command takes, where that is limited."""

_COMMANDS: dict[str, Callable[[Notebook, list[str]], Any]] = {
    "table": _table,
    "status": _table,
    "show": _show,
    "stop": _stop,
    "wait": _wait,
    "resume": _resume,
    "allow": consent.allow,
    "deny": consent.deny,
    "reset": _reset,
    "config": _config,
    "setup": _setup,
    "doctor": _doctor,
    "help": _help,
}
