"""create_sub_agent, terminate_sub_agent, get_sub_agent_status: the main agent's hold on its sub-agents."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from easyagent.exceptions import ToolError
from easyagent.tools.base import SubAgentRequest, SubAgents, Text, ToolContext, ToolResult, builtin

AgentId = Annotated[int, Field(strict=True, ge=1, le=99, description="Number of the sub-agent, 1-99.")]


class CreateSubAgent(BaseModel):
    """The arguments of create_sub_agent."""

    model_config = ConfigDict(extra="forbid")

    agent_id: Annotated[int, Field(strict=True, ge=1, le=99, description="Number 1-99, unique in this conversation.")]
    summary: Annotated[Text, Field(description="The task in 10-30 characters.")]
    task: Annotated[Text, Field(description="The task in full: goal, requirements, deliverables and scope of work.")]
    deliverables_dir: Annotated[
        str | None,
        Field(description="Relative path for the results; default sub_agent_results/agent_{agent_id}."),
    ] = None
    run_in_background: Annotated[
        bool,
        Field(
            strict=True,
            description="True returns at once and notifies you at the end; false waits for the result.",
        ),
    ] = False
    timeout_seconds: Annotated[int, Field(strict=True, ge=60, le=3600, description="Time limit, 60-3600 seconds.")] = (
        600
    )
    subagent_type: Annotated[str, Field(description="Kind of sub-agent.")] = "general"
    write_paths: Annotated[
        list[str],
        Field(description="Workspace paths beside the deliverables directory that the sub-agent may write."),
    ] = []
    output_schema: Annotated[
        dict[str, Any] | None,
        Field(description="JSON Schema of a structured result that finish_task must hand over."),
    ] = None


@builtin("create_sub_agent", arguments=CreateSubAgent, concurrent=True)
async def create_sub_agent(arguments: CreateSubAgent, ctx: ToolContext) -> ToolResult:
    values = {**arguments.model_dump(), "write_paths": tuple(arguments.write_paths)}
    if "timeout_seconds" not in arguments.model_fields_set:
        values["timeout_seconds"] = None  # the conversation's setting, where the model names none
    request = SubAgentRequest(**values)
    return await _subagents(ctx).create(request, call_id=ctx.call_id)


@builtin("terminate_sub_agent")
async def terminate_sub_agent(agent_id: Annotated[int, Field(strict=True)], ctx: ToolContext) -> ToolResult:
    return await _subagents(ctx).terminate(agent_id)


@builtin("get_sub_agent_status")
async def get_sub_agent_status(
    agent_ids: Annotated[
        list[Annotated[int, Field(strict=True)]],
        Field(min_length=1, max_length=200, description="Numbers to ask about."),
    ],
    ctx: ToolContext,
) -> ToolResult:
    return _subagents(ctx).status(agent_ids)


def _subagents(ctx: ToolContext) -> SubAgents:
    if ctx.subagents is None:
        raise ToolError("this agent cannot start sub-agents; do the work with your own tools.")
    return ctx.subagents
