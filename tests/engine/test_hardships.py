"""What models, endpoints and commands do to a run: it ends, it is told, and the conversation goes on."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from easyagent import notices
from easyagent.models import AgentEnded, MessageAdded, RoundEnded, SubAgentStatus, ToolFinished
from easyagent.openai_server import ToolCallReply
from easyagent.sandbox import agent_policy, command_policy, enforcement
from easyagent.testing import FakeOpenAI, call, calls, error, for_main, for_sub_agent
from easyagent.testing.bench import ConversationBench, conversation_bench

Scenario = Callable[[ConversationBench], Coroutine[Any, Any, None]]
FINISH = calls(call("finish_task", success=True, summary="done"))


def start(number: int, **more: Any) -> Any:
    values = {"agent_id": number, "summary": "Count", "task": "Count.", "run_in_background": True, **more}
    return call("create_sub_agent", **values)


def run(fake: FakeOpenAI, workspace: Path, scenario: Scenario, **options: Any) -> ConversationBench:
    async def main() -> ConversationBench:
        async with conversation_bench(fake, workspace, **options) as bench:
            async with asyncio.timeout(90):
                await scenario(bench)
        return bench

    return asyncio.run(main())


async def go(bench: ConversationBench) -> None:
    await bench.conversation.ask("Go.")
    await bench.conversation.settled()


DEEP = "import os; [(os.mkdir('d'), os.chdir('d')) for _ in range(1500)]"
ODD_FILES = {
    "a name that is no text": "cd out && touch \"$(printf 'r\\351.csv')\"",
    "deeper than a path can be": f"cd out && python3 -c {shlex.quote(DEEP)}",
    "a file in the record's place": "cd out && rm -rf .subagent && touch .subagent",
    "a link in the record's place": "cd out && rm -rf .subagent && ln -s /etc .subagent",
    "a folder in the record's place": "cd out/.subagent && rm -f conversations.json && mkdir conversations.json",
    "a pipe": "mkfifo out/pipe",
}


@pytest.mark.parametrize("kind", ODD_FILES)
def test_whatever_lies_in_the_deliverables_the_end_is_told(tmp_path: Path, kind: str) -> None:
    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        main.reply(calls(start(1, deliverables_dir="out"))).repeat("Noted.")
        agent = fake.script("agent", match=for_sub_agent(1))
        agent.reply(
            calls(call("write_file", path="out/a.txt", content="a"), call("run_command", command=ODD_FILES[kind]))
        )
        agent.reply(FINISH)
        bench = run(fake, tmp_path, go, permissions="auto")
    (end,) = [event.end for event in bench.of(AgentEnded)]
    assert (end.status, end.error) == (SubAgentStatus.COMPLETED, None)
    assert "a.txt" in [file.path for file in end.files] and ".subagent" not in [file.path for file in end.files]
    record = json.loads((tmp_path / "out" / ".subagent" / "conversations.json").read_bytes())
    assert record["completed_at"] == end.ended_at
    subprocess.run(["rm", "-rf", str(tmp_path / "out")], check=True)  # pytest's own clean-up fails on so deep a tree
    if kind == "a name that is no text":
        assert "r\\xe9.csv" in [file.path for file in end.files]


@pytest.mark.parametrize("depth", [100, 300, 100_000])
@pytest.mark.parametrize("who", ["main agent", "sub-agent"])
def test_arguments_nested_too_deeply_are_a_failed_call(tmp_path: Path, depth: int, who: str) -> None:
    deep = calls(ToolCallReply("read_file", '{"path":' + "[" * depth + "]" * depth + "}"))
    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        if who == "sub-agent":
            main.reply(calls(start(1))).repeat("Noted.")
            fake.script("agent", match=for_sub_agent(1)).reply(deep).reply(FINISH)
        else:
            main.reply(deep).reply("Done.")
        bench = run(fake, tmp_path, go)
    results = [event for event in bench.of(ToolFinished) if event.name == "read_file"]
    assert [(event.ok, "nested too deeply" in event.preview) for event in results] == [(False, True)]
    assert bench.of(RoundEnded)[-1].error is None
    assert all(event.end.status is SubAgentStatus.COMPLETED for event in bench.of(AgentEnded))


def test_a_round_that_fails_in_the_machinery_ends_and_the_next_one_starts(tmp_path: Path) -> None:
    async def scenario(bench: ConversationBench) -> None:
        await bench.conversation.ask("Go.")
        journal = next(tmp_path.glob(".subagents/conversations/*/events.jsonl"))
        broken, log = iter([True]), bench.conversation._log
        append = log._journal.append

        def full_disk_once(event: Any) -> Any:
            if next(broken, False):
                raise OSError(28, "No space left on device")
            return append(event)

        log._journal.append = full_disk_once  # type: ignore[method-assign]
        gate.open()
        await bench.until(lambda: len(bench.of(RoundEnded)) == 2)
        assert "cannot be recorded: [Errno 28] No space left" in str(bench.of(RoundEnded)[1].error)
        await bench.conversation.ask("And now?")
        await bench.conversation.settled()
        assert bench.of(RoundEnded)[-1].error is None and journal.is_file()

    with FakeOpenAI() as fake:
        gate = fake.gate()
        fake.script("main", match=for_main()).reply(calls(start(1))).repeat("Noted.")
        fake.script("agent", match=for_sub_agent(1)).reply(FINISH, gate=gate)
        run(fake, tmp_path, scenario)


@pytest.mark.parametrize("accepts", ["system", "user", "tool"])
@pytest.mark.parametrize("status", [400, 422])
def test_a_notice_takes_the_form_that_the_endpoint_accepts(tmp_path: Path, accepts: str, status: int) -> None:
    def answer(request: Any) -> Any:
        messages = request.messages
        at = [index for index, message in enumerate(messages) if "Sub-agent 1 (" in str(message["content"])]
        if not at:
            return calls(call("list_files"))
        message = messages[at[0]]
        if message["role"] != accepts:
            return error(status, f"a {message['role']} message is not allowed here")
        assert at[0] == len(messages) - 1 or messages[-1]["role"] != "user"
        return "I have it."

    async def scenario(bench: ConversationBench) -> None:
        await bench.conversation.ask("Go.")
        sent = len(fake.requests)
        assert bench.of(RoundEnded)[0].error is None and bench.of(RoundEnded)[0].content == "I have it."
        assert notices.accepted(f"{fake.base_url} fake-model") == accepts
        journal = bench.conversation._store.conversation_events(bench.conversation.id)
        from easyagent.journal import summarize
        from easyagent.subagents.earlier import told

        kept = [message for message in summarize(journal).messages if "Sub-agent 1 (" in str(message["content"])]
        assert [message["role"] for message in kept] == [accepts] and len(told(journal)) == 1
        assert sent == len(fake.requests)

    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        main.reply(calls(start(1)))
        main.repeat(answer)
        fake.script("agent", match=for_sub_agent(1)).reply(FINISH)
        run(fake, tmp_path, scenario)


def test_created_and_terminated_in_one_reply_is_told_as_it_was(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        main.reply(calls(start(1), call("terminate_sub_agent", agent_id=1)))
        main.reply(calls(call("terminate_sub_agent", agent_id=1), call("get_sub_agent_status", agent_ids=[1])))
        main.reply("Done.")
        bench = run(fake, tmp_path, go)
    answers = [
        json.loads(str(event.message["content"])) for event in bench.of(MessageAdded) if event.message["role"] == "tool"
    ]
    assert [answer.get("status") for answer in answers[:3]] == ["terminated"] * 3
    assert answers[3]["agents"][0]["status"] == "terminated"
    assert len(bench.of(AgentEnded)) == 1 and len(bench.of(RoundEnded)) == 1  # told, so no notice


@pytest.mark.skipif(not enforcement().confined, reason="no sandbox here")
@pytest.mark.parametrize("path", ["new.csv", "data/summary.csv", "folder"])
def test_a_write_path_that_is_not_there_yet_can_be_written(tmp_path: Path, path: str) -> None:
    file = path if "." in path else f"{path}/a.txt"
    with FakeOpenAI() as fake:
        fake.script("main", match=for_main()).reply(calls(start(1, write_paths=[path]))).repeat("Noted.")
        agent = fake.script("agent", match=for_sub_agent(1))
        agent.reply(calls(call("write_file", path=file, content="1"), call("run_command", command=f"echo 2 >> {file}")))
        agent.reply(FINISH)
        bench = run(fake, tmp_path, go, confined=True)
    assert [event.ok for event in bench.of(ToolFinished, 1)] == [True] * 3
    assert (tmp_path / file).read_text() == "12\n"


@pytest.mark.skipif(not enforcement().confined, reason="no sandbox here")
def test_a_workspace_that_holds_something_private_can_be_listed_and_searched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a word to find\n")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key.txt").write_text("a word to find, and the key\n")
    secret = tmp_path / "private"
    asked = [
        call("list_files"), call("search_code", query="word"), call("read_file", path="private/key.txt"),
        call("run_command", command="ls; cat notes.txt; cat private/key.txt"),
    ]  # fmt: skip
    with FakeOpenAI() as fake:
        fake.script("main", match=for_main()).reply(calls(start(1))).reply(calls(*asked)).repeat("Noted.")
        fake.script("agent", match=for_sub_agent(1)).reply(calls(*asked)).reply(FINISH)
        bench = run(fake, tmp_path, go, confined=True, private_paths=(secret,))
    for agent_id in (1, None):
        texts = [event.preview for event in bench.of(ToolFinished) if event.agent_id == agent_id]
        listed, found, read, command = [text for text in texts if "agent_id" not in text][:4]
        assert "notes.txt" in listed and "notes.txt:1: a word to find" in found and "key.txt" not in found
        assert "is private" in read and "the key" not in command and "notes.txt" in command and "a word" in command


def test_a_policy_grants_names_only_where_something_private_lies_below(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    for policy in (command_policy, agent_policy):
        plain = policy(workspace=tmp_path, roots=(), temporary=tmp_path)
        guarded = policy(workspace=tmp_path, roots=(), temporary=tmp_path, private=[tmp_path / "private"])
        assert (plain.listing, str(tmp_path) in plain.read) == ((), True)
        assert (guarded.listing, str(tmp_path) in guarded.read) == ((str(tmp_path),), False)
