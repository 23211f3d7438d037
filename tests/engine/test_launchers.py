"""Both launchers pass one contract; the host's own promises; what holds where it cannot be had."""

from __future__ import annotations

from easyagent.subagents import HostLauncher, Launcher, LocalLauncher
from easyagent.testing.launcher_contract import LauncherContract


class TestLocalLauncher(LauncherContract):
    def make_launcher(self) -> Launcher:
        return LocalLauncher()


class TestHostLauncher(LauncherContract):
    def make_launcher(self) -> Launcher:
        return HostLauncher()
