"""Toolbox: the tools an agent has. What is shown to the model is exactly what will run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from easyagent.exceptions import SubAgentError, ToolError
from easyagent.models import AgentDefinition
from easyagent.prompts import Language
from easyagent.tools.base import Tool, ToolContext, ToolResult
from easyagent.tools.builtin import command, files, finish, search, subagents, task

BUILTIN_TOOLS: dict[str, Tool] = {
    entry.name: entry
    for entry in (
        files.read_file,
        files.write_file,
        files.edit_file,
        files.list_files,
        search.search_files,
        search.search_code,
        command.run_command,
        subagents.create_sub_agent,
        subagents.get_sub_agent_status,
        subagents.terminate_sub_agent,
        task.task_tool,
        finish.finish_task,
    )
}

ALIASES: dict[str, tuple[str, ...]] = {
    "search_workspace": ("search_files", "search_code"),
    "execute_bash": ("run_command",),
    "fetch_url": ("extract_webpage",),
}
"""Names of the two founding documents for the same tools."""

MAIN_ONLY = frozenset({"create_sub_agent", "get_sub_agent_status", "terminate_sub_agent"})
_JSON_ANSWERS = MAIN_ONLY | {"task"}
"""Tools whose every answer is JSON, a wrong argument included."""


def canonical(names: Iterable[str]) -> set[str]:
    """Tool names with aliases replaced by what they stand for."""
    return {name for given in names for name in ALIASES.get(given, (given,))}


class Toolbox:
    """The tools of one agent, in a fixed order."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = {entry.name: entry for entry in tools}

    @classmethod
    def for_sub_agent(cls, definition: AgentDefinition, extra: Iterable[Tool] = ()) -> Toolbox:
        """The definition's allow-list minus its deny-list; always finish_task, never another sub-agent's reins."""
        denied = canonical(definition.denied_tools or ()) - {"finish_task"}
        allowed = None if definition.allowed_tools is None else canonical(definition.allowed_tools) | {"finish_task"}
        return cls(
            entry
            for entry in [*BUILTIN_TOOLS.values(), *extra]
            if entry.name not in denied
            and (allowed is None or entry.name in allowed)
            and entry.name not in MAIN_ONLY | {"task"}
        )

    @classmethod
    def for_main(cls, definition: AgentDefinition | None = None, extra: Iterable[Tool] = ()) -> Toolbox:
        """Everything but finish_task, under the lists of a definition where one is given."""
        denied = canonical((definition and definition.denied_tools) or ())
        allowed = canonical(definition.allowed_tools) if definition and definition.allowed_tools is not None else None
        return cls(
            entry
            for entry in [*BUILTIN_TOOLS.values(), *extra]
            if entry.name != "finish_task" and entry.name not in denied and (allowed is None or entry.name in allowed)
        )

    @property
    def names(self) -> list[str]:
        return list(self._tools)

    def schemas(self, language: Language, *, only: str | None = None) -> list[dict[str, Any]]:
        """The tools in chat-completions form; `only` offers a single one."""
        return [entry.schema(language) for entry in self._tools.values() if only is None or entry.name == only]

    def find(self, name: str) -> Tool | None:
        """A tool by its name or by an alias that stands for exactly one tool."""
        if name in self._tools:
            return self._tools[name]
        aliased = ALIASES.get(name, ())
        return self._tools.get(aliased[0]) if len(aliased) == 1 else None

    async def call(self, name: str, arguments: str, context: ToolContext) -> ToolResult:
        """Run one call. Whatever goes wrong becomes a result that advises the model; only cancellation passes."""
        entry = self.find(name)
        if entry is None:
            return ToolResult(f"Error: there is no tool {name!r}; available: {', '.join(self.names)}.", ok=False)
        try:
            parsed = entry.parse(arguments)
        except ToolError as error:
            return _refused(entry, error)
        try:
            return await self._guarded(entry, parsed, context)
        except ToolError as error:
            return _refused(entry, error, code="spawn_failed")

    async def _guarded(self, entry: Tool, parsed: BaseModel, context: ToolContext) -> ToolResult:
        try:
            return await entry(parsed, context)
        except ToolError:
            raise
        except SubAgentError as error:
            return ToolResult.of({"success": False, "error": error.code, "message": str(error)})
        except OSError as error:
            raise ToolError(f"{entry.name} failed: {error.strerror or error}.") from error
        except Exception as error:  # a tool of the user's may raise anything; the run must go on
            raise ToolError(f"{entry.name} failed: {type(error).__name__}: {error}") from error


def _refused(entry: Tool, error: ToolError, *, code: str = "invalid_argument") -> ToolResult:
    if entry.name in _JSON_ANSWERS:
        return ToolResult.of({"success": False, "error": code, "message": str(error)})
    return ToolResult(f"Error: {error}", ok=False)
