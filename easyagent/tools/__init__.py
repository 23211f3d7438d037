"""Tools: what a model may call. `tool` turns an async function into one."""

from easyagent.tools.base import SubAgents, Tool, ToolContext, ToolResult, tool

__all__ = ["SubAgents", "Tool", "ToolContext", "ToolResult", "tool"]
