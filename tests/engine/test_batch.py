"""`python -m easyagent.batch` as a process: its pipes, its end with its parent, its journal, where its key is not."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from easyagent.builtin_agents import GENERAL_AGENT
from easyagent.directory import Directory
from easyagent.environment import agent_environment
from easyagent.journal import read_journal
from easyagent.models import (
    AgentEvent,
    Conclusion,
    MessageAdded,
    Started,
    SubAgentJob,
    ToolFinished,
    TurnStarted,
    parse_event,
)
from easyagent.testing import FakeOpenAI, call, calls, hang
from easyagent.testing.bench import settings_of

KEY = "sk-batch-secret-key"
DONE = calls(call("finish_task", success=True, summary="42 plots"))


def write_job(workspace: Path, **changes: Any) -> Path:
    job = SubAgentJob(
        **{
            "agent_id": 1, "sub_conversation_id": "conv_1", "conversation_id": "main_1", "summary": "Plots",
            "task": "Count.", "definition": GENERAL_AGENT, "workspace": str(workspace), "deliverables_dir": "out",
            "permissions": "auto", "created_at": "2026-01-01T00:00:00Z", **changes,
        }
    )  # fmt: skip
    directory = workspace / ".subagents" / "runs" / "conv_1"
    directory.mkdir(parents=True)
    (directory / "job.json").write_text(job.model_dump_json())
    return directory / "job.json"


class Batch:
    """A batch process and the events it says."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process, self.events = process, []  # type: tuple[Any, list[AgentEvent]]
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def until(self, condition: Callable[[AgentEvent], bool]) -> AgentEvent:
        """The next event that fits. Raises queue.Empty after 30 s, AssertionError where the stream ends."""
        while True:
            line = self._lines.get(timeout=30)
            assert line, "the process ended"
            self.events.append(parse_event(line))
            if condition(self.events[-1]):
                return self.events[-1]

    def rest(self) -> list[AgentEvent]:
        while line := self._lines.get(timeout=30):
            self.events.append(parse_event(line))
        return self.events

    def send(self, line: bytes) -> None:
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()


@contextmanager
def batch(job: Path, settings: bytes) -> Iterator[Batch]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "easyagent.batch", str(job)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=job.parents[3], env=agent_environment(),
        start_new_session=True,
    )  # fmt: skip
    with process:
        started = Batch(process)
        try:
            started.send(settings)
            yield started
        finally:
            process.kill()
            started._reader.join()


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def gone(pids: list[int], seconds: float = 10) -> bool:
    """True once all have ended; a process that is nobody's child here can only be asked."""
    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(alive, pids))


def tool_done(event: AgentEvent) -> bool:
    return isinstance(event, ToolFinished)


def test_a_job_runs_to_its_end_and_its_journal_is_whole(tmp_path: Path) -> None:
    with FakeOpenAI(token=KEY) as fake:
        fake.script("child").reply(calls(call("write_file", path="out/a.txt", content="a"), text="Working.")).reply(
            DONE
        )
        job = write_job(tmp_path)
        with batch(job, settings_of(fake, KEY).line()) as child:
            started = child.until(lambda event: isinstance(event, Started))
            assert isinstance(started, Started) and started.pid == child.process.pid
            environ = psutil.Process(child.process.pid).environ()
            command_line = psutil.Process(child.process.pid).cmdline()
            events = child.rest()
            assert child.process.wait(30) == 0
        said = events[-1]
        assert isinstance(said, Conclusion)
        assert (said.content, said.success, said.cause) == ("42 plots", True, "finish_task")
    journal = job.parent / "events.jsonl"
    assert read_journal(Directory.open(journal.parent)) == events
    assert [event.seq for event in events] == list(range(len(events)))
    assert json.loads((job.parent / "result.json").read_bytes())["summary"] == "42 plots"
    assert KEY not in json.dumps(environ) and KEY not in " ".join(command_line)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 4 and not any(KEY.encode() in path.read_bytes() for path in files)
    lines = journal.read_bytes().splitlines(keepends=True)
    for broken, sound in (
        (b"".join(lines)[:-5], len(lines) - 1),  # torn at the end
        (b"".join([*lines[:2], lines[2].replace(b"{", b"{ ", 1), *lines[3:]]), 2),  # altered
        (b"".join([lines[0], *lines[2:]]), 1),  # out of order
    ):
        journal.write_bytes(broken)
        assert read_journal(Directory.open(journal.parent)) == events[:sound]


