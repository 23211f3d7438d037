"""All of the sandbox in one call, in the one right order. Standard library only: the runner loads it by path."""

from __future__ import annotations

if __package__:
    from easyagent.sandbox import landlock, privileges, seccomp
else:  # run by path, beside these files
    import landlock  # type: ignore[no-redef,import-not-found]
    import privileges  # type: ignore[no-redef,import-not-found]
    import seccomp  # type: ignore[no-redef,import-not-found]

HOLDS_TRUNCATION = 3
"""The first Landlock that holds truncation of files; before it, seccomp does."""


def confine(
    read: list[str], write: list[str], listing: list[str], *, network: bool, most_landlock: int | None = None
) -> str:
    """Confine this process for good; returns why it could not, or "". Call it before any thread exists."""
    try:
        privileges.drop()
        abi = landlock.restrict(read, write, listing, network=network, most=most_landlock)
    except OSError as error:
        return f"the kernel refused the sandbox: {error}"
    if not abi:
        return "Landlock is not there or is switched off (Linux 5.13 has it)"
    filtered = seccomp.install(network=network, truncation=abi >= HOLDS_TRUNCATION)
    return "" if filtered else "seccomp is not available"
