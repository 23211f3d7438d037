"""easyagent: an agent engine with background sub-agents, usable without Jupyter.

Importing it does not load openai; that happens when a model is first used.
"""

from easyagent.agent_registry import AgentRegistry, get_agent_registry
from easyagent.config import AgentConfig, resolve_config
from easyagent.conversation import Conversation
from easyagent.endpoint import Endpoints, open_model
from easyagent.exceptions import ConfigError, EasyAgentError, ModelError, SubAgentError, ToolError
from easyagent.models import AgentDefinition, AgentEvent, Trace
from easyagent.runner import AgentRunner
from easyagent.setup import Setup
from easyagent.tools.base import ToolContext, ToolResult, tool

__version__ = "0.1.0"

__all__ = [
    "AgentConfig",
    "AgentDefinition",
    "AgentEvent",
    "AgentRegistry",
    "AgentRunner",
    "ConfigError",
    "Conversation",
    "EasyAgentError",
    "Endpoints",
    "ModelError",
    "Setup",
    "SubAgentError",
    "ToolContext",
    "ToolError",
    "ToolResult",
    "Trace",
    "get_agent_registry",
    "open_model",
    "resolve_config",
    "tool",
]
