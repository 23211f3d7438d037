"""What a confined process may read and write. Reads are built up from what programs need, never subtracted.

A rule grants everything below it. So no rule may be the home of something private (the Jupyter runtime
directory with its connection files and tokens, the settings with the key): where one would be, what lies
in it is granted piece by piece instead.
"""

from __future__ import annotations

import os
import site
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

SYSTEM_READS = (
    "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc", "/opt", "/proc", "/sys", "/nix", "/snap",
    "/var/cache/fontconfig", "/run/systemd/resolve", "/run/resolvconf",
)  # fmt: skip
DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm", "/dev/ptmx",
    "/dev/pts",
)  # fmt: skip
_PREFIX_PARTS = ("bin", "lib", "lib32", "lib64", "libexec", "include", "share")


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """Absolute paths, and whether TCP is open."""

    read: tuple[str, ...]
    write: tuple[str, ...]
    listing: tuple[str, ...] = ()
    """Directories whose names can be listed, and no more: a workspace that holds something private."""
    network: bool = False

    def json_ready(self) -> dict[str, object]:
        return asdict(self)


def command_policy(
    *,
    workspace: Path,
    roots: Iterable[Path],
    temporary: Path,
    private: Iterable[Path] = (),
    extra_reads: Iterable[Path] = (),
    network: bool = False,
) -> SandboxPolicy:
    """The policy of an agent's commands: reads of the system, its interpreters and the workspace; writes in its roots.

    `private`: what must stay unreadable wherever it lies. `temporary`: the agent's own TMPDIR.
    """
    hidden = tuple(path.resolve() for path in private)
    wanted = [workspace, *(Path(path) for path in SYSTEM_READS), *_interpreters(), *_path_entries(), *extra_reads]
    reads: dict[str, None] = {}
    for path in wanted:
        reads |= dict.fromkeys(map(str, _around(path, hidden)))
    writes = [str(root) for root in roots if not _is_or_holds(root.resolve(), hidden)]
    listing = (str(workspace),) if _is_or_holds(workspace.resolve(), hidden) else ()
    return SandboxPolicy(tuple(reads), (*writes, str(temporary), *DEVICES), listing, network)


def agent_policy(
    *,
    workspace: Path,
    roots: Iterable[Path],
    temporary: Path,
    private: Iterable[Path] = (),
    granted_reads: Iterable[Path] = (),
) -> SandboxPolicy:
    """The policy of an agent's own process: as its commands', but it may speak to its endpoint."""
    python_path = [Path(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return command_policy(
        workspace=workspace,
        roots=roots,
        temporary=temporary,
        private=private,
        extra_reads=(*python_path, *granted_reads),
        network=True,
    )


def temporary_directory(run_id: str) -> Path:
    """TMPDIR and HOME of a run's commands: beside the system's other temporary files, readable by this user alone."""
    return Path(tempfile.gettempdir()) / f"easyagent-{run_id}"


def _interpreters() -> list[Path]:
    """This Python, the one its environment was made from, and their packages."""
    found = [
        Path(sys.prefix),
        Path(sys.base_prefix),
        Path(sys.exec_prefix),
        Path(sys.executable).resolve().parent.parent,
    ]
    packages = [Path(path) for path in (*site.getsitepackages(), site.getusersitepackages())]
    return [path for path in (*found, *packages, *_linked_packages(packages)) if path.exists()]


def _linked_packages(packages: list[Path]) -> list[Path]:
    """Directories that `.pth` files add: packages installed in place."""
    linked: list[Path] = []
    for folder in packages:
        for file in sorted(folder.glob("*.pth")):
            lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            linked += [Path(line) for line in map(str.strip, lines) if line.startswith("/") and Path(line).is_dir()]
    return linked


def _path_entries() -> list[Path]:
    """The directories of PATH and what programs there need beside them: `bin` has its `lib`, shims their root."""
    found: list[Path] = []
    for text in os.environ.get("PATH", "").split(os.pathsep):
        path = Path(text)
        if not path.is_absolute() or not path.is_dir():
            continue
        real = path.resolve()
        found += [path, real]
        for prefix in {path.parent, real.parent}:
            if real.name == "shims":
                found.append(prefix)
            elif real.name in ("bin", "sbin"):
                found += [prefix / part for part in _PREFIX_PARTS if (prefix / part).is_dir()]
    return found


def _around(path: Path, hidden: tuple[Path, ...]) -> list[Path]:
    """The path itself, or, where something hidden lies in it, its visible children without that."""
    real = path.resolve()
    if any(real == secret or real.is_relative_to(secret) for secret in hidden):
        return []
    if not _is_or_holds(real, hidden):
        return [real]
    granted: list[Path] = []
    for child in sorted(real.iterdir()) if real.is_dir() else []:
        if not child.name.startswith(".") or child.name == ".git":
            granted += _around(child, hidden)
    return granted


def _is_or_holds(path: Path, hidden: tuple[Path, ...]) -> bool:
    return any(secret == path or secret.is_relative_to(path) for secret in hidden)
