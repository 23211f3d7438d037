"""A conversation as a whole: rounds, notices in their exact words, interrupts, and what is on disk at the end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from easyagent.directory import Directory
from easyagent.exceptions import EasyAgentError
from easyagent.journal import read_journal
from easyagent.models import (
    KERNEL_GONE,
    AgentEnded,
    MessageAdded,
    RoundEnded,
    RoundStarted,
    Started,
    SubAgentStatus,
    Usage,
    UsageReported,
)
from easyagent.testing import ChatReply, FakeOpenAI, Gate, call, calls, error, for_main, for_sub_agent, hang
from easyagent.testing.bench import ConversationBench, conversation_bench

Scenario = Callable[[ConversationBench], Coroutine[Any, Any, None]]


def run(fake: FakeOpenAI, workspace: Path, scenario: Scenario, **config: Any) -> ConversationBench:
    async def main() -> ConversationBench:
        async with conversation_bench(fake, workspace, **config) as bench:
            async with asyncio.timeout(60):
                await scenario(bench)
        pids = [event.pid for event in bench.of(Started)]
        assert [pid for pid in pids if alive(pid)] == []
        return bench

    return asyncio.run(main())


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def create(agent_id: int, summary: str = "Plots", task: str = "Count them.", *, background: bool = True) -> Any:
    return call("create_sub_agent", agent_id=agent_id, summary=summary, task=task, run_in_background=background)


def finish(summary: str, *, success: bool = True) -> ChatReply:
    return calls(call("finish_task", success=success, summary=summary))


async def reached(gate: Gate) -> None:
    assert await asyncio.to_thread(gate.reached.wait, 30)


def ends(bench: ConversationBench) -> list[int | None]:
    return [event.agent_id for event in bench.of(AgentEnded)]


IDLE = {
    "en": (
        "Sub-agent 1 (Plots) has completed its task.\n\n42 plots\n\nDeliverables directory: sub_agent_results/agent_1"
    ),
    "zh": "子智能体1 (样地) 已完成任务。\n\n42 块样地\n\n交付目录：sub_agent_results/agent_1",
}
WORKING = {
    "en": (
        "Sub-agent 1 (Plots) has completed.\n\nRuntime: {s} seconds\nRead 1 files\nSearched 0 times\n"
        "Viewed 0 web pages\nRan 0 commands\n\n"
        "Deliverables directory: sub_agent_results/agent_1\nResult summary: 42 plots"
    ),
    "zh": (
        "子智能体1 (样地) 已完成。\n\n运行时间：{s}秒\n阅读了 1 个文件\n搜索了 0 次\n"
        "查看了 0 个网页\n运行了 0 个指令\n\n交付目录：sub_agent_results/agent_1\n结果摘要：42 块样地"
    ),
}
WORDS = {"en": ("Plots", "Count them.", "42 plots"), "zh": ("样地", "统计样地。", "42 块样地")}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_end_while_idle_starts_a_round_with_the_plans_user_message(tmp_path: Path, language: str) -> None:
    summary, task, result = WORDS[language]
    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        main.reply(calls(create(1, summary, task))).reply("Started.").reply("All done.")
        held = fake.gate()
        fake.script("one", match=for_sub_agent(1)).reply(finish(result), gate=held)

        async def scenario(bench: ConversationBench) -> None:
            first = await bench.conversation.ask(task)
            assert (first.content, first.error) == ("Started.", None)
            assert bench.conversation.state == "waiting_for_sub_agents"
            held.open()
            await bench.conversation.settled()
            assert (bench.conversation.state, bench.conversation.has_pending) == ("idle", False)

        bench = run(fake, tmp_path, scenario)
        assert main.requests[2].messages[-1] == {"role": "user", "content": IDLE[language]}
        assert [event.origin for event in bench.of(RoundStarted)] == ["user", "notice"]
        assert [event.content for event in bench.of(RoundEnded)] == ["Started.", "All done."]
        assert main.requests[2].text.count(result) == 1


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_end_while_working_is_a_system_message_after_all_results_of_the_turn(tmp_path: Path, language: str) -> None:
    summary, task, result = WORDS[language]
    (tmp_path / "a.txt").write_text("x")
    with FakeOpenAI() as fake:
        second_turn = fake.gate()
        main = fake.script("main", match=for_main())
        main.reply(calls(create(1, summary, task)))
        main.reply(calls(call("list_files"), call("read_file", path="a.txt")), gate=second_turn).reply("Done.")
        fake.script("one", match=for_sub_agent(1)).reply(calls(call("read_file", path="a.txt"))).reply(finish(result))

        async def scenario(bench: ConversationBench) -> None:
            asking = asyncio.create_task(bench.conversation.ask(task))
            await bench.until(lambda: ends(bench) == [1])
            second_turn.open()
            await asking
            await bench.conversation.settled()

        bench = run(fake, tmp_path, scenario)
        *_, first_result, second_result, notice = main.requests[2].messages
        assert [first_result["role"], second_result["role"], notice["role"]] == ["tool", "tool", "system"]
        seconds = bench.of(AgentEnded)[0].end.stats.runtime_seconds
        assert notice["content"] == WORKING[language].replace("{s}", str(seconds))
        assert len(bench.of(RoundStarted)) == 1  # told once: no round of its own


def test_several_ends_are_one_round_and_a_blocking_end_sends_no_notice(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        held, children = fake.gate(), fake.gate()
        main = fake.script("main", match=for_main())
        main.reply(calls(create(1), create(2), create(3, background=False))).reply("Started.", gate=held).reply("Done.")
        fake.script("one", match=for_sub_agent(1)).reply(finish("first"), gate=children)
        fake.script("two", match=for_sub_agent(2)).reply(finish("no luck", success=False), gate=children)
        fake.script("three", match=for_sub_agent(3)).reply(finish("third"))

        async def scenario(bench: ConversationBench) -> None:
            asking = asyncio.create_task(bench.conversation.ask("Count them."))
            await reached(held)
            children.open()
            await bench.until(lambda: sorted(map(str, ends(bench))) == ["1", "2", "3"])
            held.open()
            await asking
            await bench.conversation.settled()

        bench = run(fake, tmp_path, scenario)
        results = [json.loads(m["content"]) for m in main.requests[1].messages if m["role"] == "tool"]
        assert [(result["agent_id"], result["status"]) for result in results] == [
            (1, "running"), (2, "running"), (3, "completed"),
        ]  # fmt: skip
        told = main.requests[2].messages[-1]
        assert (told["role"], main.requests[2].text.count("Sub-agent 3")) == ("user", 1)  # 3: its tool result alone
        assert told["content"].count("Sub-agent 1 (Plots) has completed its task.") == 1
        assert told["content"].count("Sub-agent 2 (Plots) has failed.") == 1
        assert "Cause: the sub-agent reported that the task did not succeed" in told["content"]
        assert (len(bench.of(RoundStarted)), len(main.requests)) == (2, 3)


def test_the_users_own_stop_is_told_at_the_next_turn_and_wakes_nobody(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        main.reply(calls(create(1))).reply("Started.").reply("I see.")
        fake.script("one", match=for_sub_agent(1)).repeat(hang())

        async def scenario(bench: ConversationBench) -> None:
            await bench.conversation.ask("Count them.")
            [child] = bench.conversation.manager.live_runs
            await bench.conversation.manager.stop(child, quiet=True)
            await bench.conversation.settled()
            assert (len(main.requests), bench.conversation.has_pending) == (2, False)
            await bench.conversation.ask("And now?")

        run(fake, tmp_path, scenario)
        notice, prompt = main.requests[2].messages[-2:]
        assert (notice["role"], prompt) == ("system", {"role": "user", "content": "And now?"})
        assert notice["content"].startswith("Sub-agent 1 (Plots) was terminated.\n")
        assert notice["content"].endswith("\n\nCause: it was terminated")


def test_rounds_without_the_user_are_limited_until_she_continues(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        held = fake.gate()
        main = fake.script("main", match=for_main())
        main.reply(calls(create(1), create(2))).reply("Started.").reply("One.").reply("Two.")
        fake.script("one", match=for_sub_agent(1)).reply(finish("first"))
        fake.script("two", match=for_sub_agent(2)).reply(finish("second"), gate=held)

        async def scenario(bench: ConversationBench) -> None:
            conversation = bench.conversation
            await conversation.ask("Count them.")
            await bench.until(lambda: len(bench.of(RoundEnded)) == 2)
            held.open()
            await conversation.settled()
            assert (conversation.can_continue, len(main.requests)) == (True, 3)
            conversation.continue_rounds()
            await conversation.settled()
            assert (conversation.can_continue, bench.of(RoundEnded)[-1].content) == (False, "Two.")

        run(fake, tmp_path, scenario, max_auto_rounds=1)


def test_an_interrupt_ends_blocking_children_and_spares_background_ones(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        waits = [fake.gate(), fake.gate()]
        main = fake.script("main", match=for_main())
        main.reply(calls(create(1), create(2, background=False), call("list_files"))).reply("I see.")
        main.reply("All is told.")
        one = fake.script("one", match=for_sub_agent(1)).reply(finish("went on"), gate=waits[0])
        two = fake.script("two", match=for_sub_agent(2)).reply(finish("never"), gate=waits[1])

        async def scenario(bench: ConversationBench) -> None:
            asking = asyncio.create_task(bench.conversation.ask("Count them."))
            await reached(waits[0])
            await reached(waits[1])
            bench.conversation.interrupt()
            ended = await asking
            assert (ended.interrupted, ended.error) == (True, "Interrupted by the user.")
            assert [run.job.agent_id for run in bench.conversation.manager.live_runs] == [1]
            again = await bench.conversation.ask("Go on.")
            assert again.content == "I see."
            waits[0].open()
            await bench.conversation.settled()

        bench = run(fake, tmp_path, scenario)
        results = [m for m in main.requests[1].messages if m["role"] == "tool"]
        assert json.loads(results[0]["content"])["status"] == "running"
        assert [result["content"].split(":")[0] for result in results[1:]] == ["Error", "[."]
        assert results[1]["content"] == "Error: interrupted by the user."
        assert main.requests[1].text.count("Sub-agent 2 (Plots) was terminated") == 1
        assert bench.of(AgentEnded, 1)[0].end.status is SubAgentStatus.COMPLETED
        assert bench.of(AgentEnded, 2)[0].end.receipt.still_alive == 0
        assert (one.unused, two.requests[0].cancelled) == (0, True)


def test_a_failed_round_is_one_sentence_and_the_conversation_goes_on(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        main = fake.script("main").reply(error(401, "Incorrect API key bench-key")).reply("Hello.")

        async def scenario(bench: ConversationBench) -> None:
            failed = await bench.conversation.ask("Hi")
            assert failed.error is not None and "(401)" in failed.error and "bench-key" not in failed.error
            assert (await bench.conversation.ask("Hi again")).content == "Hello."

        run(fake, tmp_path, scenario)
        assert [m["role"] for m in main.requests[1].messages] == ["system", "user", "user"]


def test_prompts_wait_their_turn_and_closing_runs_none_of_them(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        held, last = fake.gate(), fake.gate()
        main = fake.script("main", match=for_main())
        main.reply("One.", gate=held).reply("Two.").reply(calls(create(1))).reply("Never.", gate=last)
        fake.script("one", match=for_sub_agent(1)).repeat(hang())

        async def scenario(bench: ConversationBench) -> None:
            asked = [asyncio.create_task(bench.conversation.ask(f"Prompt {number}")) for number in (1, 2)]
            await reached(held)
            assert len(main.requests) == 1
            held.open()
            assert [(await ask).content for ask in asked] == ["One.", "Two."]
            running, waiting = (asyncio.create_task(bench.conversation.ask(text)) for text in ("third", "fourth"))
            await reached(last)
            stopped = await bench.conversation.aclose(KERNEL_GONE)
            assert [run.job.agent_id for run in stopped] == [1]
            assert stopped[0].end is not None and stopped[0].end.status is SubAgentStatus.INTERRUPTED
            assert (await running).interrupted
            with pytest.raises(EasyAgentError, match="closed"):
                await waiting
            assert await bench.conversation.aclose() == []

        bench = run(fake, tmp_path, scenario)
        assert len(main.requests) == 4
        assert [event.prompt for event in bench.of(RoundStarted)] == ["Prompt 1", "Prompt 2", "third"]


def test_an_interrupt_at_once_loses_no_notice(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        main.reply(calls(create(1))).reply("Started.").reply("I see.")
        fake.script("one", match=for_sub_agent(1)).repeat(hang())

        async def scenario(bench: ConversationBench) -> None:
            conversation = bench.conversation
            await conversation.ask("Count them.")
            [child] = conversation.manager.live_runs
            await conversation.manager.stop(child, quiet=True)
            asking = asyncio.create_task(conversation.ask("Lost?"))
            await asyncio.sleep(0)
            conversation.interrupt()
            assert (await asking).interrupted
            await conversation.ask("And now?")

        run(fake, tmp_path, scenario)
        assert main.requests[2].text.count("was terminated") == 2  # the notice's head and its cause
        assert "Lost?" in main.requests[2].text


def test_the_record_of_an_agent_is_the_plans_to_the_letter_however_it_ended(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    usage = {"prompt_tokens": 100, "completion_tokens": 7}
    with FakeOpenAI() as fake:
        held = fake.gate()
        main = fake.script("main", match=for_main())
        main.reply(calls(create(1), create(2))).reply("Started.").repeat("I see.")
        one = fake.script("one", match=for_sub_agent(1))
        one.reply(replace(calls(call("read_file", path="a.txt")), usage=usage)).reply(
            replace(finish("fin"), usage=usage)
        )
        two = fake.script("two", match=for_sub_agent(2))
        two.reply(replace(calls(call("search_code", query="x"), text="So."), usage=usage)).reply("never", gate=held)

        async def scenario(bench: ConversationBench) -> None:
            await bench.conversation.ask("Count them.")
            await reached(held)
            os.kill(bench.of(Started, 2)[0].pid, signal.SIGKILL)
            await bench.conversation.settled()

        bench = run(fake, tmp_path, scenario)
        two.take(two.requests[-1])
        for number, roles, tokens, counts in (
            (1, "system user assistant tool assistant tool", 2, (1, 0)), (2, "system user assistant tool", 1, (0, 1)),
        ):  # fmt: skip
            directory = tmp_path / "sub_agent_results" / f"agent_{number}" / ".subagent"
            record = json.loads((directory / "conversations.json").read_bytes())
            assert list(record) == ["agent_id", "summary", "created_at", "completed_at", "messages", "stats"]
            assert [message["role"] for message in record["messages"]] == roles.split()
            assert (record["agent_id"], record["summary"]) == (number, "Plots")
            assert record["created_at"].endswith("Z") and record["created_at"] <= record["completed_at"]
            assert list(record["stats"]) == [
                "runtime_seconds", "files_read", "searches", "web_pages", "commands", "token_usage",
            ]  # fmt: skip
            assert (record["stats"]["files_read"], record["stats"]["searches"]) == counts
            expected = {"prompt": 100 * tokens, "completion": 7 * tokens, "total": 107 * tokens}
            assert record["stats"]["token_usage"] == expected
            end = bench.of(AgentEnded, number)[0].end
            assert {key: value for key, value in end.usage.model_dump().items() if key != "cost_usd"} == expected
            assert (directory / ".gitignore").read_text() == "*\n"
        told = [m for request in main.requests for m in request.messages if "Sub-agent 2" in str(m["content"])][-1]
        assert told["content"].startswith("Sub-agent 2 (Plots) has failed.") and "So." in told["content"]


def test_tokens_of_all_agents_add_up_to_what_the_endpoint_reported(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        for number, reply in enumerate((calls(create(1, background=False)), ChatReply("Done.")), 1):
            main.reply(replace(reply, usage={"prompt_tokens": 10**number, "completion_tokens": number}))
        one = fake.script("one", match=for_sub_agent(1))
        one.reply(replace(finish("fin"), usage={"prompt_tokens": 5000, "completion_tokens": 70}))

        async def scenario(bench: ConversationBench) -> None:
            await bench.conversation.ask("Count them.")

        bench = run(fake, tmp_path, scenario)
        total = sum((event.usage for event in bench.of(UsageReported)), Usage())
        assert (total.prompt, total.completion, total.total) == (5110, 73, 5183)
        assert total.cost_usd is None  # a model without a price is unknown, never free
        [journal] = tmp_path.glob(".subagents/conversations/*/events.jsonl")
        events = read_journal(Directory.open(journal.parent))
        assert [event.seq for event in events] == list(range(len(events)))
        assert [e.message for e in events if isinstance(e, MessageAdded)] == [
            *main.requests[1].messages, {"role": "assistant", "content": "Done."},
        ]  # fmt: skip
        assert "bench-key" not in "".join(p.read_text("utf-8") for p in tmp_path.rglob("*") if p.is_file())
