"""Trace: what one agent did, step by step, linked to the agent that started it."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from easyagent.models.usage import Usage


@dataclass(config=ConfigDict(extra="forbid"))
class Step:
    """One tool call. Times are seconds since the epoch; `ended_at` is None while it runs."""

    step_id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    started_at: float = 0.0
    ended_at: float | None = None
    ok: bool | None = None
    preview: str = ""


@dataclass(config=ConfigDict(extra="forbid"))
class Trace:
    """The record of one agent. A sub-agent's trace_id is its `conv_...` id."""

    trace_id: str
    task: str = ""
    status: str = "running"
    model: str = ""
    created_at: str = ""
    completed_at: str | None = None
    steps: list[Step] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)

    parent_trace_id: str | None = None
    agent_definition: str | None = None
    spawned_by_tool: str | None = None
    """The step of the parent, a tool call's id, that started this agent."""
