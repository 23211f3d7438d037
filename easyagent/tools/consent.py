"""Whether a call may go on: decided by the rules, asked of the user where they say so, or refused with advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from easyagent.exceptions import ToolError
from easyagent.permissions import Decision, decide, decide_network, decide_outside_read, refusal, subject_of
from easyagent.tools.base import ToolContext
from easyagent.tools.paths import check_hidden, resolve, within

MAX_DETAIL = 100_000


async def permit(
    ctx: ToolContext,
    tool: str,
    arguments: Mapping[str, Any],
    *,
    inside_roots: bool = False,
    detail: Callable[[], str] = str,
) -> None:
    """Return where the call may go on; `detail` tells whoever is asked what it would change.

    Raises ToolError with the reason and what would allow it.
    """
    decision = decide(ctx.grants, tool, arguments, inside_roots=inside_roots)
    await _settle(ctx, tool, subject_of(tool, arguments), decision, detail)


async def permit_network(ctx: ToolContext, command: str) -> None:
    """Return where a confined command may have the network. Raises ToolError."""
    if not ctx.access.network:
        await _settle(ctx, "run_command", f"with network: {command}", decide_network(ctx.grants))


async def readable(ctx: ToolContext, tool: str, text: str) -> Path:
    """The real path of something to read: in the workspace, granted, or allowed by the user. Raises ToolError."""
    path = resolve(ctx.workspace, text)
    if within(path, ctx.private_paths):
        raise ToolError(f"{text} is private: it holds keys of the user or of the notebook server.")
    if path.is_relative_to(ctx.workspace):
        check_hidden(ctx.workspace, path, text)
    elif not within(path, (*ctx.access.read, *ctx.access.write)):
        await _settle(ctx, tool, str(path), decide_outside_read(ctx.grants))
    return path


async def _settle(
    ctx: ToolContext, tool: str, subject: str, decision: Decision, detail: Callable[[], str] = str
) -> None:
    if decision.effect == "allow" or (tool, decision.rule) in ctx.consents:
        return
    if decision.effect == "ask" and ctx.ask is not None:
        answer = await ctx.ask(tool, subject, decision.rule, detail()[:MAX_DETAIL])
        if answer == "run":
            ctx.consents.add((tool, decision.rule))
        if answer in ("once", "run"):
            return
        if answer == "deny":
            raise ToolError(f"the user denied {tool} ({subject[:200]}); do not try it again, go on without it.")
        if answer == "unanswered":
            raise ToolError(f"{tool} was not allowed: nobody answered in time; go on without it.")
    raise ToolError(refusal(decision, tool))
