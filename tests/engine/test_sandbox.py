"""The OS sandbox by effect: what a confined command cannot do, and that without the sandbox each attempt succeeds."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from easyagent.permissions import Grants
from easyagent.sandbox import command_policy, enforcement, limits
from easyagent.tools.base import StatsCounter, ToolContext, ToolResult
from easyagent.tools.builtin.command import end_commands, run_command

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the sandbox is for Linux; what is promised elsewhere is less"
)

ATTEMPTS = """
import json, os, pathlib, socket, sys
home, agent = json.loads(sys.argv[1]), int(sys.argv[2])
done = {}
def attempt(name, action):
    try:
        action()
    except (OSError, ValueError):
        return
    done[name] = True
def tcp():
    with socket.create_connection(("127.0.0.1", home["tcp"]), 2) as client:
        client.sendall(b"hello")
def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"hello", ("127.0.0.1", home["udp"]))
def unix():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(home["unix"])
for name in ("connection file", "home file", "key file"):
    attempt("read " + name, lambda: pathlib.Path(home[name]).read_text())
for name in ("journal", "other agent", "workspace"):
    attempt("write " + name, lambda: pathlib.Path(home[name], "planted").write_text("x"))
attempt("environment of the agent", lambda: pathlib.Path(f"/proc/{agent}/environ").read_bytes())
attempt("memory of the agent", lambda: open(f"/proc/{agent}/mem", "rb").close())
attempt("signal the agent", lambda: os.kill(agent, 0))
attempt("tcp", tcp)
attempt("udp", udp)
attempt("unix socket", unix)
print(json.dumps(done))
"""
EVERY_ATTEMPT = {
    "read connection file", "read home file", "read key file", "write journal", "write other agent", "write workspace",
    "environment of the agent", "memory of the agent", "signal the agent", "tcp", "udp", "unix socket",
}  # fmt: skip


@dataclass
class House:
    """A workspace, and around it everything a command must not touch."""

    workspace: Path
    secrets: Path
    tcp: socket.socket
    udp: socket.socket
    unix: socket.socket
    unix_address: str

    def targets(self) -> dict[str, object]:
        return {
            "connection file": str(self.workspace / "runtime" / "kernel.json"),
            "home file": str(self.secrets / "notes.txt"),
            "key file": str(self.secrets / "config.toml"),
            "journal": str(self.workspace / ".subagents" / "runs" / "conv_1"),
            "other agent": str(self.workspace / "sub_agent_results" / "agent_2"),
            "workspace": str(self.workspace),
            "tcp": self.tcp.getsockname()[1],
            "udp": self.udp.getsockname()[1],
            "unix": self.unix_address,
        }

    def context(self, *, confined: bool, level: str = "auto") -> ToolContext:
        root = self.workspace / "sub_agent_results" / "agent_1"
        return ToolContext(
            workspace=self.workspace,
            language="en",
            grants=Grants(level, {}, owns_roots=True, confined=confined),
            roots=(root,),
            stats=StatsCounter(),
            temporary=self.secrets / "temporary",
            private_paths=(self.workspace / "runtime",),
        )


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    workspace, secrets = (tmp_path / "work").resolve(), (tmp_path / "home").resolve()
    for folder in ("runtime", ".subagents/runs/conv_1", "sub_agent_results/agent_1", "sub_agent_results/agent_2"):
        (workspace / folder).mkdir(parents=True)
    secrets.mkdir()
    (workspace / "runtime" / "kernel.json").write_text('{"key": "secret"}')
    (workspace / "data.csv").write_text("a,b\n1,2\n")
    for name in ("notes.txt", "config.toml"):
        (secrets / name).write_text("secret")
    with (
        socket.socket() as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        udp.bind(("127.0.0.1", 0))
        address = str(secrets / "s")
        unix.bind(address)
        unix.listen()
        for server in (tcp, udp, unix):
            server.settimeout(0)
        yield House(workspace, secrets, tcp, udp, unix, address)


def run(context: ToolContext, command: str) -> ToolResult:
    async def go() -> ToolResult:
        try:
            return await run_command.run(command=command, ctx=context)
        finally:
            await end_commands(context.runners)

    return asyncio.run(go())


def attempts(house: House, *, confined: bool) -> set[str]:
    """What the attempts reported as done, in a command of its own."""
    (house.workspace / "attempts.py").write_text(ATTEMPTS)
    targets = json.dumps(house.targets())
    result = run(house.context(confined=confined), f"{sys.executable} attempts.py '{targets}' {os.getpid()}")
    assert result.ok, result.content
    return set(json.loads(result.content.splitlines()[-1]))


def test_the_probe_says_that_the_sandbox_holds_here() -> None:
    held = enforcement()
    assert held.confined, f"no sandbox on this machine, so nothing below is tested: {held.reason}"


def test_no_escape_succeeds_and_without_the_sandbox_each_one_does(house: House) -> None:
    assert attempts(house, confined=True) == set()
    assert not list(house.workspace.rglob("planted"))
    for server in (house.tcp, house.unix):
        with pytest.raises(BlockingIOError):
            server.accept()
    with pytest.raises(BlockingIOError):
        house.udp.recv(10)

    assert attempts(house, confined=False) == EVERY_ATTEMPT
    assert len(list(house.workspace.rglob("planted"))) == 3
    house.tcp.accept()[0].close()
    assert house.udp.recv(10) == b"hello"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("cat data.csv", "1,2"),
        ("echo made > sub_agent_results/agent_1/made.txt && cat sub_agent_results/agent_1/made.txt", "made"),
        ('f=$(mktemp) && echo temporary > "$f" && cat "$f"', "temporary"),
        (f"{sys.executable} -c 'import sqlite3, pydantic; print(6 * 7)'", "42"),
        (f"{sys.executable} -c 'import multiprocessing as m; p = m.Pool(2); print(p.map(abs, [-3]))'", "[3]"),
        ("cd sub_agent_results/agent_1 && git init -q repo && git -C repo status --short && echo ok", "ok"),
        (f"{sys.executable} -m venv --without-pip sub_agent_results/agent_1/venv && "
         "sub_agent_results/agent_1/venv/bin/python -c 'print(11)'", "11"),
    ],
)  # fmt: skip
def test_what_work_needs_goes_on_inside(house: House, command: str, expected: str) -> None:
    result = run(house.context(confined=True, level="ask"), command)
    assert result.ok, result.content
    assert expected in result.content


def test_limits_hold_a_command_that_asks_for_too_much(house: House) -> None:
    program = (
        "import resource as r; print([r.getrlimit(n)[0] for n in (r.RLIMIT_NOFILE, r.RLIMIT_FSIZE, r.RLIMIT_CORE)])"
    )
    context = house.context(confined=True)
    assert f"[{limits.OPEN_FILES}, {limits.FILE_BYTES}, 0]" in run(context, f"{sys.executable} -c '{program}'").content
    score = run(house.context(confined=True), "cat /proc/self/oom_score_adj").content
    assert score.splitlines()[-1] == str(limits.OUT_OF_MEMORY_SCORE)
    full = run(house.context(confined=True), f"truncate -s {limits.FILE_BYTES + 1} sub_agent_results/agent_1/huge")
    assert not full.ok
    fits = run(house.context(confined=True), f"truncate -s {limits.FILE_BYTES} sub_agent_results/agent_1/huge")
    assert fits.ok  # sparse: it takes no room
    many = f"{sys.executable} -c 'import os; [os.open(\"/dev/null\", 0) for _ in range({limits.OPEN_FILES})]'"
    assert "Too many open files" in run(house.context(confined=True), many).content


def test_a_confined_command_needs_no_consent_and_an_unconfined_one_does(house: House) -> None:
    assert run(house.context(confined=True, level="ask"), "echo ran").ok
    with pytest.raises(Exception, match="no sandbox holds commands here"):
        run(house.context(confined=False, level="ask"), "echo ran")
    with pytest.raises(Exception, match="permission level read-only"):
        run(house.context(confined=True, level="read-only"), "echo ran")


def test_a_workspace_that_holds_the_runtime_directory_is_granted_piece_by_piece(tmp_path: Path) -> None:
    home = tmp_path.resolve()
    for folder in ("project", ".ssh", ".git", "deep/runtime", "deep/data"):
        (home / folder).mkdir(parents=True)
    policy = command_policy(workspace=home, roots=(), temporary=home / "t", private=[home / "deep" / "runtime"])
    granted = {path for path in policy.read if path.startswith(str(home))}
    assert granted == {str(home / name) for name in ("project", ".git", "deep/data")}
    assert str(home) in command_policy(workspace=home, roots=(), temporary=home / "t").read


def test_the_switch_turns_it_off_and_says_so() -> None:
    code = "from easyagent.sandbox import enforcement; print(enforcement())"
    for setting, expected in (("off", "confined=False"), ("auto", "confined=True")):
        environment = {**os.environ, "EASYAGENT_SANDBOX": setting}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert expected in done.stdout
