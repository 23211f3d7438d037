"""What a confined process may read and write. Reads are built up from what programs need, never subtracted.

A rule grants everything below it. So no rule may be the home of something private (the Jupyter runtime
directory with its connection files and tokens, the settings with the key): where one would be, what lies
in it is granted piece by piece instead.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

SYSTEM_READS = (
    "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin", "/etc", "/opt", "/proc", "/sys", "/nix", "/snap",
    "/var/lib", "/var/cache/fontconfig",
)  # fmt: skip
DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm", "/dev/ptmx", "/dev/pts",
)  # fmt: skip
_PREFIX_PARTS = ("bin", "lib", "lib32", "lib64", "libexec", "include", "share")


@dataclass(frozen=True, slots=True)
class SandboxPolicy:
    """Absolute paths, and whether TCP is open."""

    read: tuple[str, ...]
    write: tuple[str, ...]
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
    return SandboxPolicy(tuple(reads), (*writes, str(temporary), *DEVICES), network)


def _interpreters() -> list[Path]:
    """This Python, the one its environment was made from, and their packages."""
    found = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.exec_prefix), Path(sys.executable).resolve().parent.parent]
    found += [Path(path) for path in (*site.getsitepackages(), site.getusersitepackages())]
    found += [Path(path) for path in sys.path if path]
    return [path for path in found if path.exists()]


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
