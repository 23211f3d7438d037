"""task: start a sub-agent and wait for what it found."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from easyagent.exceptions import ToolError
from easyagent.tools.base import Text, ToolContext, ToolResult, builtin


@builtin("task", concurrent=True)
async def task_tool(
    subagent_type: Annotated[str, Field(description="Kind of sub-agent, such as general, explore or analyst.")],
    description: Annotated[Text, Field(description="The task in 3-5 words.")],
    prompt: Annotated[Text, Field(description="The task in full: goal, requirements, scope.")],
    ctx: ToolContext,
) -> ToolResult:
    """Start a sub-agent for a sub-task and wait for its result."""
    if ctx.subagents is None:
        raise ToolError("this agent cannot start sub-agents; do the work with your own tools.")
    return await ctx.subagents.task(subagent_type, description, prompt, call_id=ctx.call_id)
