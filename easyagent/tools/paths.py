"""Paths: what an agent may read and write, decided on real paths below the workspace."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from easyagent.exceptions import ToolError

PROTECTED_NAMES = frozenset(
    {
        ".git",
        ".subagent",
        ".subagents",
        ".ipynb_checkpoints",
        ".claude",
        ".opencode",
        ".mcp.json",
        "subagents",
        "agents.md",
    }
)
"""Names (in lower case) that no agent writes at any depth: they configure agents or hold their records."""

SKIPPED_DIRECTORIES = frozenset(
    {".git", ".subagent", ".subagents", ".ipynb_checkpoints", "node_modules", "__pycache__", ".venv"}
)
"""Left out of listings and searches."""

MAX_PATH_CHARACTERS = 400
MAX_NAME_BYTES = 255


def is_protected(relative: PurePosixPath) -> bool:
    """True for paths that no agent writes: protected names and notebooks."""
    return any(part.lower() in PROTECTED_NAMES for part in relative.parts) or relative.suffix.lower() == ".ipynb"


def has_invisible(text: str) -> bool:
    """True where text holds control, bidi, surrogate or other invisible characters."""
    return any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text)


def printable(name: str) -> str:
    """A name on one line: one that holds control or other invisible characters is written as a JSON string."""
    return json.dumps(name) if has_invisible(name) else name


def relative_to(workspace: Path, path: Path) -> str:
    """A path inside the workspace in relative POSIX form; one outside stays absolute."""
    return (path.relative_to(workspace).as_posix() or ".") if path.is_relative_to(workspace) else path.as_posix()


def check_hidden(workspace: Path, path: Path, text: str) -> None:
    """Raises ToolError for hidden files of the home directory."""
    if _hidden_in_home(workspace, path):
        raise ToolError(f"{text} is a hidden file of the home directory, which agents may not read or write.")


def resolve_writable(workspace: Path, text: str, granted: Iterable[Path] = ()) -> Path:
    """The real path of something to write. Raises ToolError outside the workspace, unless it lies in what is granted,
    and for protected names."""
    path = resolve(workspace, text)
    if path == workspace:
        raise ToolError("the path names the workspace itself; name a file in it.")
    if not path.is_relative_to(workspace) and not within(path, granted):
        raise ToolError(f"{text} lies outside the workspace; only paths inside {workspace} can be used.")
    if is_protected(PurePosixPath(relative_to(workspace, path))):
        raise ToolError(f"{text} is protected and never written by agents; choose another name.")
    check_hidden(workspace, path, text)
    return path


def _hidden_in_home(workspace: Path, path: Path) -> bool:
    """True for hidden files of the home directory, where the workspace is that directory or holds it."""
    home = Path.home().resolve()
    return (
        home.is_relative_to(workspace)
        and path != home
        and path.is_relative_to(home)
        and path.relative_to(home).parts[0].startswith(".")
    )


def resolve(workspace: Path, text: str) -> Path:
    """The real path that a model names. Raises ToolError where it names none."""
    if not text.strip() or "\0" in text:
        raise ToolError("the path is empty or holds a NUL character; give a path relative to the workspace.")
    try:
        path = (workspace / Path(text).expanduser()).resolve()
    except (OSError, RuntimeError) as error:
        raise ToolError(f"{text} cannot be resolved: {error}.") from error
    return path


def within(path: Path, roots: Iterable[Path]) -> bool:
    """True where a real path is one of the roots or lies below one."""
    return any(path == root or path.is_relative_to(root) for root in roots)


def make_roots(roots: Iterable[Path]) -> None:
    """Make what may be written where it is not there yet: the sandbox's rules hold on to what is. A name with a suffix
    is a file's. Raises OSError."""
    for root in roots:
        if not root.exists():
            root.parent.mkdir(parents=True, exist_ok=True)
            root.touch() if root.suffix else root.mkdir()


def overlap(left: Path, right: Path) -> bool:
    """True where two real paths are equal or one contains the other."""
    return left.is_relative_to(right) or right.is_relative_to(left)


def check_own_path(workspace: Path, text: str, *, what: str, directory: bool) -> Path:
    """The real path of a deliverables directory or write path a sub-agent asks for.

    Raises ValueError with one sentence: it must be relative, inside the workspace and not itself, without
    `..`, hidden characters, protected names, a symlink out, or a file where a directory is needed.
    """
    path = _checked_syntax(workspace, text, what)
    if not path.is_relative_to(workspace):
        raise ValueError(f"{what} {text!r} leads outside the workspace through a symbolic link")
    if path == workspace:
        raise ValueError(f"{what} {text!r} is the workspace itself; name a directory inside it")
    if is_protected(PurePosixPath(relative_to(workspace, path))):
        raise ValueError(f"{what} {text!r} holds a protected name")
    if _hidden_in_home(workspace, path):
        raise ValueError(f"{what} {text!r} is a hidden file of the home directory")
    parents = [path, *path.parents] if directory else list(path.parents)
    for parent in parents:
        if parent != workspace and parent.is_relative_to(workspace) and parent.exists() and not parent.is_dir():
            raise ValueError(f"{what} {text!r} runs through {relative_to(workspace, parent)!r}, which is a file")
    return path


def _checked_syntax(workspace: Path, text: str, what: str) -> Path:
    if not text.strip():
        raise ValueError(f"{what} is empty; name a relative path inside the workspace")
    if len(text) > MAX_PATH_CHARACTERS or has_invisible(text):
        raise ValueError(f"{what} {text[:60]!r} is too long or holds invisible characters")
    if text.startswith(("/", "~", "\\")) or Path(text).is_absolute():
        raise ValueError(f"{what} {text!r} is not relative; name a path inside the workspace")
    parts = PurePosixPath(text.replace("\\", "/")).parts
    if ".." in parts:
        raise ValueError(f"{what} {text!r} contains '..'; name a path inside the workspace")
    if any(len(part.encode("utf-8")) > MAX_NAME_BYTES for part in parts):
        raise ValueError(f"{what} {text[:60]!r} holds a name that is longer than {MAX_NAME_BYTES} bytes")
    if any(part.lower() in PROTECTED_NAMES for part in parts):
        raise ValueError(f"{what} {text!r} holds a protected name")
    try:
        return (workspace / text).resolve()
    except (OSError, RuntimeError) as error:
        raise ValueError(f"{what} {text!r} cannot be used: {error}") from error
