"""After a kernel's end: what is shown, what is told, and what can be gone on with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from easyagent.journal import summarize
from easyagent.subagents import RunStore
from easyagent.subagents.earlier import told
from easyagent.testing import FakeOpenAI, call, calls, for_main, for_sub_agent, hang

NOTEBOOK = {"JPY_SESSION_NAME": "study.ipynb"}
GONE_SECONDS = 10


def start(number: int) -> Any:
    return call(
        "create_sub_agent", agent_id=number, summary=f"Part {number}", task=f"Count part {number}.",
        run_in_background=True,
    )  # fmt: skip


def finish(number: int) -> Any:
    return calls(call("finish_task", success=True, summary=f"part {number} counted"))


def cut_off(start_kernel: Callable, fake: FakeOpenAI) -> Any:
    """A kernel that is killed while its sub-agents 1 and 2 wait for their model, each after its first call."""
    kernel = start_kernel(OPENAI_BASE_URL=fake.base_url, **NOTEBOOK)
    main = fake.script("main", match=for_main())
    main.reply(calls(start(1), start(2))).reply("Started.")
    for number in (1, 2):
        agent = fake.script(f"agent {number}", match=for_sub_agent(number))
        agent.reply(calls(call("write_file", path=f"sub_agent_results/agent_{number}/half.txt", content="half")))
        agent.reply(hang())
    cell = kernel.begin("%%agent\nGo.", live=True)
    kernel.wait(cell)
    fake.wait_for(lambda: len(fake.requests) == 6)
    processes = kernel.processes()
    kernel.kill()
    _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
    assert alive == []
    return kernel


def conversation_events(workspace: Path) -> list[Any]:
    store = RunStore(workspace)
    (identity,) = store.conversation_ids()
    return store.conversation_events(identity)


def test_a_resumed_conversation_is_told_of_what_it_missed_and_goes_on(start_kernel: Callable, fake, workspace) -> None:
    cut_off(start_kernel, fake)
    kernel = start_kernel(OPENAI_BASE_URL=fake.base_url, **NOTEBOOK)
    table = kernel.run("%agent").stdout
    assert table.count("interrupted") == 2 and "main" in table
    fresh = kernel.run("from jupyter_subagents import agents\nlen(agents)")
    assert fresh.result == "0"  # a label starts fresh after a restart
    after = fake.script("after", match="was interrupted")
    after.reply("Both were cut off.").reply("Yes.")
    resumed = kernel.run("%agent resume main", live=False)
    assert (resumed.status, resumed.error) == ("ok", "")
    assert "Both were cut off." in resumed.text and resumed.text.count("interrupted") >= 2
    sent = after.requests[0].messages
    assert sent[1]["content"] == "Go." and sent[-1]["role"] == "user"
    assert sent[-1]["content"].count("was interrupted.") == 2
    again = kernel.run("%%agent\nDid you get that?")
    assert "Yes." in again.text
    events = conversation_events(workspace)
    assert sorted(run for event in events for run in getattr(event, "told", ())) == sorted(told(events))  # each once
    assert len(told(events)) == 2
    roles = [message["role"] for message in summarize(events).messages]
    assert roles[:5] == ["system", "user", "assistant", "tool", "tool"] and roles[-4:] == [
        "user", "assistant", "user", "assistant",
    ]  # fmt: skip


def test_a_sub_agent_is_resumed_from_its_journal(start_kernel: Callable, fake, workspace: Path) -> None:
    cut_off(start_kernel, fake)
    kernel = start_kernel(OPENAI_BASE_URL=fake.base_url, **NOTEBOOK)
    again = fake.script("again", match="You were interrupted")
    again.reply(finish(1))
    fake.script("notice", match=for_main()).repeat("Noted.")
    resumed = kernel.run("%agent resume 1")
    assert (resumed.status, resumed.error) == ("ok", "")
    sent = again.requests[0].messages
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "user"]
    kernel.run("from jupyter_subagents import agents")
    values = kernel.run("(agents[1].status, agents[1].result, sorted(agents[1].files), agents[2].status)")
    assert values.result == "('completed', 'part 1 counted', ['half.txt'], 'interrupted')"
    assert "has completed its task" in kernel.run("agents[1].resume()").stderr
    by_python = fake.script("by python", match=["You were interrupted", "Part 2"])
    by_python.reply(finish(2))
    assert kernel.run("agents[2].resume().wait().status").result == "'completed'"
    kernel.run("%agent wait")
    store = RunStore(workspace)
    ends = {store.job(run_id).agent_id: store.end(run_id).status for run_id in store.run_ids()}
    assert ends == {1: "completed", 2: "completed"}
    record = json.loads((workspace / "sub_agent_results/agent_1/.subagent/conversations.json").read_text())
    assert record["completed_at"] and len(record["messages"]) == 7


def test_nothing_to_resume_is_said_in_one_sentence(start_kernel: Callable, fake) -> None:
    kernel = start_kernel(OPENAI_BASE_URL=fake.base_url, **NOTEBOOK)
    assert "no earlier conversation 'main'" in kernel.run("%agent resume").stderr
    assert "There is no sub-agent 3" in kernel.run("%agent resume 3").stderr
    fake.script("main").reply("Hello.")
    kernel.run("%%agent\nHello.")
    assert "goes on in this kernel already" in kernel.run("%agent resume main").stderr


@pytest.mark.parametrize("other", [{"JPY_SESSION_NAME": "other.ipynb"}])
def test_another_notebook_sees_nothing_of_it(start_kernel: Callable, fake, other: dict[str, str]) -> None:
    cut_off(start_kernel, fake)
    kernel = start_kernel(OPENAI_BASE_URL=fake.base_url, **other)
    assert "No sub-agents yet" in kernel.run("%agent").stdout
    assert "no earlier conversation" in kernel.run("%agent resume").stderr
