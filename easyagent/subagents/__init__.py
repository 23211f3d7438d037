"""Sub-agents: processes of their own, their records on disk, and the manager that owns them."""

from easyagent.subagents.launcher import Handle, Launcher, LocalLauncher
from easyagent.subagents.manager import SubAgentManager
from easyagent.subagents.run import SubAgentRun
from easyagent.subagents.store import RunStore

__all__ = ["Handle", "Launcher", "LocalLauncher", "RunStore", "SubAgentManager", "SubAgentRun"]
