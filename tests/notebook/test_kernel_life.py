"""What happens to agents when cells are interrupted, conversations change, and kernels end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from easyagent.testing import FakeOpenAI, call, calls, for_main, for_sub_agent, hang

GONE_SECONDS = 10
FORK = "import os, time\npid = os.fork()\nif pid == 0:\n    time.sleep(600)\npid"


def start(number: int, *, background: bool = True) -> object:
    return call(
        "create_sub_agent", agent_id=number, summary=f"Part {number}", task="Read a.txt.", run_in_background=background
    )


def begin_with_two_hanging_agents(kernel, fake: FakeOpenAI, *, live: bool) -> str:
    """A cell whose main agent has started two sub-agents that wait for their model; returns the cell."""
    main = fake.script("main", match=for_main())
    main.reply(calls(start(1), start(2)))
    main.reply("Started.")
    scripts = [fake.script(f"agent {number}", match=for_sub_agent(number)) for number in (1, 2)]
    for script in scripts:
        script.reply(hang())
    cell = kernel.begin("%%agent\nGo.", live=live)
    fake.wait_for(lambda: len(main.requests) == 2 and all(script.requests for script in scripts))
    return cell


@pytest.mark.parametrize("how", ["shut down", "kill -9"])
def test_no_process_outlives_its_kernel(start_kernel: Callable, fake, how: str) -> None:
    kernel = start_kernel(OPENAI_BASE_URL=fake.base_url)
    begin_with_two_hanging_agents(kernel, fake, live=False)
    processes = kernel.processes()
    assert len(kernel.agents()) == 2
    kernel.kill() if how == "kill -9" else kernel.shut_down()
    _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
    assert alive == []


def test_the_demo_model_ends_with_a_killed_kernel_even_where_a_forked_child_lives_on(start_kernel: Callable) -> None:
    kernel = start_kernel()
    assert kernel.run("%%agent\nhello").status == "ok"
    processes = kernel.processes()
    assert any("easyagent.demo" in " ".join(process.cmdline()) for process in processes)
    forked = kernel.run(FORK)
    child = psutil.Process(int(forked.result))
    try:
        kernel.kill()
        _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
        assert alive == []
        assert child.is_running()
    finally:
        child.kill()


def test_a_forked_child_of_the_kernel_keeps_nothing_alive(start_kernel: Callable, fake, workspace: Path) -> None:
    kernel = start_kernel(OPENAI_BASE_URL=fake.base_url)
    cell = begin_with_two_hanging_agents(kernel, fake, live=True)
    kernel.wait(cell)
    forked = kernel.run(FORK, live=True)
    child = psutil.Process(int(forked.result))
    processes = [process for process in kernel.processes() if process != child]
    try:
        kernel.kill()
        _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
        assert alive == []
        assert child.is_running()  # it holds the pipes open: the end of stdin alone would not have been seen
    finally:
        child.kill()


def test_an_interrupt_ends_the_turn_and_no_background_agent(kernel, fake) -> None:
    main = fake.script("main", match=for_main())
    main.reply(calls(start(1)))
    main.reply(hang())
    one = fake.script("one", match=for_sub_agent(1))
    one.reply(hang())
    cell = kernel.begin("%%agent\nGo.", live=True)
    fake.wait_for(lambda: len(main.requests) == 2 and one.requests)
    kernel.interrupt()
    outcome = kernel.wait(cell)
    assert (outcome.status, outcome.error, outcome.stderr) == ("ok", "", "")
    assert outcome.stdout == "Interrupted: the main agent's turn has ended. Background sub-agents go on: 1.\n"
    assert main.requests[1].cancelled
    status = kernel.run("from jupyter_subagents import agents\nagents[1].status")
    assert status.result == "'running'"
    main.reply("I know.")
    assert kernel.run("%%agent\nStill there?", live=True).status == "ok"
    kernel.run("%agent stop")
    assert kernel.run("agents[1].status").result == "'terminated'"


def test_an_interrupt_ends_a_blocking_sub_agent(kernel, fake) -> None:
    main = fake.script("main", match=for_main())
    main.reply(calls(start(1, background=False)))
    one = fake.script("one", match=for_sub_agent(1))
    one.reply(hang())
    cell = kernel.begin("%%agent\nGo.", live=True)
    fake.wait_for(lambda: one.requests)
    kernel.interrupt()
    assert kernel.wait(cell).status == "ok"
    assert kernel.run("from jupyter_subagents import agents\nagents[1].wait().status").result == "'terminated'"
    main.reply("Understood.")
    kernel.run("%%agent\nWhat happened?", live=True)
    messages = main.requests[-1].messages
    interrupted = next(message for message in messages if message["role"] == "tool")
    assert "interrupted by the user" in interrupted["content"]


def test_a_round_that_starts_late_shows_under_its_own_cell(kernel, fake) -> None:
    main, one = fake.script("main", match=for_main()), fake.script("one", match=for_sub_agent(1))
    gate = fake.gate()
    main.reply(calls(start(1)))
    main.reply("Started.")
    main.reply("The late answer.")
    one.reply(calls(call("finish_task", success=True, summary="Found it.")), gate=gate)
    first = kernel.begin("%%agent\nGo.", live=True)
    assert kernel.wait(first).status == "ok"
    second = kernel.begin("input_of_the_next_cell = 1\nprint('next')", live=True)
    assert kernel.wait(second).status == "ok"
    gate.open()
    kernel.read_until(lambda: "The late answer." in kernel.outcome(first).text)
    # The last of a cell's agents has ended: the record stands without the widget.
    kernel.read_until(lambda: set(kernel.outcome(first).displays[0]) == {"text/html", "text/plain"})
    assert kernel.outcome(second).displays == [] and kernel.outcome(second).stdout == "next\n"


def test_switching_the_conversation_ends_its_sub_agents_and_says_so(kernel, fake) -> None:
    cell = begin_with_two_hanging_agents(kernel, fake, live=True)
    kernel.wait(cell)
    processes = kernel.agents()
    assert len(processes) == 2
    fake.script("other", match=lambda request: request.messages[-1]["content"] == "Something else.").reply("Here.")
    outcome = kernel.run("%%agent other\nSomething else.", live=True)
    assert outcome.stdout == "Left conversation main: its sub-agents were terminated (1, 2).\n"
    _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
    assert alive == []
    ends = [json.loads(path.read_text()) for path in kernel.directory.glob(".subagents/runs/*/end.json")]
    assert [end["status"] for end in ends] == ["terminated", "terminated"]


def test_stop_and_the_python_objects(kernel, fake) -> None:
    cell = begin_with_two_hanging_agents(kernel, fake, live=True)
    kernel.wait(cell)
    assert kernel.run("%agent stop 1").stdout == "Stopped: 1.\n"
    table = kernel.run("%agent").stdout
    assert "terminated" in table and "running" in table
    values = kernel.run("from jupyter_subagents import agents\n(agents[1].cause, agents[2].stop().status, len(agents))")
    assert values.result == "('terminated', 'terminated', 2)"
    missing = kernel.run("agents[9]")
    assert "no sub-agent 9 in conversation main; known: 1, 2" in missing.error


def test_agents_start_runs_one_from_python(kernel, fake) -> None:
    one = fake.script("started", match=for_sub_agent(100))
    one.reply(calls(call("read_file", path="a.txt")))
    one.reply(calls(call("finish_task", success=True, summary="Two lines.", report="# Lines\n\nTwo.")))
    code = (
        "from jupyter_subagents import agents\nrun = await agents.start('Count the lines of a.txt.', agent='explore')\n"
    )
    values = kernel.run(
        code + "(run.id, run.status, run.result, run.report, list(run.files), [s.name for s in run.trace.steps])"
    )
    assert values.result == (
        "(100,\n 'completed',\n 'Two lines.',\n '# Lines\\n\\nTwo.',\n ['report.md'],\n ['read_file', 'finish_task'])"
    )
    assert "Count the lines" in values.text and "completed" in values.text


def test_without_live_cards_the_record_is_kept_up_to_date_and_says_why(kernel, fake) -> None:
    main = fake.script("main", match=for_main())
    gate = fake.gate()
    main.reply("Here.", gate=gate)
    cell = kernel.begin("%%agent\nGo.", live=True)
    view = "application/vnd.jupyter.widget-view+json"
    kernel.read_until(lambda: any(view in display for display in kernel.outcome(cell).displays))
    kernel.read_until(lambda: "install the packages ipywidgets and anywidget" in kernel.outcome(cell).html)
    assert view not in kernel.outcome(cell).displays[0]
    gate.open()
    kernel.read_until(lambda: "Here." in kernel.outcome(cell).html)
    assert kernel.wait(cell).status == "ok"


def test_a_queued_prompt_changes_settings_only_when_its_turn_comes(kernel, fake) -> None:
    main = fake.script("main", match=for_main())
    gate = fake.gate()
    main.reply("First.", gate=gate)
    main.reply("Second.")
    assert kernel.run("%%agent -b\nOne.", live=True).status == "ok"
    assert gate.reached.wait(60)
    assert kernel.run("%%agent -b --max-agents 1 --permissions edits\nTwo.", live=True).status == "ok"
    gate.open()
    assert kernel.run("%agent wait", live=True).status == "ok"
    assert [request.cancelled for request in main.requests] == [False, False]
    assert [m["content"] for m in main.requests[1].messages if m["role"] != "system"] == ["One.", "First.", "Two."]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sandbox is for Linux")
@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_a_command_cannot_reach_the_kernel_that_runs_it(
    start_kernel: Callable, fake, workspace: Path, sandbox: str
) -> None:
    kernel = start_kernel(OPENAI_BASE_URL=fake.base_url, EASYAGENT_SANDBOX=sandbox)
    main = fake.script("main", match=for_main())
    read = call("run_command", command=f"cat '{kernel.connection_file}' && kill -0 {kernel.pid} && echo reached")
    main.reply(calls(read))
    main.reply("Tried.")
    level = "--permissions auto" if sandbox == "off" else ""
    assert kernel.run(f"%%agent {level}\nTry it.").status == "ok"
    result = main.requests[1].messages[-1]["content"]
    if sandbox == "off":
        assert "reached" in result and "signature_scheme" in result
    else:
        assert "Permission denied" in result and "signature_scheme" not in result and "reached" not in result


def test_an_interrupt_ends_the_prompt_of_its_own_cell_alone(kernel, fake) -> None:
    gate = fake.gate()
    first_prompt = fake.script("first", match=lambda request: request.messages[-1]["content"] == "First.")
    first_prompt.reply("The first answer.", gate=gate)
    first = kernel.begin("%%agent -b -o first\nFirst.", live=True)
    kernel.wait(first)
    fake.wait_for(lambda: first_prompt.requests)
    queued = kernel.begin("%%agent\nSecond.", live=True)
    kernel.read_until(lambda: bool(kernel.outcome(queued).displays))
    kernel.interrupt()
    outcome = kernel.wait(queued)
    assert (outcome.status, outcome.error) == ("ok", "") and "Interrupted" in outcome.stdout
    gate.open()
    kernel.read_until(lambda: "The first answer." in kernel.outcome(first).text)
    assert kernel.run("%agent wait").status == "ok"
    assert [request.last_text for request in fake.requests] == ["First."]  # the second was never sent
    third = fake.script("third", match="Third.")
    third.reply("The third answer.")
    assert "The third answer." in kernel.run("%%agent\nThird.").text
