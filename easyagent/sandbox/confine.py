"""All of the sandbox in one call, in the one right order. Standard library only, loaded by path."""

import landlock
import privileges
import seccomp


def confine(read: list[str], write: list[str], *, network: bool) -> str:
    """Confine this process for good; returns why it could not, or "". Call it before any thread exists."""
    try:
        privileges.drop()
        abi = landlock.restrict(read, write, network=network)
    except OSError as error:
        return f"the kernel refused the sandbox: {error}"
    if abi < 3:
        return f"Landlock {abi} does not hold truncation; 3 is needed"
    if not seccomp.install(network=network):
        return "seccomp is not available"
    return ""
