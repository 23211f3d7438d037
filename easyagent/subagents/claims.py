"""Claims: which directories and files running sub-agents write, across all kernels that work in one workspace.

A claim is a file of `.subagents/claims/` that its holder keeps locked; the lock goes with the process that holds it,
however that ends. POSIX record locks are used, because a child that the kernel forks does not inherit them: a lock of
flock, as the filelock package takes it, would live on in such a child.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from easyagent.directory import Directory
from easyagent.subagents.store import RunStore
from easyagent.tools.paths import overlap

try:
    import fcntl
except ImportError:  # Windows: no claims across kernels there
    fcntl = None  # type: ignore[assignment]

MAX_CLAIM_BYTES = 100_000
GATE_SECONDS = 2.0


class Claim(BaseModel):
    """Who writes what."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    agent_id: int
    summary: str
    notebook: str
    paths: tuple[str, ...]
    """Absolute real paths."""
    host: str = Field(default_factory=socket.gethostname)
    pid: int = Field(default_factory=os.getpid)

    @property
    def holder(self) -> str:
        """Who it is, in words."""
        where = f"notebook {self.notebook}, " if self.notebook else ""
        whose = f"another conversation ({where}process {self.pid} on {self.host})"
        return f"sub-agent {self.agent_id} ({self.summary}) of {whose}"


class Conflict(Exception):
    """Another kernel's sub-agent writes there."""

    def __init__(self, claim: Claim, path: Path, held: Path) -> None:
        super().__init__(f"{path} overlaps {held}")
        self.claim, self.path, self.held = claim, path, held


class Claims:
    """The claims of this process in one workspace. Methods raise OSError where the store cannot be used."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._held: dict[str, tuple[int, Claim]] = {}
        """Descriptor and claim by file name. A process loses its lock on a file when it closes any descriptor of it, so
        a file that is held here is opened only once."""

    def take(self, claim: Claim) -> None:
        """Claim the paths of a run. Raises Conflict that names the holder, and then nothing is claimed."""
        for _, other in self._held.values():
            _check(claim, other)
        if fcntl is None:
            return
        with self._store.open("claims", create=True) as directory, _gate(directory):
            for name in directory.names():
                if not name.startswith(".") and name not in self._held and (found := self._read(directory, name)):
                    _check(claim, found)
            name = f"{claim.run_id}.json"
            descriptor = directory.open_file(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, claim.model_dump_json().encode())
            self._held[name] = descriptor, claim

    def release(self, run_id: str) -> None:
        """Give a run's claim back; without effect where it has none."""
        name = f"{run_id}.json"
        if name in self._held:
            descriptor, _ = self._held.pop(name)
            with contextlib.suppress(OSError), self._store.open("claims") as directory:
                directory.remove(name)
            os.close(descriptor)

    def _read(self, directory: Directory, name: str) -> Claim | None:
        """A claim that somebody holds; one that nobody holds any more is removed."""
        try:
            descriptor = directory.open_file(name, os.O_RDWR)
        except OSError:
            return None
        try:
            if _is_free(descriptor):
                directory.remove(name)
                return None
            return Claim.model_validate_json(os.read(descriptor, MAX_CLAIM_BYTES))
        except (OSError, ValidationError):
            return None
        finally:
            os.close(descriptor)


@cache
def claims_of(store: RunStore) -> Claims:
    """The claims of this process in a workspace: one object, whatever conversations it has."""
    return Claims(store)


@contextlib.contextmanager
def _gate(directory: Directory) -> Iterator[None]:
    """One kernel at a time looks and claims, for moments. Raises OSError where another does not leave."""
    descriptor = directory.open_file(".gate", os.O_RDWR | os.O_CREAT)
    end = time.monotonic() + GATE_SECONDS
    try:
        while not _is_free(descriptor):
            if time.monotonic() > end:
                raise TimeoutError("another kernel does not leave .subagents/claims/.gate")
            time.sleep(0.005)
        yield
    finally:
        os.close(descriptor)


def _is_free(descriptor: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _check(claim: Claim, other: Claim) -> None:
    for path in map(Path, claim.paths):
        for held in map(Path, other.paths):
            if overlap(path, held):
                raise Conflict(other, path, held)
