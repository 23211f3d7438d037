"""read_file, write_file, edit_file, list_files."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from pydantic import Field

from easyagent.exceptions import ToolError
from easyagent.tools.base import ToolContext, ToolResult, builtin
from easyagent.tools.consent import permit, readable
from easyagent.tools.paths import (
    SKIPPED_DIRECTORIES,
    printable,
    relative_to,
    resolve_writable,
    within,
)
from easyagent.tools.text import LINE_CHARACTERS, RESULT_CHARACTERS, difference, read_text

MAX_ENTRIES = 1000

PathArgument = Annotated[str, Field(description="Path relative to the workspace.")]


@builtin("read_file")
async def read_file(
    path: PathArgument,
    ctx: ToolContext,
    offset: Annotated[int, Field(ge=1, description="First line to read, counting from 1.")] = 1,
    limit: Annotated[int, Field(ge=1, le=100_000, description="How many lines to read.")] = 2000,
) -> ToolResult:
    real = await readable(ctx, "read_file", path)
    shown = relative_to(ctx.workspace, real)
    file = await asyncio.to_thread(read_text, real, shown)
    lines = file.text.split("\n")
    if lines[-1] == "":
        lines.pop()
    ctx.stats.files.add(shown)
    ctx.read_marks[shown] = file.sha256
    if not lines:
        return ToolResult(f"[{printable(shown)}: empty file]")
    if offset > len(lines):
        raise ToolError(f"{shown} has {len(lines)} lines; offset {offset} is beyond its end.")
    taken = _within_budget(lines[offset - 1 : offset - 1 + limit])
    last = offset + len(taken) - 1
    header = f"[{printable(shown)}: lines {offset}-{last} of {len(lines)}, {file.size_bytes} bytes]"
    parts = [header, *taken]
    if last < len(lines):
        name = json.dumps(shown, ensure_ascii=False)
        parts.append(f"[{len(lines) - last} more lines: read_file(path={name}, offset={last + 1})]")
    if file.cut:
        parts.append("[The file is longer than 32 MB; only its head can be read.]")
    return ToolResult("\n".join(parts))


def _within_budget(lines: list[str]) -> list[str]:
    taken: list[str] = []
    used = 0
    for line in lines:
        if len(line) > LINE_CHARACTERS:
            line = f"{line[:LINE_CHARACTERS]} [line cut: {len(line) - LINE_CHARACTERS:,} more characters]"
        used += len(line) + 1
        if taken and used > RESULT_CHARACTERS:
            break
        taken.append(line)
    return taken


@builtin("write_file")
async def write_file(
    path: PathArgument, content: Annotated[str, Field(description="The whole new content.")], ctx: ToolContext
) -> ToolResult:
    real, shown = _writable(ctx, path)
    data = content.encode("utf-8", "replace")
    await _permit(ctx, "write_file", real, shown, lambda: _change_to(real, shown, content))
    _replace(real, shown, data)
    ctx.stats.written[shown] = None
    ctx.read_marks[shown] = hashlib.sha256(data).hexdigest()
    return ToolResult(f"Wrote {shown} ({len(data)} bytes).")


@builtin("edit_file")
async def edit_file(
    path: PathArgument,
    old_text: Annotated[str, Field(min_length=1, description="Exact text to replace; it must occur exactly once.")],
    new_text: Annotated[str, Field(description="Text to put in its place.")],
    ctx: ToolContext,
    replace_all: Annotated[bool, Field(description="Replace every occurrence.")] = False,
) -> ToolResult:
    real, shown = _writable(ctx, path)
    file = read_text(real, shown)
    if file.cut:
        raise ToolError(f"{shown} is longer than 32 MB and cannot be edited.")
    if ctx.read_marks.get(shown, file.sha256) != file.sha256:
        raise ToolError(f"{shown} has changed since you read it; read it again before editing.")
    if hashlib.sha256(file.encode(file.text)).hexdigest() != file.sha256:
        raise ToolError(f"{shown} holds bytes that are no text in {file.encoding}; an edit would damage them.")
    old, new = old_text, new_text
    if file.newline == "\r\n":
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    count = file.text.count(old)
    if count == 0:
        raise ToolError(f"the text to replace was not found in {shown}; read the file and copy it exactly.")
    if count > 1 and not replace_all:
        raise ToolError(f"the text occurs {count} times in {shown}; add context to make it unique, or set replace_all.")
    edited = file.text.replace(old, new)
    try:
        data = file.encode(edited)
    except UnicodeEncodeError as error:
        raise ToolError(f"the new text cannot be written in the file's encoding {file.encoding}.") from error
    await _permit(ctx, "edit_file", real, shown, lambda: difference(file.text, edited))
    _replace(real, shown, data)
    ctx.stats.written[shown] = None
    ctx.read_marks[shown] = hashlib.sha256(data).hexdigest()
    return ToolResult(f"Replaced {count} occurrence{'s' if count > 1 else ''} in {shown}.")


def _writable(ctx: ToolContext, path: str) -> tuple[Path, str]:
    real = resolve_writable(ctx.workspace, path, ctx.access.write)
    shown = relative_to(ctx.workspace, real)
    if real.is_dir():
        raise ToolError(f"{shown} is a directory; name a file.")
    return real, shown


async def _permit(ctx: ToolContext, tool: str, real: Path, shown: str, change: Callable[[], str]) -> None:
    before = _state(real)
    await permit(ctx, tool, {"path": shown}, inside_roots=within(real, ctx.roots), detail=change)
    if _state(real) != before:
        raise ToolError(f"{shown} has changed while the user was asked; read it again before changing it.")


def _state(path: Path) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        information = path.stat()
        return information.st_ino, information.st_size, information.st_mtime_ns
    return None


def _change_to(real: Path, shown: str, content: str) -> str:
    """What writing `content` changes, for the one who is asked."""
    if not real.exists():
        return difference("", content)
    try:
        return difference(read_text(real, shown).text, content)
    except ToolError:  # what it replaces is no text
        return difference("", content)


def _replace(path: Path, shown: str, data: bytes) -> None:
    """Write beside the file and rename: a reader sees the old file or the new one, never half of it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write_beside(path, data)
        except PermissionError:  # the sandbox grants this one file, and nothing beside it
            descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0))
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
    except OSError as error:
        raise ToolError(f"{shown} cannot be written: {error.strerror}.") from error


