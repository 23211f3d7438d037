"""run_command: a shell command, through a runner that leaves nothing of it behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from easyagent import sandbox
from easyagent.environment import command_environment
from easyagent.exceptions import ToolError
from easyagent.tools.base import ToolContext, ToolResult, builtin
from easyagent.tools.consent import permit, permit_network
from easyagent.tools.paths import make_roots

HEAD_BYTES = TAIL_BYTES = 20_000
OUTPUT_LIMIT_BYTES = 50_000_000
DRAIN_SECONDS = 0.2
_pumps: dict[asyncio.subprocess.Process, asyncio.Task[None]] = {}
"""The reader of each runner's output, as long as the pipe is open."""
_RUNNER = Path(sandbox.__file__).with_name("runner.py")


@dataclass(slots=True)
class _Output:
    """The head and the tail of a command's output, whatever its length."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    total: int = 0
    closed: bool = False
    """Set once the answer is given: what background processes write later is read, lest they wait, and dropped."""

    def add(self, data: bytes) -> None:
        if self.closed:
            return
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
    network: Annotated[bool, Field(description="Needs the network; the user may have to allow it.")] = False,
) -> ToolResult:
    await permit(ctx, "run_command", {"command": command})
    if network and ctx.grants.confined:
        await permit_network(ctx, command)
    ctx.stats.commands += 1
    return await _run(command, ctx, timeout_seconds, network=network or ctx.access.network)


async def end_commands(runners: set[asyncio.subprocess.Process]) -> None:
    """Kill what commands have left in the background; returns when it is dead."""
    await asyncio.gather(*(_end(runner) for runner in runners))
    if pumps := [_pumps[runner] for runner in runners if runner in _pumps]:
        await asyncio.wait(pumps, timeout=DRAIN_SECONDS)
    runners.clear()


async def _run(command: str, ctx: ToolContext, timeout_seconds: float, *, network: bool) -> ToolResult:
    runners, temporary = ctx.runners, _temporary(ctx)
    policy = json.dumps(_policy(ctx, temporary, network).json_ready() if ctx.grants.confined else None)
    status_read, status_write = os.pipe()
    try:
        runner = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", str(_RUNNER), str(status_write), str(os.getpid()), policy, command,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            cwd=ctx.workspace, env=command_environment(temporary), pass_fds=(status_write,), process_group=0,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        os.close(status_read)
        raise ToolError(f"the command cannot be started: {error}.") from error
    finally:
        os.close(status_write)
    runners.add(runner)
    output = _Output()
    pump = asyncio.create_task(_pump(runner, output))
    _pumps[runner] = pump
    pump.add_done_callback(lambda _: _pumps.pop(runner, None))
    try:
        async with asyncio.timeout(timeout_seconds):
            status = await _status(status_read)
    except TimeoutError:
        await _end(runner)
        raise ToolError(f"the command was killed after {timeout_seconds} seconds.\n{output.text()}") from None
    except asyncio.CancelledError:
        await _end(runner)
        raise
    finally:
        await asyncio.wait({pump}, timeout=DRAIN_SECONDS)
        output.closed = True
        runners -= {known for known in runners if known.returncode is not None and known not in _pumps}
    return _result(status, output)


def _policy(ctx: ToolContext, temporary: Path, network: bool) -> sandbox.SandboxPolicy:
    make_roots(ctx.roots)
    return sandbox.command_policy(
        workspace=ctx.workspace,
        roots=ctx.roots,
        temporary=temporary,
        private=ctx.private_paths,
        extra_reads=ctx.access.read,
        network=network,
    )


def _temporary(ctx: ToolContext) -> Path:
    """The agent's own TMPDIR and HOME, made at its first command."""
    (ctx.temporary / "home").mkdir(parents=True, exist_ok=True, mode=0o700)
    return ctx.temporary


async def _pump(runner: asyncio.subprocess.Process, output: _Output) -> None:
    """Read to the end, whatever comes: a pipe that is not read to its end is never closed."""
    assert runner.stdout is not None and runner.stdin is not None
    while data := await runner.stdout.read(65536):
        output.add(data)
        if output.total > OUTPUT_LIMIT_BYTES and not output.closed:
            output.closed = True
            runner.stdin.close()  # without waiting: the runner has only ended once its output is read


async def _status(descriptor: int) -> dict[str, Any]:
    """The runner's one line, when the shell has ended; empty where the runner itself was killed."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb")
    )
    try:
        line = await reader.readline()
        status: dict[str, Any] = json.loads(line) if line else {}
        return status
    finally:
        transport.close()


async def _end(runner: asyncio.subprocess.Process) -> None:
    """Close the runner's stdin: it kills all below it and leaves."""
    assert runner.stdin is not None
    runner.stdin.close()
    await runner.wait()


def _result(status: dict[str, Any], output: _Output) -> ToolResult:
    text = output.text()
    if output.total > OUTPUT_LIMIT_BYTES:
        raise ToolError(f"the command was killed: it wrote more than {OUTPUT_LIMIT_BYTES:,} bytes.\n{text}")
    if not status:
        raise ToolError(f"the command's runner was killed.\n{text}")
    if "error" in status:
        raise ToolError(f"the command was not run: {status['error']}. Go on with the file tools.")
    code = status["exit_code"]
    how = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
    left = f"; {status['left']} background processes go on until this agent ends" if status["left"] else ""
    return ToolResult(f"[{how}{left}]\n{text or '(no output)'}", ok=code == 0)
