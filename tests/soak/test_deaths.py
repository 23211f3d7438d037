"""Whoever dies or stands still, no process stays, no deadline is missed, and every end that can be recorded is."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from easyagent.models import Cause, Started, SubAgentEnd, SubAgentStatus
from easyagent.subagents import RunStore
from easyagent.testing import FakeOpenAI, call, calls, for_sub_agent, hang, hostile
from easyagent.testing.launcher_contract import lives

GONE_SECONDS = 10
LATE_SECONDS = 2.0
STAND_IN = Path(__file__).with_name("kernel_stand_in.py")


@dataclass
class StandIn:
    """A process in a kernel's place whose sub-agents run, each with a command that would outlive it."""

    process: subprocess.Popen[str]
    store: RunStore
    runs: dict[str, int]
    host: int
    tag: str

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def tree(self) -> list[psutil.Process]:
        """Everything below it, and what its agents' commands have left behind."""
        return [*psutil.Process(self.process.pid).children(recursive=True), *hostile.tagged(self.tag)]

    def keeper(self) -> int:
        return psutil.Process(next(iter(self.runs.values()))).ppid()

    def ends(self) -> list[SubAgentEnd]:
        return [end for run_id in self.runs if (end := self.store.end(run_id)) is not None]

    def await_ends(self) -> list[SubAgentEnd]:
        """The ends, once all are recorded: files of other processes are asked for again and again."""
        hostile.until(lambda: len(self.ends()) == len(self.runs))
        return self.ends()


@contextlib.contextmanager
def stand_in(workspace: Path, *, count: int, timeout_seconds: float = 600) -> Iterator[StandIn]:
    workspace.mkdir()
    tag = f"tag-{uuid.uuid4().hex}"
    with FakeOpenAI() as fake:
        for number in range(1, count + 1):
            script = fake.script(f"agent {number}", match=for_sub_agent(number))
            script.reply(calls(call("run_command", command=hostile.command("clean environment", tag))))
            script.repeat(hang())
        process = subprocess.Popen(
            [sys.executable, str(STAND_IN), fake.base_url, str(workspace), str(count), str(timeout_seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            assert said["note"] == ""
            hostile.started(tag, count)
            yield StandIn(process, RunStore(workspace), said["runs"], said["host"], tag)
        finally:
            process.kill()
            process.communicate()


VICTIMS: dict[str, Callable[[StandIn], list[int]]] = {
    "kernel": lambda kernel: [kernel.process.pid],
    "host": lambda kernel: [kernel.host],
    "keeper": lambda kernel: [kernel.keeper()],
    "agent": lambda kernel: [next(iter(kernel.runs.values()))],
    "kernel and host": lambda kernel: [kernel.process.pid, kernel.host],
    "kernel, host and keeper": lambda kernel: [kernel.process.pid, kernel.host, kernel.keeper()],
}


@pytest.mark.parametrize("victim", VICTIMS)
def test_no_process_stays_whoever_is_killed(victim: str, tmp_path: Path, times: Callable, reached: Callable) -> None:
    for number in range(times(1, 10)):
        with stand_in(tmp_path / str(number), count=2) as kernel:
            tree = kernel.tree()
            first = next(iter(kernel.runs))
            assert len(tree) >= 8  # the control: host, keepers, agents, runners, commands
            for pid in VICTIMS[victim](kernel):
                os.kill(pid, signal.SIGKILL)
            if victim in ("keeper", "agent"):
                hostile.until(lambda first=first: kernel.store.end(first) is not None)
                end = kernel.store.end(first)
                assert end is not None and (end.status, end.cause) == (SubAgentStatus.FAILED, Cause.CRASH)
                assert not lives(kernel.runs[first])
                assert len(hostile.tagged(kernel.tag)) == 1 and len(kernel.ends()) == 1  # the other one goes on
            else:
                if victim == "host":  # the kernel lives, and may have begun anew
                    tree = [process for process in tree if process.pid != kernel.process.pid]
                _, alive = psutil.wait_procs(tree, timeout=GONE_SECONDS)
                assert alive == []
                causes = {"kernel": {Cause.KERNEL_EXIT}, "host": {Cause.CRASH}}
                if victim in causes:
                    assert {end.cause for end in kernel.await_ends()} == causes[victim]
        reached(f"kill -9 of {victim}")


def test_a_forked_child_of_the_kernel_keeps_nothing_alive(tmp_path: Path, times: Callable, reached: Callable) -> None:
    for number in range(times(1, 10)):
        with stand_in(tmp_path / str(number), count=2) as kernel:
            tree = kernel.tree()
            kernel.tell("fork")
            assert kernel.process.stdout is not None
            child = psutil.Process(json.loads(kernel.process.stdout.readline()))
            try:
                kernel.process.kill()
                _, alive = psutil.wait_procs(tree, timeout=GONE_SECONDS)
                assert alive == [] and child.is_running()
                assert {end.cause for end in kernel.await_ends()} == {Cause.KERNEL_EXIT}
            finally:
                child.kill()
        reached("kill -9 of a kernel with a forked child alive")


@pytest.mark.parametrize("how", ["hold the GIL", "SIGSTOP"])
def test_a_deadline_holds_while_the_kernel_does_nothing(
    how: str, tmp_path: Path, times: Callable, reached: Callable, soaking: bool
) -> None:
    for number in range(times(1, 10)):
        with stand_in(tmp_path / str(number), count=2, timeout_seconds=4) as kernel:
            if how == "SIGSTOP":
                os.kill(kernel.process.pid, signal.SIGSTOP)
            else:
                kernel.tell(how)
            ends = kernel.await_ends()
            assert {(end.status, end.cause) for end in ends} == {(SubAgentStatus.TIMEOUT, Cause.TIMEOUT)}
            assert hostile.tagged(kernel.tag) == [] and not any(map(lives, kernel.runs.values()))
            if soaking:
                assert max(lateness(kernel.store, run_id, 4) for run_id in kernel.runs) < LATE_SECONDS
        reached(f"deadlines while the kernel does nothing ({how})", 2)


def lateness(store: RunStore, run_id: str, timeout_seconds: float) -> float:
    """Seconds from a run's deadline to its recorded end."""
    directory = store.directory(run_id)
    began = store.events(run_id)[0]
    assert isinstance(began, Started)
    return (directory / "end.json").stat().st_mtime - began.time - timeout_seconds
