"""The loop over a real endpoint: order of calls and results, reminders, the last turn, what an interrupt leaves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from easyagent.chat import Messages
from easyagent.endpoint import open_model
from easyagent.inbox import Inbox, Notice
from easyagent.loop import AgentLoop, Outcome
from easyagent.models import (
    AgentDefinition,
    AgentEvent,
    Cause,
    FinishResult,
    MessageAdded,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    WrapUp,
)
from easyagent.permissions import Grants
from easyagent.prompts import load
from easyagent.testing import BrokenStream, ChatReply, FakeOpenAI, RecordedRequest, ToolCallReply, call, calls
from easyagent.testing.bench import settings_of
from easyagent.tools import Tool, ToolContext, ToolResult, tool
from easyagent.tools.toolbox import Toolbox

Work = Callable[["Rig"], Coroutine[Any, Any, Outcome]]


class Rig:
    """A loop with tools of the test's own, whose steps the test orders by events."""

    def __init__(self, fake: FakeOpenAI, workspace: Path, **options: Any) -> None:
        self.events: list[AgentEvent] = []
        self.log: list[str] = []
        self.inbox = Inbox()
        self.messages = Messages([{"role": "user", "content": "Go."}])
        self.meet = asyncio.Barrier(2)
        self.model = open_model(settings_of(fake))
        definition = AgentDefinition(name="rig", denied_tools=["run_command"])
        sub = options.get("must_finish", False)
        toolbox = Toolbox.for_sub_agent(definition, self.tools()) if sub else Toolbox.for_main(None, self.tools())
        context = ToolContext(
            workspace=workspace, language="en", grants=Grants("ask", {}, owns_roots=sub), roots=(workspace / "out",)
        )
        self.loop = AgentLoop(
            model=self.model, toolbox=toolbox, context=context, messages=self.messages, inbox=self.inbox,
            emit=self.events.append, **options,
        )  # fmt: skip

    def tools(self) -> list[Tool]:
        @tool("step")
        async def step(name: str, ctx: ToolContext) -> ToolResult:
            self.log.append(f"begin {name}")
            await asyncio.sleep(0)
            self.log.append(f"end {name}")
            return ToolResult(f"result {name}")

        @tool("together", concurrent=True)
        async def together(name: str, ctx: ToolContext) -> ToolResult:
            await self.meet.wait()  # comes back only where two of these run at the same time
            return ToolResult(f"result {name}")

        @tool("wait_for_ever")
        async def wait_for_ever(ctx: ToolContext) -> ToolResult:
            self.log.append("waiting")
            await asyncio.Event().wait()
            raise AssertionError

        @tool("arrive")
        async def arrive(ctx: ToolContext) -> ToolResult:
            self.inbox.put_notice(Notice(1, "conv_1", "system words", "user words"))
            self.inbox.put_instruction("And hurry.")
            return ToolResult("arrived")

        return [step, together, wait_for_ever, arrive]

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    async def run(self) -> Outcome:
        try:
            async with asyncio.timeout(30):
                return await self.loop.run()
        finally:
            await self.model.aclose()


def run(fake: FakeOpenAI, workspace: Path, **options: Any) -> tuple[Rig, Outcome]:
    async def main() -> tuple[Rig, Outcome]:
        rig = Rig(fake, workspace, **options)
        return rig, await rig.run()

    return asyncio.run(main())


def results(request: RecordedRequest) -> list[str]:
    return [message["content"] for message in request.messages if message["role"] == "tool"]


def roles(request: RecordedRequest) -> list[str]:
    return [message["role"] for message in request.messages]


def step(name: str) -> ToolCallReply:
    return call("step", name=name)


FINISH = calls(call("finish_task", success=True, summary="done"))


