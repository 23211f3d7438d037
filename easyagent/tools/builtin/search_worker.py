"""Searches text files: one JSON request on stdin, one JSON answer on stdout. Standard library only, run by path."""

import fnmatch
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any

MAX_BYTES = 4 * 1024 * 1024
LINE_CHARACTERS = 300


def files_below(root: str, skip: set[str], private: list[str], closed: Callable[[OSError], object]) -> Iterator[str]:
    """Every file below a directory in sorted order, or the file itself; symbolic links are not followed.

    `private` paths are passed over; `closed` gets the fault of each directory that cannot be read.
    """
    if os.path.isfile(root):
        yield root
        return
    for directory, names, files in os.walk(root, onerror=closed):
        names[:] = sorted(name for name in names if name not in skip and os.path.join(directory, name) not in private)
        for name in sorted(files):
            path = os.path.join(directory, name)
            if path not in private:
                yield path


def text_of(path: str) -> str | None:
    """The text of a regular file, or None for binary, special, linked and unreadable ones."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        data = file.read(MAX_BYTES)
    return None if b"\0" in data[:8192] else data.decode("utf-8", "replace")


def search(request: dict[str, Any]) -> dict[str, Any]:
    """All matching lines as `path:line: text`, up to the limit."""
    flags = re.IGNORECASE if request["ignore_case"] else 0
    query = request["query"] if request["regex"] else re.escape(request["query"])
    try:
        pattern = re.compile(query, flags)
    except re.error as error:
        return {
            "error": f"the regular expression is not valid ({error}); leave out regex=true to search for plain text."
        }
    matches: list[str] = []
    searched = 0
    closed: list[OSError] = []
    for path in files_below(request["root"], set(request["skip"]), request["private"], closed.append):
        if request["glob"] and not fnmatch.fnmatch(os.path.basename(path), request["glob"]):
            continue
        text = text_of(path)
        if text is None:
            continue
        searched += 1
        shown = os.path.relpath(path, request["workspace"]).replace(os.sep, "/")
        shown = shown if shown.isprintable() else json.dumps(shown)  # a name must not look like a line of its own
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                if len(matches) == request["max_matches"]:
                    return {"matches": matches, "files": searched, "more": True, "closed": len(closed)}
                matches.append(f"{shown}:{number}: {line.strip()[:LINE_CHARACTERS]}")
    return {"matches": matches, "files": searched, "more": False, "closed": len(closed)}


if __name__ == "__main__":
    print(json.dumps(search(json.load(sys.stdin))))
