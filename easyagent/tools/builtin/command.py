"""run_command: a shell command, through a guard that leaves nothing of it behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field

from easyagent.environment import command_environment
from easyagent.exceptions import ToolError
from easyagent.permissions import decide, refusal
from easyagent.tools.base import ToolContext, ToolResult, builtin

HEAD_BYTES = TAIL_BYTES = 20_000
OUTPUT_LIMIT_BYTES = 50_000_000
DRAIN_SECONDS = 0.2
_GUARD = Path(__file__).with_name("command_guard.py")


@dataclass(slots=True)
class _Output:
    """The head and the tail of a command's output, whatever its length."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = HEAD_BYTES - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        del self.tail[:-TAIL_BYTES]

    def text(self) -> str:
        left_out = self.total - len(self.head) - len(self.tail)
        middle = f"\n[... {left_out:,} bytes left out ...]\n".encode() if left_out else b""
        return bytes(self.head + middle + self.tail).decode("utf-8", "backslashreplace")


@builtin("run_command")
async def run_command(
    command: Annotated[str, Field(min_length=1, description="Shell command; its directory is the workspace.")],
    ctx: ToolContext,
    timeout_seconds: Annotated[int, Field(ge=1, le=3600, description="Kill the command after this time.")] = 120,
) -> ToolResult:
    decision = decide(ctx.grants, "run_command", {"command": command})
    if decision.effect != "allow":
        raise ToolError(refusal(decision, "run_command"))
    ctx.stats.commands += 1
    return await _run(command, ctx.workspace, timeout_seconds, ctx.guards)


async def end_commands(guards: set[asyncio.subprocess.Process]) -> None:
    """Kill what commands have left in the background; returns when it is dead."""
    await asyncio.gather(*(_end(guard) for guard in guards))
    guards.clear()


async def _run(
    command: str, directory: Path, timeout_seconds: float, guards: set[asyncio.subprocess.Process]
) -> ToolResult:
    status_read, status_write = os.pipe()
    try:
        guard = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(_GUARD), str(status_write), str(os.getpid()), command,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            cwd=directory, env=command_environment(), pass_fds=(status_write,), process_group=0,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        os.close(status_read)
        raise ToolError(f"the command cannot be started: {error}.") from error
    finally:
        os.close(status_write)
    guards.add(guard)
    output = _Output()
    pump = asyncio.create_task(_pump(guard, output))
    try:
        async with asyncio.timeout(timeout_seconds):
            status = await _status(status_read)
    except TimeoutError:
        await _end(guard)
        raise ToolError(f"the command was killed after {timeout_seconds} seconds.\n{output.text()}") from None
    except asyncio.CancelledError:
        await _end(guard)
        raise
    finally:
        await asyncio.wait({pump}, timeout=DRAIN_SECONDS)
        pump.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pump
        guards -= {known for known in guards if known.returncode is not None}
    return _result(status, output)


async def _pump(guard: asyncio.subprocess.Process, output: _Output) -> None:
    assert guard.stdout is not None
    while data := await guard.stdout.read(65536):
        output.add(data)
        if output.total > OUTPUT_LIMIT_BYTES:
            await _end(guard)
            return


async def _status(descriptor: int) -> dict[str, int]:
    """The guard's one line, when the shell has ended; empty where the guard itself was killed."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb")
    )
    try:
        line = await reader.readline()
        status: dict[str, int] = json.loads(line) if line else {}
        return status
    finally:
        transport.close()


async def _end(guard: asyncio.subprocess.Process) -> None:
    """Close the guard's stdin: it kills all below it and leaves."""
    assert guard.stdin is not None
    guard.stdin.close()
    await guard.wait()


def _result(status: dict[str, int], output: _Output) -> ToolResult:
    text = output.text()
    if output.total > OUTPUT_LIMIT_BYTES:
        raise ToolError(f"the command was killed: it wrote more than {OUTPUT_LIMIT_BYTES:,} bytes.\n{text}")
    if not status:
        raise ToolError(f"the command's guard was killed.\n{text}")
    code = status["exit_code"]
    how = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
    left = f"; {status['left']} background processes go on until this agent ends" if status["left"] else ""
    return ToolResult(f"[{how}{left}]\n{text or '(no output)'}", ok=code == 0)