def _write_beside(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".write-{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@builtin("list_files")
async def list_files(
    ctx: ToolContext,
    path: Annotated[str, Field(description="Directory relative to the workspace.")] = ".",
    pattern: Annotated[
        str | None, Field(description='Glob such as "**/*.csv"; lists matching files below path.')
    ] = None,
) -> ToolResult:
    real = await readable(ctx, "list_files", path)
    shown = relative_to(ctx.workspace, real)
    if not real.is_dir():
        raise ToolError(
            f"{shown} is not a directory; read it with read_file." if real.exists() else f"{shown} does not exist."
        )
    if pattern:
        entries = await asyncio.to_thread(walk_glob, ctx.workspace, real, pattern)
    else:
        entries = await asyncio.to_thread(_children, ctx.workspace, real)
    lines = [f"[{printable(shown)}: {len(entries)} entries]", *entries[:MAX_ENTRIES]]
    if len(entries) > MAX_ENTRIES:
        lines.append(f"[{len(entries) - MAX_ENTRIES} more entries: narrow the path or the pattern]")
    return ToolResult("\n".join(lines))


def _children(workspace: Path, directory: Path) -> list[str]:
    children = [child for child in directory.iterdir() if child.name not in SKIPPED_DIRECTORIES]
    return [_entry(workspace, child) for child in sorted(children)]


def walk_glob(workspace: Path, directory: Path, pattern: str) -> list[str]:
    """Entries of the regular files below a directory that match a glob, sorted. Raises ToolError for a bad glob."""
    if pattern.startswith("/") or ".." in Path(pattern).parts:
        raise ToolError(f"the pattern {pattern!r} must be relative to the directory, without '..'.")
    try:
        found = [
            match
            for match in directory.glob(pattern)
            if match.is_file()
            and not SKIPPED_DIRECTORIES & set(match.relative_to(directory).parts)
            and within(match.resolve(), (workspace, directory))
        ]
    except (ValueError, OSError) as error:
        raise ToolError(f"the pattern {pattern!r} cannot be used: {error}.") from error
    return [_entry(workspace, match) for match in sorted(set(found))]


def _entry(workspace: Path, path: Path) -> str:
    name = printable(relative_to(workspace, path))
    if path.is_dir():
        return f"{name}/"
    try:
        return f"{name}\t{path.stat().st_size} bytes"
    except OSError:
        return f"{name}\t(broken link)"
