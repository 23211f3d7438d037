"""Confines itself, then tries what must fail and what must work. Standard library only, run by path."""

import json
import os
import pathlib
import socket
import sys
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def attempt(action: Callable[[], object]) -> bool:
    """True where the action went through."""
    try:
        action()
    except OSError:
        return False
    return True


def connect_tcp(port: int) -> None:
    with socket.socket() as client:
        client.settimeout(2)
        client.connect(("127.0.0.1", port))


def connect_unix(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(address)


def close_pair() -> None:
    for end in socket.socketpair():
        end.close()


def main(request: dict[str, Any]) -> dict[str, Any]:
    """What went through, by the names of probe.MUST_FAIL and probe.MUST_WORK."""
    import confine  # type: ignore[import-not-found]
    import landlock  # type: ignore[import-not-found]

    fault = confine.confine(
        request["read"], request["write"], [], network=False, most_landlock=request["most_landlock"]
    )
    if fault:
        return {"error": fault}
    inside, parent, readable = pathlib.Path(request["inside"], "file"), os.getppid(), request["readable"]
    return {
        "landlock": min(landlock.version(), request["most_landlock"] or landlock.version()),
        "write inside": attempt(lambda: inside.write_text("x")),
        "overwrite inside": attempt(lambda: inside.write_text("xyz")),
        "read inside": attempt(lambda: inside.read_text()),
        "socket pair": attempt(close_pair),
        "read outside": attempt(lambda: pathlib.Path(request["canary"]).read_text()),
        "write outside": attempt(lambda: pathlib.Path(request["canary"]).write_text("x")),
        "truncate what is read only": attempt(lambda: os.truncate(readable, 0)),
        "empty what is read only": attempt(lambda: os.close(os.open(readable, os.O_RDONLY | os.O_TRUNC))),
        "tcp": attempt(lambda: connect_tcp(request["port"])),
        "unix socket": attempt(lambda: connect_unix(request["socket"])),
        "environment of the parent": attempt(lambda: pathlib.Path(f"/proc/{parent}/environ").read_bytes()),
        "signal the parent": attempt(lambda: os.kill(parent, 0)),
    }


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
