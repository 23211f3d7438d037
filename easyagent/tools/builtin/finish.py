"""finish_task: a sub-agent hands over its report and ends."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from easyagent.exceptions import ToolError
from easyagent.models import FinishResult
from easyagent.strings import strings
from easyagent.tools.base import ToolContext, ToolResult, builtin
from easyagent.tools.schemas import check_result


class FinishTask(BaseModel):
    """The report of a sub-agent."""

    model_config = ConfigDict(extra="forbid")

    success: Annotated[bool, Field(description="Whether the task was completed.")]
    summary: Annotated[str, Field(description="50-200 characters: what was done, which files were made, key findings.")]
    report: Annotated[
        str | None, Field(description="A Markdown report, saved as report.md in the deliverables directory.")
    ] = None
    result: Annotated[Any, Field(description="The structured result, where the task asks for one.")] = None


@builtin("finish_task", arguments=FinishTask)
async def finish_task(arguments: FinishTask, ctx: ToolContext) -> ToolResult:
    if ctx.finish is None:
        raise ToolError("finish_task is for sub-agents only; answer the user in words.")
    if ctx.output_schema is not None:
        await check_result(arguments.result, ctx.output_schema)
    ctx.finish(
        FinishResult(
            success=arguments.success,
            summary=arguments.summary,
            report=arguments.report,
            result=arguments.result,
        )
    )
    return ToolResult.of({"success": True, "message": strings(ctx.language)["finished"], "will_terminate": True})
