"""AgentRegistry: the kinds of agent there are, by name."""

from __future__ import annotations

import json
import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from easyagent.builtin_agents import BUILTIN_AGENTS
from easyagent.config import read_settings
from easyagent.exceptions import ConfigError
from easyagent.models import AgentDefinition

_PACKAGE_PREFIX = "easyagent/"


class AgentRegistry:
    """Definitions by name; a later registration replaces an earlier one."""

    def __init__(self) -> None:
        self._agents: dict[str, AgentDefinition] = {}

    def register(self, agent: AgentDefinition) -> None:
        """Add a definition, or replace the one of the same name."""
        self._agents[agent.name] = agent

    def get(self, name: str) -> AgentDefinition | None:
        """The definition of a name, or None."""
        return self._agents.get(name)

    def list_subagents(self) -> list[AgentDefinition]:
        """The definitions that may run as sub-agents, by name."""
        return [agent for _, agent in sorted(self._agents.items()) if agent.mode in ("subagent", "all")]

    def for_workspace(self, workspace: Path) -> AgentRegistry:
        """A registry of its own: the presets, over them the workspace's `subagents/custom.json`, over those
        what was registered at run time. Raises ConfigError where that file is wrong."""
        merged = AgentRegistry()
        for agent in BUILTIN_AGENTS:
            merged.register(agent)
        custom = workspace / "subagents" / "custom.json"
        if os.path.lexists(custom):
            merged.load_from_config(str(custom))
        for agent in self._agents.values():
            if agent not in BUILTIN_AGENTS:
                merged.register(agent)
        return merged

    def load_from_config(self, config_path: str) -> None:
        """Register every agent of a JSON file `{"agents": {name: {...}}}`.

        A path that does not exist and begins with `easyagent/` is read from the package. Raises ConfigError that
        names file, agent and key; then nothing of the file is registered.
        """
        for agent in _read(config_path):
            self.register(agent)


def _read(config_path: str) -> list[AgentDefinition]:
    try:
        data = json.loads(_text(config_path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{config_path} cannot be read: {error}.") from error
    except RecursionError:
        raise ConfigError(f"{config_path} is not valid JSON: it is nested too deep.") from None
    except ValueError as error:
        raise ConfigError(f"{config_path} is not valid JSON: {error}.") from error
    agents = data.get("agents") if isinstance(data, dict) else None
    if not isinstance(agents, dict):
        raise ConfigError(f'{config_path}: the key "agents" must hold an object of definitions.')
    return [_definition(config_path, name, values) for name, values in agents.items()]


def _definition(config_path: str, name: str, values: Any) -> AgentDefinition:
    if not isinstance(values, dict):
        raise ConfigError(f"{config_path}: agent {name!r} must be an object.")
    if values.get("name", name) != name:
        raise ConfigError(f"{config_path}: agent {name!r} names itself {values['name']!r}.")
    try:
        return AgentDefinition(**{**values, "name": name})
    except (ValidationError, TypeError) as error:
        if isinstance(error, ValidationError):
            fault = error.errors(include_url=False)[0]
            where = ".".join(map(str, fault["loc"]))
            raise ConfigError(f"{config_path}: agent {name!r}, key {where!r}: {fault['msg']}.") from error
        raise ConfigError(f"{config_path}: agent {name!r}: {error}.") from error


def _text(config_path: str) -> str:
    path = Path(config_path)
    if config_path.startswith(_PACKAGE_PREFIX) and not path.exists():
        return (files("easyagent") / config_path.removeprefix(_PACKAGE_PREFIX)).read_text(encoding="utf-8")
    return read_settings(path)


@cache
def get_agent_registry() -> AgentRegistry:
    """The registry of this process, with the built-in agents."""
    registry = AgentRegistry()
    for agent in BUILTIN_AGENTS:
        registry.register(agent)
    return registry
