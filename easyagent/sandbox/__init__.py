"""The OS sandbox: what an agent and its commands may read, write and reach, held by the kernel."""

from easyagent.sandbox.policy import SandboxPolicy, command_policy
from easyagent.sandbox.probe import Enforcement, enforcement

__all__ = ["Enforcement", "SandboxPolicy", "command_policy", "enforcement"]
