"""The OS sandbox: what an agent and its commands may read, write and reach, held by the kernel."""

from easyagent.sandbox.policy import SandboxPolicy, agent_policy, command_policy, temporary_directory
from easyagent.sandbox.probe import Enforcement, enforcement

__all__ = ["Enforcement", "SandboxPolicy", "agent_policy", "command_policy", "enforcement", "temporary_directory"]
