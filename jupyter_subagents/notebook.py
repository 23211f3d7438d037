"""Notebook: all that one kernel keeps of its agents. The magics and the Python objects are faces of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ipykernel.connect import get_connection_file
from IPython.core.error import UsageError
from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from jupyter_core.paths import jupyter_config_dir, jupyter_runtime_dir

from easyagent import AgentConfig, AgentDefinition, EasyAgentError, get_agent_registry, resolve_config
from easyagent.config import working_directory
from easyagent.models import KERNEL_GONE
from easyagent.models.conversation import ConversationRecord
from easyagent.processes import is_alive
from easyagent.prompts import detect_language
from easyagent.subagents import RunStore, SubAgentRun, earlier
from jupyter_subagents.front_end import CellDisplay, kind_of
from jupyter_subagents.options import CellOptions, named_paths
from jupyter_subagents.outputs import CellOutput
from jupyter_subagents.runtime import Runtime, get_runtime
from jupyter_subagents.session import Prompt, Session
from jupyter_subagents.strings import ui_strings


def private_paths() -> tuple[Path, ...]:
    """Where Jupyter keeps connection files, tokens and settings: who reads them can run code in the kernel."""
    found = {jupyter_runtime_dir(), jupyter_config_dir()}
    if (file := connection_file()) is not None:
        found.add(file)  # some clients keep it in the system's temporary directory
    return tuple(Path(path) for path in sorted(found))


def connection_file() -> str | None:
    """The connection file of this kernel; None in a terminal, where there is no kernel."""
    return str(get_connection_file()) if getattr(get_ipython(), "kernel", None) is not None else None


class Notebook:
    """Conversations by label, the current one, and the settings of `%agent config`."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.workspace = working_directory()
        self.store = RunStore(self.workspace)
        self.settings: dict[str, Any] = {}
        self.sessions: dict[str, Session] = {}
        self.current_label = "main"
        self.runtime: Runtime = get_runtime()
        self.runtime.on_shutdown(self._close_all)

    @property
    def current(self) -> Session:
        return self.session(self.current_label)

    def session(self, label: str) -> Session:
        if label not in self.sessions:
            self.sessions[label] = Session(
                label, self.workspace, self.runtime.endpoints, self.runtime.launcher, self.identity
            )
        return self.sessions[label]

    def config(self, overrides: Mapping[str, Any] | None = None) -> AgentConfig:
        """The settings now. Raises UsageError with one sentence."""
        try:
            return resolve_config(overrides, self.settings)
        except EasyAgentError as error:
            raise UsageError(str(error)) from None

    def prompt(self, text: str, options: CellOptions, *, typed: str | None = None) -> Prompt:
        """A prompt with everything its cell says; the paths that she has `typed` herself may be read. Raises UsageError
        with one sentence."""
        config = self.config(options.settings)
        try:
            registry = get_agent_registry().for_workspace(self.workspace)
        except EasyAgentError as error:
            raise UsageError(str(error)) from None
        definition = self.check_type(options.agent) if options.agent else None
        return Prompt(
            text=text,
            config=config,
            registry=registry,
            definition=definition,
            deliverables_root=options.directory or "sub_agent_results",
            timeout_seconds=options.timeout_seconds,
            private_paths=private_paths(),
            access=replace(options.access, read=(*options.access.read, *named_paths(text if typed is None else typed))),
            can_ask=kind_of(self.shell) == "live",
        )

    def check_type(self, name: str) -> AgentDefinition:
        """The definition of a kind of agent. Raises UsageError that names those there are."""
        registry = get_agent_registry().for_workspace(self.workspace)
        definition = registry.get(name)
        if definition is None:
            known = ", ".join(agent.name for agent in registry.list_subagents())
            raise UsageError(f"%%agent: there is no agent type {name!r}; available: {known}.")
        return definition

    def check_endpoint(self, prompt: Prompt, options: CellOptions) -> None:
        """Where entering a conversation would end sub-agents, see first that there is an endpoint to go on with.

        Raises UsageError.
        """
        left = {label for label in (self.current_label, options.label) if options.new or label != options.label}
        if any(label in self.sessions and self.sessions[label].live_runs for label in left):
            try:
                self.runtime.call(self.runtime.endpoints.settings(prompt.config))
            except EasyAgentError as error:
                raise UsageError(str(error)) from None

    def enter(self, label: str, *, new: bool) -> tuple[Session, str, list[SubAgentRun]]:
        """Make a conversation the current one. Sub-agents of the one that is left, or begun anew, are ended:
        returns the session, the label that was left, and those."""
        left, stopped = self.current_label, []
        if label != left and left in self.sessions:
            stopped = self.runtime.call(self.sessions[left].stop_all(tell=False))
        if new:
            left, stopped = label, stopped + self.reset(label)
        self.current_label = label
        return self.session(label), left, stopped

    def reset(self, label: str) -> list[SubAgentRun]:
        """Forget a conversation; returns the sub-agents that were ended with it."""
        session = self.sessions.pop(label, None)
        return self.runtime.call(session.aclose()) if session is not None else []

    def output(self, label: str, text: str, *, model: str = "") -> CellOutput:
        """A new output in the cell that runs now."""
        kind = kind_of(self.shell)
        language = detect_language(text, self.config().language)
        return CellOutput(
            label=label,
            text=text,
            model=model,
            strings=ui_strings(language),
            display=None if kind == "terminal" else CellDisplay(self.shell),
            live=kind == "live",
            on_action=self._clicked,
        )

    def words(self, text: str = "") -> Mapping[str, str]:
        """The interface's words: the language that is set, else that of a text, of the current conversation's last
        prompt, or of the environment."""
        setting = self.config().language
        session = self.sessions.get(self.current_label)
        if not text and session is not None:
            text = next((output.text for output in reversed(session.outputs) if output.text), "")
        if setting == "auto" and not text and os.environ.get("LANG", "").startswith("zh"):
            setting = "zh"
        return ui_strings(detect_language(text, setting))

    def all_runs(self) -> list[tuple[str, SubAgentRun]]:
        return [(label, run) for label, session in self.sessions.items() for run in session.runs.values()]

    @property
    def identity(self) -> str:
        """Which notebook this is, across restarts of its kernel: its path where the server or VS Code tells it, else
        the kernel's id."""
        path = os.environ.get("JPY_SESSION_NAME") or self.shell.user_ns.get("__vsc_ipynb_file__")
        if path:
            return str(path)
        file = connection_file()
        return Path(file).stem if file is not None else ""

    def earlier(self, label: str) -> ConversationRecord | None:
        """The latest conversation under a label that a kernel before this one has left."""
        own = {session.conversation.id for session in self.sessions.values() if session.conversation is not None}
        found = [record for record in earlier.conversations(self.store, self.identity) if record.label == label]
        return next((record for record in found if record.id not in own and not _is_open(record)), None)

    def earlier_runs(self) -> list[tuple[str, SubAgentRun]]:
        """The runs of the latest earlier conversation of each label that is not open here, by label."""
        earlier.record_all_lost(self.store)
        labels = {record.label for record in earlier.conversations(self.store, self.identity)}
        free = sorted(labels - {label for label, session in self.sessions.items() if session.conversation is not None})
        return [
            (label, SubAgentRun(job, end=end, status=end.status, journal=self.store.summary(job.sub_conversation_id)))
            for label in free
            if (record := self.earlier(label)) is not None
            for job, end in earlier.runs_of(self.store, record.id)
        ]

    def find(self, number: int) -> SubAgentRun:
        """A sub-agent of the current conversation. Raises UsageError that names those there are."""
        run = self.current.runs.get(number)
        if run is None:
            known = ", ".join(map(str, sorted(self.current.runs))) or "none"
            raise UsageError(f"There is no sub-agent {number} in conversation {self.current_label}; known: {known}.")
        return run

    def _clicked(self, output: CellOutput, action: dict[str, Any]) -> None:
        """In the comm's thread: only hand over."""
        for session in self.sessions.values():
            if output in session.outputs:
                self.runtime.hand_over(session.act, output, action)

    async def _close_all(self) -> None:
        for session in list(self.sessions.values()):
            await session.aclose(KERNEL_GONE)


def _is_open(record: ConversationRecord) -> bool:
    """True where another kernel that lives holds it."""
    return record.owner_pid != os.getpid() and is_alive(record.owner_pid, record.owner_began)


@cache
def _notebook_of(shell: InteractiveShell) -> Notebook:
    return Notebook(shell)


def get_notebook() -> Notebook:
    """The notebook of this kernel. Raises RuntimeError outside IPython."""
    shell = get_ipython()
    if shell is None:
        raise RuntimeError("jupyter_subagents works in IPython; without it use easyagent.AgentRunner.")
    return _notebook_of(shell)
