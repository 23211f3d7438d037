"""What a tool is: one argument model, which is the schema, and one async function."""

from __future__ import annotations

import asyncio
import inspect
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError, create_model
from pydantic_core import PydanticCustomError

from easyagent.chat import load_json
from easyagent.exceptions import ToolError
from easyagent.models import FinishResult, Stats
from easyagent.permissions import Access, Grants
from easyagent.plain_text import is_blank
from easyagent.prompts import Language, load
from easyagent.sandbox import temporary_directory
from easyagent.strings import strings


def _seen(text: str) -> str:
    if is_blank(text):
        raise PydanticCustomError("blank", "Text should hold something that can be read")
    return text


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1), AfterValidator(_seen)]
"""An argument that says something."""


class SubAgents(Protocol):
    """The main agent's sub-agents as the tools see them. Each answer is JSON for the model."""

    async def create(self, request: SubAgentRequest, *, call_id: str) -> ToolResult: ...

    async def task(self, subagent_type: str, description: str, prompt: str, *, call_id: str) -> ToolResult: ...

    async def terminate(self, agent_id: int) -> ToolResult: ...

    def status(self, agent_ids: list[int]) -> ToolResult: ...

    def types(self) -> list[str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SubAgentRequest:
    """The checked arguments of create_sub_agent."""

    agent_id: int | None
    summary: str
    task: str
    deliverables_dir: str | None = None
    run_in_background: bool = False
    timeout_seconds: float | None = None
    """None takes the time limit of the conversation's settings."""
    subagent_type: str = "general"
    write_paths: tuple[str, ...] = ()
    output_schema: dict[str, Any] | None = None


@dataclass(slots=True)
class StatsCounter:
    """Counts what an agent did; a file read twice counts once."""

    files: set[str] = field(default_factory=set)
    searches: int = 0
    web_pages: int = 0
    commands: int = 0
    written: dict[str, None] = field(default_factory=dict)

    def snapshot(self, runtime_seconds: float = 0) -> Stats:
        return Stats(
            runtime_seconds=int(runtime_seconds),
            files_read=len(self.files),
            searches=self.searches,
            web_pages=self.web_pages,
            commands=self.commands,
        )


Answer = Literal["once", "run", "deny", "unanswered"]
"""To a question for consent: this call, all such calls of this run, or none; `unanswered` after half an hour."""

Ask = Callable[[str, str, str, str], Awaitable[Answer]]
"""Tool, what the call is about, the rule that asks, and what the call would change."""


@dataclass(slots=True, kw_only=True)
class ToolContext:
    """Where and on whose behalf a tool runs."""

    workspace: Path
    """Real path; what tool paths are relative to."""
    language: Language
    grants: Grants
    roots: tuple[Path, ...] = ()
    """Directories and files this agent may write; empty for the main agent, whose level decides."""
    deliverables_dir: Path | None = None
    stats: StatsCounter = field(default_factory=StatsCounter)
    subagents: SubAgents | None = None
    finish: Callable[[FinishResult], None] | None = None
    output_schema: dict[str, Any] | None = None
    read_marks: dict[str, str] = field(default_factory=dict)
    """sha256 of each file as this agent last saw it, by workspace path."""
    call_id: str = ""
    temporary: Path = field(default_factory=lambda: temporary_directory(secrets.token_hex(8)))
    """TMPDIR and HOME of this agent's commands; made at the first one, removed by the agent's owner."""
    private_paths: tuple[Path, ...] = ()
    """What commands must not read wherever it lies: connection files, tokens, settings with keys."""
    access: Access = field(default_factory=Access)
    ask: Ask | None = None
    """Asks the user; None where nobody can answer."""
    consents: set[tuple[str, str]] = field(default_factory=set)
    """Tools and rules that the user has allowed for the whole run."""
    runners: set[asyncio.subprocess.Process] = field(default_factory=set)
    """Runners of commands whose background processes go on; the agent's owner ends them with `end_commands`."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gives back: text for the model, and whether it did what was asked."""

    content: str
    ok: bool = True
    told: tuple[str, ...] = ()
    """The runs whose ends this result tells the main agent."""

    @classmethod
    def of(cls, data: Mapping[str, Any], *, told: tuple[str, ...] = ()) -> ToolResult:
        """A JSON result; `success: false` in it makes the call a failed one."""
        return cls(json.dumps(data, ensure_ascii=False), ok=data.get("success", True) is not False, told=told)


Run = Callable[..., Awaitable[ToolResult]]


@dataclass(frozen=True, slots=True)
class Tool:
    """A named function a model may call. `concurrent` calls of one reply run at the same time, others in order."""

    name: str
    arguments: type[BaseModel]
    run: Run
    text: str | None = None
    """Description; None takes the Markdown of the tool's name in the prompts."""
    takes_model: bool = False
    concurrent: bool = False

    def description(self, language: Language) -> str:
        return self.text if self.text is not None else load(f"tools/{self.name}", language)

    def schema(self, language: Language) -> dict[str, Any]:
        """The tool in chat-completions form."""
        parameters = _parameters(self.arguments)
        function = {"name": self.name, "description": self.description(language), "parameters": parameters}
        return {"type": "function", "function": function}

    def parse(self, arguments: str) -> BaseModel:
        """Check a call's JSON text. Raises ToolError that says what is wrong and how to call again."""
        try:
            values = load_json(arguments) if arguments.strip() else {}
        except ValueError as error:
            raise ToolError(f"the arguments are not valid JSON ({error}); send the whole call again.") from error
        if not isinstance(values, dict):
            raise ToolError(f"the arguments must be a JSON object, not {type(values).__name__}.")
        try:
            return self.arguments.model_validate(values)
        except ValidationError as error:
            raise ToolError(_faults(error)) from error

    async def __call__(self, arguments: BaseModel, context: ToolContext) -> ToolResult:
        if self.takes_model:
            return await self.run(arguments, context)
        values = {name: getattr(arguments, name) for name in type(arguments).model_fields}
        return await self.run(**values, ctx=context)

    def action(self, arguments: Mapping[str, Any], language: Language) -> str:
        """What the call does, in words for people."""
        words = strings(language)
        template = words.get(f"action.{self.name}", words["action.other"])
        values = {key: " ".join(str(value).split())[:80] for key, value in arguments.items()}
        return template.format_map(_Missing({"path": ".", "tool": self.name, **values}))


class _Missing(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "…"


def tool(
    name: str,
    *,
    arguments: type[BaseModel] | None = None,
    description: str | None = None,
    concurrent: bool = False,
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function; one that is not async runs in a thread.

    Without `arguments` the function's own parameters are the schema, `ctx: ToolContext` left out; with it
    an async function takes one instance of that model and the context. The description is the docstring unless given.
    What is returned and is no ToolResult becomes the text of one.
    """

    def make(function: Callable[..., Any]) -> Tool:
        model = arguments or _model_of(name, function)
        run = function if arguments is not None else _adapted(function)
        text = description if description is not None else (inspect.getdoc(function) or name)
        return Tool(name, model, run, text, arguments is not None, concurrent)

    return make


def builtin(name: str, *, arguments: type[BaseModel] | None = None, concurrent: bool = False) -> Callable[[Run], Tool]:
    """A tool whose description stands in the prompts, in each language."""

    def make(function: Run) -> Tool:
        return Tool(name, arguments or _model_of(name, function), function, None, arguments is not None, concurrent)

    return make


def _adapted(function: Callable[..., Any]) -> Run:
    """A user's function in the form of a tool's: async, with the context only where it asks for it."""
    takes_context = "ctx" in inspect.signature(function).parameters

    async def run(*, ctx: ToolContext, **values: Any) -> ToolResult:
        if takes_context:
            values["ctx"] = ctx
        if inspect.iscoroutinefunction(function):
            result = await function(**values)
        else:
            result = await asyncio.to_thread(function, **values)
        return result if isinstance(result, ToolResult) else ToolResult(str(result))

    return run


def _model_of(name: str, function: Callable[..., Any]) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "ctx":
            continue
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    return create_model(f"{name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)


@cache
def _parameters(arguments: type[BaseModel]) -> dict[str, Any]:
    """The schema of an argument model, made once: it is part of every request, and nobody changes it."""
    parameters: dict[str, Any] = _without_titles(arguments.model_json_schema())
    parameters.pop("description", None)
    return parameters


def _without_titles(schema: Any) -> Any:
    """A schema without pydantic's titles, which cost tokens in every request; a property named title stays."""
    if isinstance(schema, list):
        return [_without_titles(entry) for entry in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_titles(entry) for name, entry in value.items()}
        if key in ("properties", "$defs")
        else _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def _faults(error: ValidationError) -> str:
    parts = []
    for fault in error.errors(include_url=False)[:5]:
        where = ".".join(map(str, fault["loc"])) or "arguments"
        given = "" if fault["type"] == "missing" else f" (got {str(fault['input'])[:60]!r})"
        parts.append(f"{where}: {fault['msg']}{given}")
    return "invalid arguments: " + "; ".join(parts) + "."
