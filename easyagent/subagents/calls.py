"""SubAgentCalls: what the main agent's tools ask of its sub-agents, answered in the JSON that a model gets."""

from __future__ import annotations

import asyncio

from easyagent.models import SubAgentEnd
from easyagent.subagents import reports
from easyagent.subagents.manager import SubAgentManager
from easyagent.subagents.run import SubAgentRun
from easyagent.tools.base import SubAgentRequest, ToolResult


class SubAgentCalls:
    """Implements the `SubAgents` protocol of the tools over a manager."""

    def __init__(self, manager: SubAgentManager) -> None:
        self._manager = manager

    async def create(self, request: SubAgentRequest, *, call_id: str = "") -> ToolResult:
        """Start a sub-agent; blocking requests wait for its end. Raises SubAgentError, and then nothing was started."""
        run = await self._manager.start(request, call_id=call_id, awaited=not request.run_in_background)
        if request.run_in_background and run.stop is None:
            return ToolResult.of(reports.running_result(run))
        return ToolResult.of(reports.ended_result(run, await self._await_end(run)), told=(run.run_id,))

    async def task(self, subagent_type: str, description: str, prompt: str, *, call_id: str = "") -> ToolResult:
        request = SubAgentRequest(
            agent_id=None,
            summary=description,
            task=prompt,
            subagent_type=subagent_type,
        )
        return await self.create(request, call_id=call_id)

    async def terminate(self, agent_id: int) -> ToolResult:
        """End one for the main agent, which thereby knows of it. Idempotent; unknown ids get a clear answer."""
        run = self._manager.runs.get(agent_id)
        if run is None:
            known = ", ".join(map(str, sorted(self._manager.runs))) or "none"
            message = f"there is no sub-agent {agent_id} in this conversation; known: {known}."
            return ToolResult.of({"success": False, "agent_id": agent_id, "status": "unknown", "message": message})
        if not run.live:
            assert run.end is not None
            return ToolResult.of(reports.terminated_result(run, run.end))
        run.awaited = True
        self._manager.begin_stop(run)
        return ToolResult.of(reports.terminated_result(run, await self._await_end(run)), told=(run.run_id,))

    def status(self, agent_ids: list[int]) -> ToolResult:
        return ToolResult.of(
            {
                "success": True,
                "agents": [
                    reports.status_entry(run)
                    if (run := self._manager.runs.get(number))
                    else {"agent_id": number, "status": "unknown"}
                    for number in agent_ids
                ],
            }
        )

    def types(self) -> list[str]:
        return [agent.name for agent in self._manager.scope.registry.list_subagents()]

    async def _await_end(self, run: SubAgentRun) -> SubAgentEnd:
        """Wait for an end that the caller tells; where it is interrupted, the run is ended and told of later."""
        try:
            await run.ended.wait()
        except asyncio.CancelledError:
            run.awaited = False
            if run.live:
                await self._manager.stop(run, quiet=True)
            else:  # it ended in the same moment
                self._manager.tell(run)
            raise
        run.told = True
        assert run.end is not None
        return run.end
