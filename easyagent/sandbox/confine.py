"""All of the sandbox in one call, in the one right order. Standard library only: the runner loads it by path."""

from __future__ import annotations

if __package__:
    from easyagent.sandbox import landlock, privileges, seccomp
else:  # run by path, beside these files
    import landlock  # type: ignore[no-redef,import-not-found]
    import privileges  # type: ignore[no-redef,import-not-found]
    import seccomp  # type: ignore[no-redef,import-not-found]

LEAST_LANDLOCK = 3
"""The first that holds truncation of files."""


def confine(read: list[str], write: list[str], listing: list[str], *, network: bool) -> str:
    """Confine this process for good; returns why it could not, or "". Call it before any thread exists."""
    if landlock.version() < LEAST_LANDLOCK:
        return f"Landlock {landlock.version()} does not hold truncation; {LEAST_LANDLOCK} is needed"
    try:
        privileges.drop()
        landlock.restrict(read, write, listing, network=network)
    except OSError as error:
        return f"the kernel refused the sandbox: {error}"
    return "" if seccomp.install(network=network) else "seccomp is not available"