def test_calls_run_in_order_concurrent_ones_together_and_results_keep_the_order(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        script = fake.script("s")
        script.reply(calls(step("a"), call("together", name="b"), step("c"), call("together", name="d"), step("e")))
        script.reply("Done.")
        rig, outcome = run(fake, tmp_path)
        assert (outcome.content, outcome.cause) == ("Done.", None)
        assert results(script.requests[1]) == [f"result {name}" for name in "abcde"]
        assert rig.log == [f"{when} {name}" for name in "ace" for when in ("begin", "end")]
        assert [event.name for event in rig.of(ToolStarted)] == ["step", "together", "step", "together", "step"]
        ids = [entry["id"] for entry in script.requests[1].messages[1]["tool_calls"]]
        assert [m["tool_call_id"] for m in script.requests[1].messages[2:]] == ids


def test_what_arrives_comes_after_all_results_of_the_turn(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        script = fake.script("s").reply(calls(call("arrive"), step("a"))).reply("Done.")
        run(fake, tmp_path)
        assert [(m["role"], m.get("content")) for m in script.requests[1].messages[2:]] == [
            ("tool", "arrived"), ("tool", "result a"), ("system", "system words"), ("user", "And hurry."),
        ]  # fmt: skip


def test_finish_task_ends_the_turn_and_the_first_one_holds(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        second = call("finish_task", success=False, summary="second")
        fake.script("s").reply(calls(step("a"), call("finish_task", success=True, summary="first"), step("b"), second))
        rig, outcome = run(fake, tmp_path, must_finish=True)
        assert outcome == Outcome("first", Cause.FINISH_TASK, FinishResult(success=True, summary="first"))
        assert rig.log == ["begin a", "end a"]
        contents = [message["content"] for message in rig.messages.copy() if message["role"] == "tool"]
        assert contents[0] == "result a" and json.loads(contents[1])["will_terminate"] is True
        assert contents[2] == contents[3] == "Error: not run, because finish_task had already ended this task."


def test_three_reminders_then_no_finish_task(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        script = fake.script("s").reply("Thinking.").reply("").reply("Still.").reply("Last words.")
        rig, outcome = run(fake, tmp_path, must_finish=True)
        assert (outcome.content, outcome.cause) == ("Last words.", Cause.NO_FINISH_TASK)
        reminder = {"role": "user", "content": load("reminder", "en")}
        assert [message for message in rig.messages.copy() if message["role"] == "user"][1:] == [reminder] * 3
        # The empty reply is not sent back: endpoints refuse to see it again.
        assert roles(script.requests[3]) == ["user", "assistant", "user", "user", "assistant", "user"]
    with FakeOpenAI() as fake:  # the control: the reminder is heard
        fake.script("s").reply("Thinking.").reply(FINISH)
        assert run(fake, tmp_path, must_finish=True)[1].cause is Cause.FINISH_TASK


def test_wrap_up_at_80_percent_of_turns_and_the_last_turn_offers_and_runs_finish_task_alone(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        script = fake.script("s").repeat(calls(step("a"), text="Going on."))
        rig, outcome = run(fake, tmp_path, must_finish=True, max_turns=5)
        assert (outcome.content, outcome.cause) == ("Going on.", Cause.MAX_ITERATIONS)
        assert [event.turn for event in rig.of(TurnStarted)] == [1, 2, 3, 4, 5]
        assert [load("wrap_up", "en") in request.text for request in script.requests] == [False] * 4 + [True]
        assert [event.reason for event in rig.of(WrapUp)] == ["turns"]
        assert [request.tool_names == ("finish_task",) for request in script.requests] == [False] * 4 + [True]
        assert rig.log.count("begin a") == 4
        assert rig.messages[len(rig.messages) - 1]["content"].startswith("Error: not run; in this last turn")
    with FakeOpenAI() as fake:
        fake.script("s").reply(calls(step("a"))).reply(FINISH)
        assert run(fake, tmp_path, must_finish=True, max_turns=2)[1].cause is Cause.FINISH_TASK


def test_wrap_up_at_80_percent_of_the_time(tmp_path: Path) -> None:
    shares = iter([0.5, 0.79, 0.8, 0.9])
    with FakeOpenAI() as fake:
        script = fake.script("s").reply(calls(step("a"))).reply(calls(step("b"))).reply(FINISH)
        rig, _ = run(fake, tmp_path, must_finish=True, time_used=lambda: next(shares))
        assert [load("wrap_up", "en") in request.text for request in script.requests] == [False, False, True]
        assert [event.reason for event in rig.of(WrapUp)] == ["time"]


def test_an_interrupt_answers_every_open_call_and_keeps_what_was_said(tmp_path: Path) -> None:
    async def main(fake: FakeOpenAI) -> Rig:
        rig = Rig(fake, tmp_path)
        work = asyncio.create_task(rig.run())
        while "waiting" not in rig.log:
            await asyncio.sleep(0.01)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return rig

    with FakeOpenAI() as fake:
        fake.script("s").reply(calls(step("a"), call("wait_for_ever"), step("b"), text="Working."))
        rig = asyncio.run(main(fake))
    assert [message["role"] for message in rig.messages.copy()] == ["user", "assistant", "tool", "tool", "tool"]
    assert [message["content"] for message in rig.messages.copy()[1:]] == [
        "Working.", "result a", *["Error: interrupted by the user."] * 2,
    ]  # fmt: skip
    assert [(event.name, event.ok) for event in rig.of(ToolFinished)] == [("step", True), ("wait_for_ever", False)]


def test_at_most_128_calls_of_a_reply_run_and_every_one_is_answered(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        script = fake.script("s").reply(calls(*(step(str(number)) for number in range(130)))).reply("Done.")
        rig, _ = run(fake, tmp_path)
        answers = results(script.requests[1])
        assert answers[:128] == [f"result {number}" for number in range(128)]
        assert answers[128:] == ["Error: not run; at most 128 calls are taken from one reply."] * 2
        assert len(rig.log) == 2 * 128


def test_duplicate_and_missing_call_ids_get_ids_of_their_own(tmp_path: Path) -> None:
    def chunk(**delta: Any) -> bytes:
        return (
            b"data: "
            + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}).encode()
            + b"\n\n"
        )

    pieces = [
        {"index": index, **({"id": "same"} if index < 2 else {}), "function": {"name": "step", "arguments": text}}
        for index, text in enumerate(['{"name": "a"}', '{"name": "b"}', '{"name": "c"}'])
    ]
    stream = BrokenStream((*(chunk(tool_calls=[piece]) for piece in pieces), b"data: [DONE]\n\n"))
    with FakeOpenAI() as fake:
        script = fake.script("s").reply(stream).reply("Done.")
        run(fake, tmp_path)
        ids = [entry["id"] for entry in script.requests[1].messages[1]["tool_calls"]]
        assert (len(set(ids)), all(ids), "same" in ids) == (3, True, True)
        assert [m["tool_call_id"] for m in script.requests[1].messages[2:]] == ids
        assert results(script.requests[1]) == ["result a", "result b", "result c"]


BAD_TEXT = "x\ud800y\u202e\x07"


def test_odd_characters_in_arguments_and_replies_break_nothing(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        arguments = json.dumps({"path": "out/a.txt", "content": BAD_TEXT})
        script = fake.script("s").reply(ChatReply("\ud800 hm", (ToolCallReply("write_file", arguments),)))
        script.reply(calls(call("step", name=BAD_TEXT))).reply(calls(ToolCallReply("finish_task", json.dumps(
            {"success": True, "summary": BAD_TEXT, "report": BAD_TEXT}
        ))))  # fmt: skip
        rig, outcome = run(fake, tmp_path, must_finish=True)
        assert outcome.finish is not None and outcome.finish.summary == "x?y\u202e\x07"
        assert (tmp_path / "out" / "a.txt").read_text("utf-8") == "x?y\u202e\x07"
        assert outcome.finish.model_dump_json() and all(event.line() for event in rig.events)
        assert results(script.requests[2])[-1] == "result x?y\u202e\x07"
        added = [event.message["content"] for event in rig.of(MessageAdded) if event.message["role"] == "assistant"]
        assert added[0] == "? hm"
