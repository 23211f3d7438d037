"""However a kernel ends, nothing of its agents stays and every end is recorded; an interrupt ends none of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from easyagent.models import Cause, SubAgentEnd, SubAgentStatus, ToolFinished
from easyagent.subagents import RunStore
from easyagent.testing import FakeOpenAI, Gate, Script, call, calls, for_main, for_sub_agent, hang, hostile
from easyagent.testing.launcher_contract import lives

GONE_SECONDS = 10
AGENTS = 5
CELL = "%%agent --permissions auto\nGo."
CHILD = """
import multiprocessing, time
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,))
child.start()
child.pid
"""
WAYS: dict[str, Callable[[Any], None]] = {
    "SIGKILL": lambda kernel: kernel.kill(),
    "restart": lambda kernel: kernel.restart(),
    "shutdown": lambda kernel: kernel.shut_down(),
}


def script_agents(fake: FakeOpenAI, tag: str, kind: str, gates: dict[int, Gate] | None = None) -> Script:
    """A main agent that starts all agents; each runs a command, then hangs or waits at its gate before it finishes."""
    main = fake.script("main", match=for_main())
    agents = range(1, AGENTS + 1)
    main.reply(
        calls(
            *(
                call("create_sub_agent", agent_id=n, summary=f"Part {n}", task="Count.", run_in_background=True)
                for n in agents
            )
        )
    )
    for number in agents:
        script = fake.script(f"agent {number}", match=for_sub_agent(number))
        script.reply(calls(call("run_command", command=hostile.command(kind, tag))))
        if gates is None:
            script.reply(hang())
        else:
            script.reply(calls(call("finish_task", success=True, summary=f"part {number}")), gate=gates[number])
    return main


def below(kernel: Any, tag: str) -> set[psutil.Process]:
    """Everything below the kernel, and what its agents' commands have left behind, once each command runs and each
    agent has gone on."""
    tagged = hostile.started(tag, AGENTS)
    processes = {*kernel.processes(), *tagged}
    assert len(kernel.agents()) == AGENTS and len(tagged) >= AGENTS  # the control: there is something to outlive it
    return processes


@pytest.mark.parametrize("forked", [False, True], ids=["alone", "with a forked child"])
@pytest.mark.parametrize("way", WAYS)
def test_nothing_outlives_its_kernel(
    way: str, forked: bool, start_kernel: Callable, workspace: Path, times: Callable, reached: Callable
) -> None:
    kinds = ("clean environment", "double fork", "nohup", "pipe holder")  # each returns at once and leaves a process
    for number in range(times(1, 5)):
        store, tag = RunStore(workspace), f"tag-{uuid.uuid4().hex}"
        earlier = set(store.run_ids())
        with FakeOpenAI() as fake:
            script_agents(fake, tag, "clean environment" if forked else kinds[number % len(kinds)]).reply("Started.")
            kernel = start_kernel(OPENAI_BASE_URL=fake.base_url)
            assert kernel.run(CELL, live=True).status == "ok"
            fake.wait_for(lambda fake=fake: len(fake.requests) == 2 + 2 * AGENTS)
            ours = below(kernel, tag)
            child = psutil.Process(int(kernel.run(CHILD, live=True).result)) if forked else None
            assert child is None or child in kernel.processes()
            try:
                WAYS[way](kernel)
                _, alive = psutil.wait_procs(ours, timeout=GONE_SECONDS)
                assert alive == [] and hostile.tagged(tag) == []
                if child is not None and way == "SIGKILL":
                    assert lives(child.pid)  # it held open all that the kernel had open
            finally:
                if child is not None and child.is_running():
                    child.kill()
            runs = [run_id for run_id in store.run_ids() if run_id not in earlier]
            assert len(runs) == AGENTS
            for run_id in runs:
                end = check_record(store, run_id)
                assert (end.status, end.cause) == (SubAgentStatus.INTERRUPTED, Cause.KERNEL_EXIT)
                assert end.receipt.still_alive == 0
            if way == "restart":
                assert kernel.run("1 + 1").result == "2"  # the control: a new kernel has come in its place
            kernel.close()
        reached(f"{way} of a kernel with {AGENTS} agents{', a forked child alive' if forked else ''}")


def check_record(store: RunStore, run_id: str) -> SubAgentEnd:
    """The end is recorded, each event can be read, and conversations.json is complete."""
    end, job, events = store.end(run_id), store.job(run_id), store.events(run_id)
    assert end is not None and job is not None
    lines = (store.directory(run_id) / "events.jsonl").read_bytes().splitlines()
    assert [event.seq for event in events] == list(range(len(lines)))
    assert any(isinstance(event, ToolFinished) for event in events)
    record = json.loads((store.workspace / job.deliverables_dir / ".subagent" / "conversations.json").read_bytes())
    assert record["completed_at"] == end.ended_at
    assert record["messages"] == store.summary(run_id).messages != []
    return end


def test_an_interrupt_kills_no_background_agent(
    start_kernel: Callable, workspace: Path, times: Callable, reached: Callable
) -> None:
    for _ in range(times(1, 5)):
        store, tag = RunStore(workspace), f"tag-{uuid.uuid4().hex}"
        earlier = set(store.run_ids())
        with FakeOpenAI() as fake:
            gates = {number: fake.gate() for number in range(1, AGENTS + 1)}
            main = script_agents(fake, tag, "clean environment", gates)
            main.reply(hang()).repeat("Noted.")
            kernel = start_kernel(OPENAI_BASE_URL=fake.base_url)
            cell = kernel.begin(CELL, live=True)
            assert all(gate.reached.wait(60) for gate in gates.values())
            fake.wait_for(lambda main=main: len(main.requests) == 2)
            below(kernel, tag)
            agents, commands = set(kernel.agents()), set(hostile.tagged(tag))
            kernel.interrupt()
            outcome = kernel.wait(cell)
            assert outcome.status == "ok" and outcome.stdout.startswith("Interrupted: the main agent's turn has ended.")
            assert main.requests[1].cancelled  # the control: the interrupt has reached the main agent
            assert set(kernel.agents()) == agents and set(hostile.tagged(tag)) == commands
            assert set(store.run_ids()) - earlier == {r for r in store.run_ids() if store.end(r) is None}
            for gate in gates.values():
                gate.open()
            assert kernel.run("%agent wait", live=True).status == "ok"
            runs = [run_id for run_id in store.run_ids() if run_id not in earlier]
            assert len(runs) == AGENTS
            assert {check_record(store, run_id).status for run_id in runs} == {SubAgentStatus.COMPLETED}
            assert hostile.tagged(tag) == []
            kernel.close()
        reached(f"interrupt of a cell with {AGENTS} background agents")
