"""The widget's Python side: what it sends, what it accepts, and how the poller paces it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import comm
import pytest
from comm.base_comm import BaseComm

from easyagent.models import AgentCreated, AgentEvent, MessageAdded, RoundEnded, RoundStarted, TextDelta
from jupyter_subagents.card_state import CardState, reduce
from jupyter_subagents.cards import AgentCard, TranscriptFeed, push_changes
from jupyter_subagents.strings import ui_strings

START = RoundStarted(round_id="r", prompt="cell", origin="user")
END = RoundEnded(round_id="r", content="")


def agent(number: int) -> AgentCreated:
    return AgentCreated(
        agent_id=number,
        run_id=f"c{number}",
        agent="explore",
        summary="s",
        deliverables_dir="d",
        timeout_seconds=60,
        background=True,
    )


def said(text: str) -> MessageAdded:
    return MessageAdded(message={"role": "assistant", "content": text})


class RecordingComm(BaseComm):
    """A comm whose other end is a list, as `comm` foresees for environments without a kernel."""

    sent: list[dict[str, Any]]

    def publish_msg(self, msg_type: str, data: Any = None, *_: object, **__: object) -> None:
        if not hasattr(self, "sent"):
            self.sent = []
        if msg_type == "comm_msg" and data:
            self.sent.append(data)

    def _reply_subshell_for(self, data: object, default: object) -> object:
        return "the subshell of the last outgoing message"


class Desk:
    """A card, what it sent, and what its user did."""

    def __init__(self) -> None:
        self.actions: list[dict[str, Any]] = []
        self.card = AgentCard(on_action=self.actions.append, strings=ui_strings("en"))
        self.state = CardState()

    def push(self, *events: AgentEvent, force: bool = False) -> None:
        self.fold(*events)
        self.card.push(self.state, force=force)

    def fold(self, *events: AgentEvent) -> None:
        for event in events:
            self.state = reduce(self.state, event)

    def click(self, content: object) -> None:
        """A custom message of the front end, on the path real ones take."""
        self.card._handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [data["content"] for data in self.card.comm.sent if data.get("method") == "custom"]

    @property
    def states(self) -> list[dict[str, Any]]:
        updates = [data["state"] for data in self.card.comm.sent if data.get("method") == "update"]
        return [update["state"] for update in updates if "state" in update]


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setattr(comm, "create_comm", RecordingComm)
    desk = Desk()
    desk.card.comm.sent = []
    yield desk
    desk.card.close()


def shown(messages: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], str]:
    """What a view shows after these messages: it keeps the rows before `from`."""
    rows: list[dict[str, Any]] = []
    tail = ""
    for message in messages:
        assert message["from"] <= len(rows), "a view that got all messages has no gap"
        rows = rows[: message["from"]] + message["entries"]
        tail = message["tail"]
    return rows, tail


def test_state_goes_out_only_when_it_changed(desk: Desk) -> None:
    desk.push(START, agent(1))
    desk.push()
    desk.push(TextDelta(text="words are no part of the state"))
    assert [len(state["agents"]) for state in desk.states] == [1]
    desk.push(agent(2))
    desk.push(force=True)
    assert [len(state["agents"]) for state in desk.states] == [1, 2, 2]


def test_transcript_goes_out_as_appended_blocks(desk: Desk) -> None:
    desk.push(START, TextDelta(text="one\n\ntw"))
    desk.push(TextDelta(text="o"))
    desk.push(said("one\n\ntwo"))
    assert [(message["from"], len(message["entries"]), message["tail"]) for message in desk.messages] == [
        (0, 1, "tw"),
        (1, 0, "two"),
        (1, 1, ""),
    ]
    rows, tail = shown(desk.messages)
    assert [row["html"] for row in rows] == ["<p>one</p>\n", "<p>two</p>\n"]
    assert tail == ""


def test_ready_gets_the_whole_transcript_each_time(desk: Desk) -> None:
    desk.push(START, TextDelta(text="one\n\ntw"))
    assert not desk.card.attached
    for _ in range(2):
        desk.card.comm.sent.clear()
        desk.click({"type": "ready"})
        (message,) = desk.messages
        assert shown([message]) == ([{"kind": "text", "html": "<p>one</p>\n"}], "tw")
        assert isinstance(message["now"], float)
    assert desk.card.attached
    assert desk.actions == [{"type": "ready"}] * 2


def test_clicks_arrive_as_actions_and_nonsense_is_ignored(desk: Desk) -> None:
    good = [{"type": "stop", "agent_id": 3}, {"type": "stop_all"}, {"type": "continue"}]
    for content in good:
        desk.click(content)
    bad = [
        None,
        [],
        "stop",
        {},
        {"type": "stop"},
        {"type": "stop", "agent_id": "3"},
        {"type": "stop", "agent_id": True},
        {"type": "eval", "code": "x"},
        {"type": ["ready"]},
        {"type": "stop", "agent_id": 1.0},
    ]
    for content in bad:
        desk.click(content)
    assert desk.actions == good


def test_a_click_is_answered_where_the_front_end_asked(desk: Desk) -> None:
    assert desk.card.comm._reply_subshell_for({}, "asked") == "asked"
    assert RecordingComm._reply_subshell_for(desk.card.comm, {}, "asked") != "asked"


def test_the_first_prompt_is_not_repeated_and_later_ones_are(desk: Desk) -> None:
    desk.push(START, END, START.model_copy(update={"prompt": "and\nthen?"}))
    assert shown(desk.messages)[0] == [{"kind": "prompt", "text": "and then?"}]


def test_a_feed_shows_the_same_whenever_it_was_asked() -> None:
    events = [
        START,
        TextDelta(text="a\n\nb"),
        said("a\n\nb"),
        agent(1),
        TextDelta(text="see [x]"),
        said("no [x]\n\n[x]: http://a.b"),
        END,
    ]
    often, state, messages = TranscriptFeed(), CardState(), []
    for event in events:
        state = reduce(state, event)
        messages.append(often.update(state))
    once = TranscriptFeed()
    once.update(state)
    assert "".join(row["html"] for row in shown([m for m in messages if m])[0]) == "".join(
        row["html"] for row in once.whole()["entries"]
    )
    assert often.update(state) is None


def test_wait_attached(desk: Desk) -> None:
    async def scenario() -> list[bool]:
        late = await desk.card.wait_attached(0.01)
        waiting = asyncio.create_task(desk.card.wait_attached(30))
        await asyncio.sleep(0)
        thread = threading.Thread(target=desk.click, args=({"type": "ready"},))
        thread.start()
        answers = [late, await waiting, await desk.card.wait_attached(0)]
        await asyncio.to_thread(thread.join)
        return answers

    assert asyncio.run(scenario()) == [False, True, True]


def test_the_poller_coalesces_and_always_pushes_the_last_state(desk: Desk) -> None:
    async def scenario() -> None:
        changed = asyncio.Event()
        loop = asyncio.get_running_loop()
        began = loop.time()
        task = asyncio.create_task(push_changes(desk.card, lambda: desk.state, changed, interval_seconds=0.05))
        while loop.time() - began < 0.5:
            desk.fold(agent(len(desk.state.agents) + 1))
            changed.set()
            await asyncio.sleep(0.002)
        desk.fold(TextDelta(text="last"))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())
    assert len(desk.state.agents) > 20, "there was much to coalesce"
    assert 2 <= len(desk.states) <= 12
    assert desk.states[-1]["agents"][-1]["agent_id"] == len(desk.state.agents)
    assert desk.messages[-1]["tail"] == "last"


def test_a_change_and_a_cancellation_at_the_same_moment_end_the_poller(desk: Desk) -> None:
    desk.fold(START)

    async def scenario() -> None:
        changed = asyncio.Event()
        task = asyncio.create_task(push_changes(desk.card, lambda: desk.state, changed, interval_seconds=0))
        await asyncio.sleep(0.02)
        desk.fold(agent(1))
        changed.set()
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 10)

    asyncio.run(scenario())
    assert len(desk.states[-1]["agents"]) == 1


@pytest.mark.parametrize("alive", [True, False])
def test_a_quiet_conversation_beats_only_while_something_lives(desk: Desk, alive: bool) -> None:
    desk.fold(START, *([] if alive else [END]))

    async def scenario() -> None:
        beats = push_changes(
            desk.card, lambda: desk.state, asyncio.Event(), interval_seconds=0.01, heartbeat_seconds=0.02
        )
        task = asyncio.create_task(beats)
        deadline = asyncio.get_running_loop().time() + (10 if alive else 0.3)
        while len(desk.states) < 4 and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())
    assert len(desk.states) >= 4 if alive else len(desk.states) == 1


def test_changes_that_are_not_shown_do_not_put_the_heartbeat_off(desk: Desk) -> None:
    desk.fold(START)

    async def scenario() -> None:
        changed = asyncio.Event()
        task = asyncio.create_task(
            push_changes(desk.card, lambda: desk.state, changed, interval_seconds=0, heartbeat_seconds=0.05)
        )
        async with asyncio.timeout(10):
            while len(desk.states) < 4:
                desk.state = replace(desk.state, updated_at=desk.state.updated_at + 1)
                changed.set()
                await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())
    assert desk.state.updated_at > 10, "there were more changes than beats"
