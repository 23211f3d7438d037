"""Sub-agents: processes of their own, their records on disk, and the manager that owns them."""

from easyagent.subagents.calls import SubAgentCalls
from easyagent.subagents.host_launcher import HostLauncher, open_launcher
from easyagent.subagents.launcher import Handle, Launcher, LocalLauncher
from easyagent.subagents.manager import SubAgentManager
from easyagent.subagents.run import SubAgentRun
from easyagent.subagents.store import RunStore

__all__ = [
    "Handle",
    "HostLauncher",
    "Launcher",
    "LocalLauncher",
    "RunStore",
    "SubAgentCalls",
    "SubAgentManager",
    "SubAgentRun",
    "open_launcher",
]
