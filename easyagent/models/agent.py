"""AgentDefinition: what a kind of agent is, which tools it has and how it is driven."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass


@dataclass(config=ConfigDict(extra="forbid"))
class AgentDefinition:
    """One kind of agent. Positional construction works; wrong types raise pydantic's ValidationError."""

    name: str
    description: str | None = None
    mode: Literal["primary", "subagent", "all"] = "all"

    # Tools: the deny-list wins over the allow-list; None allows every tool.
    allowed_tools: list[str] | None = None
    denied_tools: list[str] | None = None
    permissions: dict[str, Any] = field(default_factory=dict)

    # Model: None takes the setting of the conversation.
    model: str | None = None
    temperature: float | None = None
    max_iterations: int | None = None
    system_prompt: str | None = None

    can_spawn_subagent: bool = False
