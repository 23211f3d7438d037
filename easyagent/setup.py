"""Setup: how the rounds of a conversation are driven."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from easyagent.agent_registry import AgentRegistry
from easyagent.config import AgentConfig, user_config_path
from easyagent.models import AgentDefinition, ModelSettings
from easyagent.permissions import Access, Grants
from easyagent.prompts import Language
from easyagent.subagents.reservations import Scope
from easyagent.tools.base import Tool, ToolContext


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
    access: Access = field(default_factory=Access)
    """What the user has granted."""
    can_ask: bool = False
    """Somebody is there who can be asked for consent; headless there is nobody."""
    tools: tuple[Tool, ...] = ()

    @property
    def all_private_paths(self) -> tuple[Path, ...]:
        return tuple(path.resolve() for path in (user_config_path().parent, *self.private_paths))

    def context(self, workspace: Path, language: Language) -> ToolContext:
        """What the main agent's tools may do under this setup."""
        rules = self.definition.permissions if self.definition else {}
        return ToolContext(
            workspace=workspace,
            language=language,
            grants=Grants(self.config.permissions, rules, owns_roots=False, confined=self.confined),
            roots=self.access.write,
            access=self.access,
            private_paths=self.all_private_paths,
        )

    def scope(self, conversation_id: str, label: str, notebook: str, workspace: Path) -> Scope:
        """What the sub-agents of a conversation share under this setup."""
        return Scope(
            conversation_id=conversation_id,
            label=label,
            notebook=notebook,
            workspace=workspace,
            settings=self.settings,
            registry=self.registry,
            language=self.config.language,
            permissions=self.config.permissions,
            confined=self.confined,
            private_paths=tuple(map(str, self.all_private_paths)),
            access=self.access,
            can_ask=self.can_ask,
            max_concurrent=self.config.max_concurrent,
            deliverables_root=self.deliverables_root,
            timeout_seconds=self.timeout_seconds or self.config.timeout_seconds,
        )
