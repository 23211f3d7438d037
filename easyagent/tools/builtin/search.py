"""search_files (by name) and search_code (in contents)."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from easyagent.exceptions import ToolError
from easyagent.tools.base import ToolContext, ToolResult, builtin
from easyagent.tools.builtin.files import walk_glob
from easyagent.tools.consent import readable
from easyagent.tools.paths import SKIPPED_DIRECTORIES, relative_to
from easyagent.tools.text import RESULT_CHARACTERS, cut_middle

SEARCH_SECONDS = 30.0
MAX_MATCHES = 200
_WORKER = Path(__file__).with_name("search_worker.py")

SearchPath = Annotated[str, Field(description="Directory or file to search, relative to the workspace.")]


@builtin("search_files")
async def search_files(
    pattern: Annotated[str, Field(min_length=1, description='Glob on file names, such as "*.py" or "data/**/*.csv".')],
    ctx: ToolContext,
    path: SearchPath = ".",
) -> ToolResult:
    real = await readable(ctx, "search_files", path)
    shown = relative_to(ctx.workspace, real)
    if not real.is_dir():
        raise ToolError(f"{shown} is not a directory.")
    below = pattern if "/" in pattern else f"**/{pattern}"
    found = await asyncio.to_thread(walk_glob, ctx.workspace, real, below)
    ctx.stats.searches += 1
    more = [f"[{len(found) - MAX_MATCHES} more files: narrow the pattern]"] if len(found) > MAX_MATCHES else []
    return ToolResult("\n".join([f"[{len(found)} files match {pattern} in {shown}]", *found[:MAX_MATCHES], *more]))


@builtin("search_code")
async def search_code(
    query: Annotated[str, Field(min_length=1, description="Text to find, or a regular expression with regex=true.")],
    ctx: ToolContext,
    path: SearchPath = ".",
    regex: Annotated[bool, Field(description="Take the query as a Python regular expression.")] = False,
    glob: Annotated[str | None, Field(description='Only files whose name matches, such as "*.py".')] = None,
    ignore_case: Annotated[bool, Field(description="Ignore upper and lower case.")] = False,
) -> ToolResult:
    real = await readable(ctx, "search_code", path)
    shown = relative_to(ctx.workspace, real)
    if not real.exists():
        raise ToolError(f"{shown} does not exist; look with list_files.")
    request = {
        "root": str(real),
        "workspace": str(ctx.workspace if real.is_relative_to(ctx.workspace) else real),
        "query": query,
        "regex": regex,
        "glob": glob,
        "ignore_case": ignore_case,
        "skip": sorted(SKIPPED_DIRECTORIES),
        "private": [str(path) for path in ctx.private_paths],
        "max_matches": MAX_MATCHES,
    }
    answer = await _search(request)
    if "error" in answer:
        raise ToolError(answer["error"])
    ctx.stats.searches += 1
    lines = [f"[{len(answer['matches'])} matches for {query!r} in {shown}, {answer['files']} files searched]"]
    lines += answer["matches"]
    if answer["closed"]:
        lines.append(f"[{answer['closed']} directories cannot be read and were not searched]")
    if answer["more"]:
        lines.append("[There are more matches: narrow the path, the glob or the query]")
    return ToolResult(cut_middle("\n".join(lines), RESULT_CHARACTERS))


async def _search(request: dict[str, Any]) -> dict[str, Any]:
    """Search in a process of its own: a regular expression can run for ever and holds the interpreter's lock."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(_WORKER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SEARCH_SECONDS):
            output, _ = await process.communicate(json.dumps(request).encode())
    except TimeoutError:
        raise ToolError(f"the search took more than {SEARCH_SECONDS:.0f} seconds; narrow it or simplify it.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    answer: dict[str, Any] = json.loads(output)
    return answer