def test_control_lines_steer_and_stop_and_nonsense_is_ignored(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        held, last = fake.gate(), fake.gate()
        script = fake.script("child").reply(calls(call("list_files")), gate=held).reply("never", gate=last)
        job = write_job(tmp_path)
        with batch(job, settings_of(fake).line()) as child:
            assert held.reached.wait(30)
            for line in (b"nonsense", b"[]", b'{"type": "message"}', b'{"type": "message", "text": "Count twice."}'):
                child.send(line)
            held.open()
            message = child.until(lambda e: isinstance(e, MessageAdded) and e.message.get("content") == "Count twice.")
            assert isinstance(message, MessageAdded) and message.message["role"] == "user"
            assert last.reached.wait(30)
            child.send(b'{"type": "stop"}')
            conclusion = child.rest()[-1]
            assert isinstance(conclusion, Conclusion) and conclusion.cause == "terminated"
            assert child.process.wait(30) == 0
        assert [m["role"] for m in script.requests[1].messages] == ["system", "user", "assistant", "tool", "user"]
        fake.wait_for(lambda: script.requests[1].cancelled)


LEFT = "mkdir -p out; (setsid sh -c 'trap \"\" TERM HUP; sleep 985' & ); echo $$ >/dev/null; sleep 984 & sleep 983 &"


def test_the_end_of_stdin_ends_the_process_and_all_its_commands(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        fake.script("child").reply(calls(call("run_command", command=LEFT))).repeat(hang())
        with batch(write_job(tmp_path), settings_of(fake).line()) as child:
            child.until(tool_done)
            tree = [process.pid for process in psutil.Process(child.process.pid).children(recursive=True)]
            assert len(tree) >= 4 and all(map(alive, tree))  # the control: guard, sh and the sleeps live
            child.process.stdin.close()
            assert child.process.wait(30) == 75
            assert gone(tree)


def test_nothing_of_a_command_outlives_a_killed_agent(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        fake.script("child").reply(calls(call("run_command", command=LEFT))).repeat(hang())
        with batch(write_job(tmp_path), settings_of(fake).line()) as child:
            child.until(tool_done)
            tree = [process.pid for process in psutil.Process(child.process.pid).children(recursive=True)]
            assert len(tree) >= 4 and all(map(alive, tree))
            child.process.send_signal(signal.SIGKILL)
            assert gone(tree)


def test_nothing_of_a_command_outlives_an_agent_that_finishes(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        held = fake.gate()
        fake.script("child").reply(calls(call("run_command", command=LEFT))).reply(DONE, gate=held)
        with batch(write_job(tmp_path), settings_of(fake).line()) as child:
            child.until(tool_done)
            tree = [process.pid for process in psutil.Process(child.process.pid).children(recursive=True)]
            assert len(tree) >= 4 and all(map(alive, tree))
            held.open()
            assert child.process.wait(30) == 0
            assert not any(map(alive, tree))  # dead before it says so, not some time after


PARENT = """
import os, subprocess, sys, time
from easyagent.environment import agent_environment
child = subprocess.Popen([sys.executable, "-P", "-m", "easyagent.batch", sys.argv[1]], stdin=subprocess.PIPE,
                         stdout=subprocess.DEVNULL, env=agent_environment(), start_new_session=True)
child.stdin.write(sys.stdin.buffer.readline()); child.stdin.flush()
holder = os.fork() if sys.argv[2] == "fork" else 0
if holder == 0 and sys.argv[2] == "fork":
    time.sleep(600)  # a forked child that holds the pipe to the agent open
print(child.pid, holder, flush=True)
time.sleep(600)
"""


def test_the_death_of_the_parent_ends_it_even_where_a_forked_child_holds_the_pipe(tmp_path: Path) -> None:
    for mode in ("plain", "fork"):
        workspace = tmp_path / mode
        workspace.mkdir()
        with FakeOpenAI() as fake:
            fake.script("child").reply(calls(call("run_command", command=LEFT))).repeat(hang())
            job = write_job(workspace)
            with subprocess.Popen(
                [sys.executable, "-c", PARENT, str(job), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as parent:
                assert parent.stdin is not None and parent.stdout is not None
                parent.stdin.write(settings_of(fake).line() + b"\n")
                parent.stdin.flush()
                pid, holder = map(int, parent.stdout.readline().split())
                try:
                    fake.wait_for(lambda fake=fake: len(fake.requests) == 2)  # type: ignore[misc]
                    tree = [pid, *(process.pid for process in psutil.Process(pid).children(recursive=True))]
                    assert len(tree) >= 5 and all(map(alive, tree))
                    parent.kill()
                    assert gone(tree), mode
                    assert holder == 0 or alive(holder)  # the pipe is still held open
                finally:
                    if holder:
                        os.kill(holder, signal.SIGKILL)


def test_turns_are_counted_against_the_definitions_limit(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        script = fake.script("child").repeat(calls(call("list_files"), text="Looking."))
        job = write_job(tmp_path, definition={"name": "short", "max_iterations": 2})
        with batch(job, settings_of(fake).line()) as child:
            conclusion = child.rest()[-1]
            assert isinstance(conclusion, Conclusion)
            assert (conclusion.cause, conclusion.success, conclusion.content) == ("max_iterations", False, "Looking.")
        turns = [event for event in child.events if isinstance(event, TurnStarted)]
        assert [(turn.turn, turn.max_turns) for turn in turns] == [(1, 2), (2, 2)]
        assert [request.tool_names for request in script.requests][1] == ("finish_task",)


def test_a_result_stands_where_its_report_cannot_be_written(tmp_path: Path) -> None:
    reporting = calls(call("finish_task", success=True, summary="42 plots", report="# Plots"))
    for name, blocked in (("blocked", True), ("free", False)):
        workspace = tmp_path / name
        report = workspace / "out" / "report.md"
        report.parent.mkdir(parents=True)
        if blocked:
            report.mkdir()
            (report / "mine.txt").write_text("x")
        with FakeOpenAI() as fake:
            fake.script("child").reply(reporting)
            job = write_job(workspace)
            with batch(job, settings_of(fake).line()) as child:
                ended = child.rest()[-1]
                assert child.process.wait(30) == 0
        assert isinstance(ended, Conclusion) and ended.success
        summary = json.loads((job.parent / "result.json").read_bytes())["summary"]
        assert summary.startswith("42 plots") and ("report.md could not be written" in summary) is blocked
        assert report.is_dir() is blocked and [path.name for path in report.parent.iterdir()].count("report.md") == 1
