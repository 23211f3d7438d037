"""What would ask is asked: of the user where she is there, and denied at once where nobody can answer."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from easyagent.models import AgentEnded, ApprovalDecided, ApprovalRequested, ToolFinished
from easyagent.permissions import Access
from easyagent.sandbox import enforcement
from easyagent.testing import FakeOpenAI, call, calls, for_main, for_sub_agent
from easyagent.testing.bench import ConversationBench, conversation_bench

Scenario = Callable[[ConversationBench], Coroutine[Any, Any, None]]
SHELL = call("run_command", command="echo hello > made.txt; echo done")
START = call("create_sub_agent", agent_id=1, summary="Count", task="Count.", run_in_background=True, timeout_seconds=60)
FINISH = calls(call("finish_task", success=True, summary="done"))


def run(fake: FakeOpenAI, workspace: Path, scenario: Scenario, **options: Any) -> ConversationBench:
    async def main() -> ConversationBench:
        async with conversation_bench(fake, workspace, **options) as bench:
            async with asyncio.timeout(60):
                await scenario(bench)
        return bench

    return asyncio.run(main())


async def ask_and_answer(bench: ConversationBench, *decisions: str) -> None:
    """One round whose questions are answered in turn."""
    round_ = asyncio.create_task(bench.conversation.ask("Go."))
    for number, decision in enumerate(decisions, 1):
        await bench.until(lambda number=number: len(bench.of(ApprovalRequested)) == number)
        assert [request.number for request in bench.conversation.approvals.pending] == [number]
        assert bench.conversation.approvals.answer(number, decision)  # type: ignore[arg-type]
    await round_
    await bench.conversation.settled()
    assert bench.conversation.approvals.pending == []


def results(bench: ConversationBench, agent_id: int | None = None) -> list[str]:
    return [event.preview for event in bench.events if isinstance(event, ToolFinished) and event.agent_id == agent_id]


def test_once_asks_again_run_does_not_and_a_denial_is_its_own_result(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        for _ in range(5):
            main.reply(calls(SHELL))
        main.reply("Done.")
        bench = run(fake, tmp_path, lambda bench: ask_and_answer(bench, "once", "deny", "run"), can_ask=True)
    asked = bench.of(ApprovalRequested)
    assert (asked[0].tool, asked[0].rule, asked[0].agent_id) == ("run_command", "permission level ask", None)
    assert asked[0].subject == "echo hello > made.txt; echo done"
    assert [event.decision for event in bench.of(ApprovalDecided)] == ["once", "deny", "run"]
    told = results(bench)
    assert [text.startswith("[exit code 0]") for text in told] == [True, False, True, True, True]
    assert told[1].startswith("Error: the user denied run_command (echo hello > made.txt; echo done)")


def test_who_is_asked_sees_what_a_write_would_change(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("one\ntwo\nthree\n")
    writes = [
        call("write_file", path="new.txt", content="first\nsecond\n"),
        call("write_file", path="kept.txt", content="one\n2\nthree\n"),
        call("edit_file", path="kept.txt", old_text="three", new_text="3"),
    ]
    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        for write in writes:
            main.reply(calls(write))
        main.reply("Done.")
        bench = run(fake, tmp_path, lambda bench: ask_and_answer(bench, "once", "deny", "once"), can_ask=True)
    shown = [[line for line in asked.detail.splitlines() if line[0] in "+-"] for asked in bench.of(ApprovalRequested)]
    assert shown == [["+first", "+second"], ["-two", "+2"], ["-three", "+3"]]
    assert (tmp_path / "new.txt").read_text() == "first\nsecond\n"
    assert (tmp_path / "kept.txt").read_text() == "one\ntwo\n3\n"


def test_an_edit_is_refused_where_the_file_changed_while_the_user_was_asked(tmp_path: Path) -> None:
    (tmp_path / "kept.txt").write_text("one\n")

    async def scenario(bench: ConversationBench) -> None:
        round_ = asyncio.create_task(bench.conversation.ask("Go."))
        await bench.until(lambda: len(bench.of(ApprovalRequested)) == 1)
        (tmp_path / "kept.txt").write_text("one\nand the user's line\n")
        assert bench.conversation.approvals.answer(1, "once")
        await round_

    with FakeOpenAI() as fake:
        edit = call("edit_file", path="kept.txt", old_text="one", new_text="1")
        fake.script("main", match=for_main()).reply(calls(edit)).reply("Done.")
        bench = run(fake, tmp_path, scenario, can_ask=True)
    assert "has changed while the user was asked" in results(bench)[0]
    assert (tmp_path / "kept.txt").read_text() == "one\nand the user's line\n"


def test_where_nobody_can_answer_it_is_a_denial_at_once(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        fake.script("main", match=for_main()).reply(calls(SHELL, call("write_file", path="a.txt", content="x"))).reply(
            "Done."
        )
        bench = run(fake, tmp_path, lambda bench: ask_and_answer(bench))
    assert bench.of(ApprovalRequested) == [] and list(tmp_path.glob("*.txt")) == []
    assert [text.partition(" is denied")[0] for text in results(bench)] == ["Error: run_command", "Error: write_file"]


def test_a_sub_agent_asks_through_its_owner_and_its_time_stands_still(tmp_path: Path) -> None:
    async def scenario(bench: ConversationBench) -> None:
        waiting = asyncio.create_task(bench.conversation.ask("Go."))
        await bench.until(lambda: bench.of(ApprovalRequested))
        (request,) = bench.conversation.approvals.pending
        assert (request.agent_id, request.tool, request.number) == (1, "run_command", 1)
        job = next(iter(bench.conversation.manager.runs.values())).job
        assert job.timeout_seconds == 60
        bench.conversation.approvals.answer(1, "once")
        await waiting
        await bench.conversation.settled()

    with FakeOpenAI() as fake:
        fake.script("main", match=for_main()).reply(calls(START)).repeat("Noted.")
        fake.script("agent", match=for_sub_agent(1)).reply(calls(SHELL)).reply(FINISH)
        bench = run(fake, tmp_path, scenario, can_ask=True)
    assert results(bench, 1)[0].startswith("[exit code 0]")
    assert bench.of(AgentEnded)[0].end.status == "completed"
    journal = next(tmp_path.glob(".subagents/runs/*/events.jsonl")).read_text()
    assert json.loads(journal.splitlines()[0])["type"] == "started" and "approval_requested" in journal


@pytest.mark.parametrize("how", ["stop", "interrupt"])
def test_a_question_whose_agent_ends_is_withdrawn(tmp_path: Path, how: str) -> None:
    async def scenario(bench: ConversationBench) -> None:
        waiting = asyncio.create_task(bench.conversation.ask("Go."))
        await bench.until(lambda: bench.of(ApprovalRequested))
        if how == "stop":
            await bench.conversation.manager.stop(bench.conversation.manager.runs[1])
        else:
            bench.conversation.interrupt()
        await waiting
        await bench.until(lambda: bench.of(ApprovalDecided))
        assert bench.conversation.approvals.pending == []
        assert not bench.conversation.approvals.answer(1, "once")

    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        main.reply(calls(START)).repeat("Noted.") if how == "stop" else main.reply(calls(SHELL))
        if how == "stop":
            fake.script("agent", match=for_sub_agent(1)).reply(calls(SHELL))
        bench = run(fake, tmp_path, scenario, can_ask=True)
    assert [event.decision for event in bench.of(ApprovalDecided)] == ["withdrawn"]
    assert not (tmp_path / "made.txt").exists()


def test_grants_open_what_they_name_and_no_more(tmp_path: Path) -> None:
    outside, workspace = tmp_path / "outside", tmp_path / "work"
    for folder in (outside / "granted", outside / "secret", workspace):
        folder.mkdir(parents=True)
    (outside / "granted" / "a.txt").write_text("granted text")
    (outside / "secret" / "b.txt").write_text("secret text")
    asked = [
        call("read_file", path=str(outside / "granted" / "a.txt")),
        call("read_file", path=str(outside / "secret" / "b.txt")),
        call("search_code", query="text", path=str(outside / "granted")),
        call("write_file", path=str(outside / "granted" / "c.txt"), content="x"),
        call("write_file", path=str(workspace / "notes.txt"), content="x"),
        call("run_command", command=f"cat {outside}/granted/a.txt; cat {outside}/secret/b.txt; echo y > notes.txt"),
    ]
    access = Access(read=(outside / "granted",), write=(workspace / "notes.txt",))
    with FakeOpenAI() as fake:
        fake.script("main", match=for_main()).reply(calls(START)).repeat("Noted.")
        fake.script("agent", match=for_sub_agent(1)).reply(calls(*asked)).reply(FINISH)
        bench = run(
            fake, workspace, lambda bench: ask_and_answer(bench), access=access, confined=enforcement().confined
        )
    read, secret, found, refused, written, command, _ = results(bench, 1)
    assert "granted text" in read and "granted text" in found and written.startswith("Wrote notes.txt")
    assert "lies outside the workspace" in secret and "--read" in secret and "lies outside" in refused
    assert "granted text" in command and (workspace / "notes.txt").read_text() == "y\n"
    if enforcement().confined:
        assert "secret text" not in command and "Permission denied" in command


@pytest.mark.skipif(not enforcement().confined, reason="without a sandbox commands have the network anyway")
@pytest.mark.parametrize("way", ["none", "grant", "approval"])
def test_the_network_is_opened_by_a_grant_or_an_approval(tmp_path: Path, way: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, FakeOpenAI() as fake:
        connect = f"python3 -c \"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}))\""
        command = call("run_command", command=connect, network=way == "approval")
        fake.script("main", match=for_main()).reply(calls(command)).reply("Done.")
        answers = ["once"] if way == "approval" else []
        access = Access(network=way == "grant")
        bench = run(
            fake, tmp_path, lambda bench: ask_and_answer(bench, *answers), access=access, confined=True, can_ask=True
        )
    assert results(bench)[0].startswith("[exit code 0]") is (way != "none")
    if way == "approval":
        assert bench.of(ApprovalRequested)[0].subject == f"with network: {connect}"
