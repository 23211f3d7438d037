"""Limits of a command's processes, so that a mistake of a model cannot take the machine down. Standard library only.

There is none on address space: CUDA, JVMs and others reserve far more than they use.
"""

from __future__ import annotations

import os
import resource

MORE_PROCESSES = 512
"""Beside those the user already has: RLIMIT_NPROC counts all of them. Root is not held by it."""
OPEN_FILES = 4096
FILE_BYTES = 20 * 1024**3
OUT_OF_MEMORY_SCORE = 500
"""Of 1,000: when memory runs out, the kernel ends a command before the user's notebook."""


def apply() -> None:
    """Limit this process and all it starts. What the system does not offer is left as it is."""
    _lower(resource.RLIMIT_NPROC, _own_threads() + MORE_PROCESSES)
    _lower(resource.RLIMIT_NOFILE, OPEN_FILES)
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    _lower(resource.RLIMIT_CORE, 0)
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(OUT_OF_MEMORY_SCORE))
    except OSError:
        pass


def _lower(which: int, most: int) -> None:
    soft, hard = resource.getrlimit(which)
    for limit in (soft, hard):
        if limit != resource.RLIM_INFINITY:
            most = min(most, limit)
    try:
        resource.setrlimit(which, (most, most))
    except (OSError, ValueError):
        pass


def _own_threads() -> int:
    """How many threads run as this user: what RLIMIT_NPROC is compared with."""
    count, user = 0, os.getuid()
    try:
        names = os.listdir("/proc")
    except OSError:
        return 0
    for name in names:
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
            except OSError:
                continue
    return count
