"""Which tools an agent has, how calls are checked, and tools of a user's own."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from easyagent.models import AgentDefinition, FinishResult
from easyagent.permissions import Grants
from easyagent.tools import Tool, ToolContext, ToolResult, tool
from easyagent.tools.toolbox import BUILTIN_TOOLS, Toolbox

ALL = set(BUILTIN_TOOLS)
REINS = {"create_sub_agent", "terminate_sub_agent", "get_sub_agent_status", "task"}
OWN = ALL - REINS


def use(tools: Toolbox, name: str, arguments: str, workspace: Path, **fields: Any) -> ToolResult:
    grants = Grants("ask", {}, owns_roots=True)
    context = ToolContext(workspace=workspace.resolve(), language="en", grants=grants, **fields)
    return asyncio.run(tools.call(name, arguments, context))


LISTS: list[tuple[list[str] | None, list[str] | None, set[str]]] = [
    (None, None, OWN),
    (["read_file"], None, {"read_file", "finish_task"}),
    ([], None, {"finish_task"}),
    (None, ["read_file", "finish_task"], OWN - {"read_file"}),
    (["read_file", "list_files"], ["read_file"], {"list_files", "finish_task"}),  # deny wins
    (["search_workspace"], None, {"search_files", "search_code", "finish_task"}),
    (None, ["execute_bash", "search_workspace"], OWN - {"run_command", "search_files", "search_code"}),
    (sorted(ALL), None, OWN),  # no list gives a sub-agent the reins of others
    (["fetch_url", "nonsense"], None, {"finish_task"}),
]


@pytest.mark.parametrize(("allowed", "denied", "expected"), LISTS)
def test_lists_and_aliases_decide_what_a_sub_agent_has(
    allowed: list[str] | None, denied: list[str] | None, expected: set[str]
) -> None:
    definition = AgentDefinition(name="a", allowed_tools=allowed, denied_tools=denied, can_spawn_subagent=True)
    toolbox = Toolbox.for_sub_agent(definition)
    assert set(toolbox.names) == expected
    assert [schema["function"]["name"] for schema in toolbox.schemas("zh")] == toolbox.names
    assert len(toolbox.schemas("en", only="finish_task")) == 1


def test_the_main_agent_has_the_reins_and_no_finish_task() -> None:
    assert set(Toolbox.for_main().names) == ALL - {"finish_task"}
    limited = AgentDefinition(name="m", allowed_tools=["task", "finish_task", "read_file"], denied_tools=["read_file"])
    assert Toolbox.for_main(limited).names == ["task"]


FAULTS: dict[str, tuple[str, str, str]] = {
    "nested deep": ("read_file", '{"path": ' + "[" * 300 + "]" * 300 + "}", "nested too deeply"),
    "nested without end": ("read_file", '{"path": ' + "[" * 99_999 + "]" * 99_999 + "}", "nested too deeply"),
    "truncated": ("read_file", '{"path": "a', "not valid JSON"),
    "a list": ("read_file", '["a"]', "must be a JSON object, not list"),
    "null": ("read_file", "null", "must be a JSON object, not NoneType"),
    "a number": ("read_file", "3", "must be a JSON object, not int"),
    "empty": ("read_file", "", "path: Field required"),
    "extra": ("read_file", '{"path": "a.txt", "colour": 1}', "colour: Extra inputs"),
    "wrong type": ("read_file", '{"path": ["a.txt"]}', "path: Input should be a valid string"),
    "out of range": ("read_file", '{"path": "a.txt", "offset": 0}', "offset: Input should be greater"),
    "unknown tool": ("fly", "{}", "there is no tool 'fly'; available: "),
    "a tool it has not": ("create_sub_agent", "{}", "there is no tool 'create_sub_agent'"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_wrong_call_is_answered_with_advice(case: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    name, arguments, part = FAULTS[case]
    toolbox = Toolbox.for_sub_agent(AgentDefinition(name="a"))
    result = use(toolbox, name, arguments, tmp_path)
    assert not result.ok and result.content.startswith("Error: ") and part in result.content
    assert use(toolbox, "read_file", '{"path": "a.txt"}', tmp_path).ok
    assert use(toolbox, "list_files", "", tmp_path).ok  # empty arguments are {}


def test_a_call_by_an_alias_is_taken(tmp_path: Path) -> None:
    toolbox = Toolbox.for_sub_agent(AgentDefinition(name="a"))
    assert "run_command is denied" in use(toolbox, "execute_bash", '{"command": "ls"}', tmp_path).content
    assert "no tool" in use(toolbox, "search_workspace", "{}", tmp_path).content  # stands for two


def test_finish_task_hands_over_the_report(tmp_path: Path) -> None:
    taken: list[FinishResult] = []
    toolbox = Toolbox.for_sub_agent(AgentDefinition(name="a"))
    for arguments in ('{"success": true}', '{"success": "perhaps", "summary": "s"}', '{"summary": "s"}'):
        assert not use(toolbox, "finish_task", arguments, tmp_path, finish=taken.append).ok
    assert taken == []
    done = use(toolbox, "finish_task", '{"success": true, "summary": "s"}', tmp_path, finish=taken.append)
    message = "The task is complete; the sub-agent exits now"
    assert json.loads(done.content) == {"success": True, "message": message, "will_terminate": True}
    assert taken == [FinishResult(success=True, summary="s")]


def own_tools() -> list[Tool]:
    @tool("count", description="Counts.")
    async def count(
        path: Annotated[str, Field(description="What to count.")], ctx: ToolContext, limit: int = 3
    ) -> ToolResult:
        return ToolResult(f"{path} {limit} {ctx.workspace.name}")

    @tool("plain")
    def plain(title: str) -> str:
        """Runs beside the event loop."""
        return f"{title} {threading.current_thread() is threading.main_thread()}"

    @tool("broken")
    async def broken(ctx: ToolContext) -> ToolResult:
        raise RuntimeError("no luck")

    return [count, plain, broken]


def test_a_users_own_function_becomes_a_tool(tmp_path: Path) -> None:
    toolbox = Toolbox.for_sub_agent(AgentDefinition(name="a"), own_tools())
    schemas = {schema["function"]["name"]: schema["function"] for schema in toolbox.schemas("en")}
    assert schemas["count"] == {
        "name": "count",
        "description": "Counts.",
        "parameters": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "path": {"type": "string", "description": "What to count."},
                "limit": {"type": "integer", "default": 3},
            },
            "required": ["path"],
        },
    }
    assert schemas["plain"]["description"] == "Runs beside the event loop."
    assert "title" in schemas["plain"]["parameters"]["properties"]
    assert use(toolbox, "count", '{"path": "p", "limit": 4}', tmp_path).content == f"p 4 {tmp_path.name}"
    assert use(toolbox, "plain", '{"title": "t"}', tmp_path).content == "t False"
    assert use(toolbox, "broken", "", tmp_path) == ToolResult("Error: broken failed: RuntimeError: no luck", ok=False)
    assert "title: Field required" in use(toolbox, "plain", "{}", tmp_path).content
