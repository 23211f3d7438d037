"""From a wish to the files it means: the list_files calls to make, and what they found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from easyagent.demo.tool_output import Listing, listing
from easyagent.demo.transcript import Exchange
from easyagent.demo.wish import Wish
from easyagent.demo.words import words_of
from easyagent.openai_server import ToolCallReply

CALLS_PER_REPLY = 8


@dataclass(frozen=True, slots=True)
class Targets:
    """The files a wish means, once all lists have been made."""

    files: tuple[str, ...]
    problems: tuple[tuple[str, str], ...] = ()
    """What could not be listed, and why."""
    missing: int = 0
    """Entries that were cut off the lists."""


def listing_calls(wish: Wish) -> tuple[ToolCallReply, ...]:
    """The list_files calls that the wish needs; none where all files are named."""
    patterns = [(".", glob) for glob in wish.globs]
    patterns += [(folder, f"**/*.{suffix}") for folder in wish.folders or (".",) for suffix in wish.suffixes]
    if wish.mentions:
        patterns.append((".", "**/*"))
    return tuple(ToolCallReply("list_files", {"path": path, "pattern": pattern}) for path, pattern in patterns)


def calls_to_make(wanted: Iterable[ToolCallReply], exchanges: Iterable[Exchange]) -> tuple[ToolCallReply, ...]:
    """Those of the wanted calls that were not made yet, as many as one reply should carry."""
    made = [(exchange.name, dict(exchange.arguments)) for exchange in exchanges]
    return tuple(call for call in wanted if (call.name, call.arguments) not in made)[:CALLS_PER_REPLY]


def targets(wish: Wish, text: str, exchanges: Iterable[Exchange]) -> Targets:
    """The files of the wish, once its list calls are answered. `text`: what the wish was read from."""
    made = {(e.arguments.get("path"), e.arguments.get("pattern")): e for e in exchanges if e.name == "list_files"}
    files, problems, missing = list(wish.files), [], 0
    for call in listing_calls(wish):
        assert not isinstance(call.arguments, str)
        path, pattern = call.arguments["path"], call.arguments["pattern"]
        found = listing(made[(path, pattern)]) if (path, pattern) in made else Listing(problem="no_result")
        if found.problem is not None:
            problems.append((pattern if path == "." else path, found.problem))
        named_only = wish.mentions and pattern == "**/*"
        files += _named_in(text, found.files) if named_only else found.files
        missing += found.missing
    return Targets(tuple(dict.fromkeys(files)), tuple(dict.fromkeys(problems)), missing)


def _named_in(text: str, files: Iterable[str]) -> list[str]:
    """The files whose name, with Han characters in it, stands in the text; of nested names the longest."""
    names = {file: file.rpartition("/")[2] for file in files}
    named = {file: name for file, name in names.items() if name in text and _has_han(file)}
    return [
        file
        for file, name in named.items()
        if not any(name != other and other.endswith(name) for other in named.values())
    ]


def _has_han(name: str) -> bool:
    return any(len(word) == 1 and "\u3400" <= word <= "\u9fff" for word in words_of(name))
