"""The `%%agent` line and the cell's text: parsed and checked, nothing run."""

from __future__ import annotations

import argparse
import ast
import contextlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NoReturn

from IPython.core.error import UsageError

from easyagent.chat import clean
from easyagent.config import PERMISSION_LEVELS
from easyagent.permissions import Access
from easyagent.tools.paths import check_own_path, is_protected, relative_to

_LABEL = re.compile(r"[\w][\w.-]{0,39}")
_BIND = re.compile(r"^\s*([^\W\d]\w*)\s*<<\s*(.*)$", re.DOTALL)


class _Parser(argparse.ArgumentParser):
    """Bad options are one sentence, not an exit."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"%%agent: {message}; see %agent help.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOptions:
    """What the `%%agent` line says. None means not said."""

    label: str = "main"
    agent: str | None = None
    background: bool = False
    out: str | None = None
    directory: str | None = None
    timeout_seconds: int | None = None
    new: bool = False
    access: Access = field(default_factory=Access)
    settings: Mapping[str, Any]
    """Settings of this cell, by the names of AgentConfig."""


def _whole_number(low: int, high: int) -> Any:
    def convert(text: str) -> int:
        if not re.fullmatch(r"\d+", text) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return convert


def _identifier(text: str) -> str:
    if not text.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not a variable name")
    return text


def _label(text: str) -> str:
    if not _LABEL.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a label: use up to 40 letters, digits, '_', '-' and '.'")
    return text


def _parser() -> _Parser:
    parser = _Parser(prog="%%agent", add_help=False, allow_abbrev=False)
    parser.add_argument("label", nargs="?", type=_label, default="main")
    parser.add_argument("-a", "--agent")
    parser.add_argument("-m", "--model")
    parser.add_argument("--base-url")
    parser.add_argument("-b", "--bg", action="store_true")
    parser.add_argument("-o", "--out", type=_identifier)
    parser.add_argument("--dir")
    parser.add_argument("--max-agents", type=_whole_number(1, 99))
    parser.add_argument("--timeout", type=_whole_number(60, 3600))
    parser.add_argument("--read", action="append", default=[])
    parser.add_argument("--write", action="append", default=[])
    parser.add_argument("--net", action="store_true")
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--permissions", choices=PERMISSION_LEVELS)
    return parser


def parse_line(line: str, workspace: Path) -> CellOptions:
    """Read the line of a `%%agent` cell. Raises UsageError with one sentence."""
    bound = _BIND.match(line)
    variable, rest = (bound[1], bound[2]) if bound else (None, line)
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"%%agent: the line cannot be read: {error}.") from None
    given = _parser().parse_args(words)
    return CellOptions(
        label=given.label,
        agent=given.agent,
        background=given.bg,
        out=given.out or variable,
        directory=_directory(given.dir, workspace),
        timeout_seconds=given.timeout,
        new=given.new,
        access=Access(
            read=tuple(_granted(path, workspace, "--read") for path in given.read),
            write=tuple(_writable(path, workspace) for path in given.write),
            network=given.net,
        ),
        settings={
            "model": given.model,
            "base_url": given.base_url,
            "max_concurrent": given.max_agents,
            "permissions": given.permissions,
        },
    )


def _directory(text: str | None, workspace: Path) -> str | None:
    if text is None:
        return None
    try:
        return relative_to(workspace, check_own_path(workspace, text, what="--dir", directory=True))
    except ValueError as error:
        raise UsageError(f"%%agent: {error}.") from None


def _granted(text: str, workspace: Path, option: str) -> Path:
    """A path that exists, relative to the workspace, absolute, or from the home directory."""
    path = _home_path(workspace, text, option)
    if not path.exists():
        raise UsageError(f"%%agent: {option} {text!r} does not exist.")
    return path


def _home_path(workspace: Path, text: str, option: str) -> Path:
    try:
        return (workspace / Path(text).expanduser()).resolve()
    except (RuntimeError, ValueError):
        raise UsageError(f"%%agent: {option} {text!r} names no path.") from None


def _writable(text: str, workspace: Path) -> Path:
    path = _home_path(workspace, text, "--write")
    if path == workspace or workspace.is_relative_to(path):
        raise UsageError(f"%%agent: --write {text!r} holds the whole workspace; name a directory or a file in it.")
    if not path.parent.is_dir():
        raise UsageError(f"%%agent: --write {text!r} lies in a directory that does not exist.")
    if is_protected(PurePosixPath(relative_to(workspace, path))):
        raise UsageError(f"%%agent: --write {text!r} is protected and never written by agents.")
    return path


_NAMED_PATH = re.compile(r"(?<![\w.~/])~?/[^\s'\"`,;:()<>|*?]+")


def named_paths(text: str) -> tuple[Path, ...]:
    """The existing absolute paths that a user's text names: what she names may be read. Never a root or a home as a
    whole."""
    found = []
    for match in _NAMED_PATH.findall(text):
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # what can be no path is text like any other
            path = Path(match.rstrip(".")).expanduser()
            if path.exists() and path.resolve() not in (Path("/"), Path.home()) and path.resolve().parent != Path("/"):
                found.append(path.resolve())
    return tuple(found)


def expand(text: str, namespace: dict[str, Any]) -> str:
    """Replace each `{{ expression }}` by its value; every other brace stays.

    Raises UsageError that names an expression which fails. What of a value is no text becomes "?".
    """
    parts, position = [], 0
    while (start := text.find("{{", position)) >= 0:
        found = _expression(text, start + 2)
        if found is None:
            parts.append(text[position : start + 2])
            position = start + 2
            continue
        source, end = found
        parts.append(text[position:start])
        try:
            parts.append(str(eval(compile(source, "<%%agent>", "eval"), namespace)))
        except Exception as error:
            shown = source if len(source) <= 200 else source[:199] + "…"
            raise UsageError(f"%%agent: {{{{{shown}}}}} failed: {type(error).__name__}: {error}") from None
        position = end
    return clean("".join([*parts, text[position:]]))


def _expression(text: str, start: int) -> tuple[str, int] | None:
    """The shortest Python expression that ends at a `}}` after `start`, and where the text goes on."""
    end = text.find("}}", start)
    while end >= 0:
        source = text[start:end].strip()
        try:
            ast.parse(source, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested too deep for Python
            end = text.find("}}", end + 1)
            continue
        return source, end + 2
    return None
