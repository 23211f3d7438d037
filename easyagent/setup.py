"""Setup: how the rounds of a conversation are driven."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from easyagent.agent_registry import AgentRegistry
from easyagent.config import AgentConfig
from easyagent.models import AgentDefinition, ModelSettings
from easyagent.tools.base import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How the next rounds are driven; resolved anew for each prompt."""

    config: AgentConfig
    settings: ModelSettings
    registry: AgentRegistry
    definition: AgentDefinition | None = None
    deliverables_root: str = "sub_agent_results"
    timeout_seconds: float | None = None
    confined: bool = False
    """The OS sandbox holds the commands; see `easyagent.sandbox.enforcement`."""
    private_paths: tuple[Path, ...] = ()
    """What commands must not read wherever it lies."""
    tools: tuple[Tool, ...] = ()
