"""The card's fold: what each event changes, and that no order of events breaks it."""

from __future__ import annotations

import json
import random

import pytest

from easyagent.models import (
    AgentCreated,
    AgentEnded,
    AgentEvent,
    Cause,
    Conclusion,
    DeliveredFile,
    MessageAdded,
    Output,
    Retrying,
    RoundEnded,
    RoundStarted,
    Started,
    Stats,
    SubAgentEnd,
    SubAgentStatus,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    Usage,
    UsageReported,
    WrapUp,
)
from jupyter_subagents.card_state import CardState, reduce, to_view


def fold(*events: AgentEvent, state: CardState | None = None) -> CardState:
    state = state or CardState()
    for event in events:
        state = reduce(state, event)
    return state


def user_round(time: float = 100.0, prompt: str = "compare") -> RoundStarted:
    return RoundStarted(time=time, round_id="r1", prompt=prompt, origin="user")


def round_end(time: float, content: str = "", **more: object) -> RoundEnded:
    return RoundEnded(time=time, round_id="r1", content=content, **more)


def created(agent_id: int, time: float = 101.0, run_id: str = "", background: bool = True) -> AgentCreated:
    return AgentCreated(
        time=time,
        agent_id=agent_id,
        run_id=run_id or f"conv_{agent_id}",
        agent="explore",
        summary=f"look at part {agent_id}",
        deliverables_dir=f"sub_agent_results/agent_{agent_id}",
        timeout_seconds=600,
        background=background,
        model="m-small",
    )


def ended(agent_id: int, time: float = 130.0, run_id: str = "", **fields: object) -> AgentEnded:
    values: dict[str, object] = {
        "status": SubAgentStatus.COMPLETED,
        "cause": Cause.FINISH_TASK,
        "ended_at": "2024-01-01T00:00:00Z",
    }
    end = SubAgentEnd.model_validate(values | fields)
    return AgentEnded(time=time, agent_id=agent_id, run_id=run_id or f"conv_{agent_id}", end=end)


def assistant(text: str | None) -> MessageAdded:
    return MessageAdded(message={"role": "assistant", "content": text})


def kinds(state: CardState) -> list[str]:
    return [entry.kind for entry in state.transcript]


def test_streamed_text_is_replaced_by_the_whole_message() -> None:
    state = fold(user_round(), TextDelta(text="Hel"), TextDelta(text="lo"))
    assert state.open_text == "Hello"
    state = fold(assistant("Hello, world"), state=state)
    assert state.open_text == ""
    assert [entry.text for entry in state.transcript if entry.kind == "text"] == ["Hello, world"]


def test_text_whose_message_never_came_is_kept() -> None:
    state = fold(user_round(), TextDelta(text="half a sen"), round_end(105, interrupted=True))
    assert kinds(state) == ["prompt", "text", "interrupted"]
    assert state.transcript[1].text == "half a sen"


def test_the_rounds_content_is_shown_once() -> None:
    streamed = fold(user_round(), TextDelta(text="Done."), assistant("Done."), round_end(105, "Done."))
    assert kinds(streamed) == ["prompt", "text"]
    unstreamed = fold(user_round(), round_end(105, "Done."))
    assert kinds(unstreamed) == ["prompt", "text"]


def test_a_tool_row_changes_in_place_and_an_open_one_ends_with_its_round() -> None:
    start = ToolStarted(call_id="c1", name="read_file", arguments={}, action="Reading a.csv")
    other = ToolStarted(call_id="c2", name="task", arguments={}, action="")
    state = fold(user_round(), start, other)
    assert [(entry.text, entry.ok) for entry in state.transcript[1:]] == [
        ("Reading a.csv", None),
        ("task", None),
    ]
    state = fold(ToolFinished(call_id="c1", name="read_file", ok=True, preview=""), state=state)
    assert [entry.ok for entry in state.transcript[1:]] == [True, None]
    state = fold(round_end(109, interrupted=True), state=state)
    assert [entry.ok for entry in state.transcript[1:3]] == [True, False]


def test_a_sub_agents_life() -> None:
    state = fold(user_round(), created(2), created(1))
    assert [agent.agent_id for agent in state.agents] == [1, 2]
    assert state.agents[0].status is SubAgentStatus.STARTING
    state = fold(
        Started(time=103, agent_id=1, pid=7, agent="explore", model="m-real"),
        ToolStarted(agent_id=1, call_id="x", name="read_file", arguments={}, action="Reading b.md"),
        ToolFinished(agent_id=1, call_id="x", name="read_file", ok=True, preview="", stats=Stats(files_read=3)),
        ToolFinished(agent_id=1, call_id="y", name="read_file", ok=True, preview=""),
        WrapUp(agent_id=1, reason="time"),
        state=state,
    )
    card = state.agents[0]
    assert (card.status, card.model, card.last_action) == (SubAgentStatus.RUNNING, "m-real", "Reading b.md")
    assert card.stats.files_read == 3, "a count never goes back"
    assert to_view(state, now=110)["agents"][0]["status"] == "wrapping_up"
    files = (DeliveredFile(path="report.md", size_bytes=1234, sha256="0"),)
    end = ended(1, time=133, result_summary="found it", files=files, stats=Stats(runtime_seconds=30, commands=2))
    view = to_view(fold(end, state=state), now=140)["agents"][0]
    assert view["status"] == "completed"
    assert view["seconds"] == 30
    assert view["files"] == [{"path": "report.md", "size": "1.2 kB"}]
    assert view["counts"] == {"files": 3, "searches": 0, "pages": 0, "commands": 2}


def test_events_after_the_end_and_ends_of_another_run_change_nothing() -> None:
    state = fold(created(1), ended(1))
    assert fold(Started(agent_id=1, pid=1, agent="x"), state=state) is state
    alive = fold(created(1, run_id="conv_new"), state=state)
    assert alive.agents[0].alive
    assert fold(ended(1, run_id="conv_1"), state=alive) is alive
    assert not fold(ended(1, run_id="conv_new"), state=alive).agents[0].alive


def test_a_crash_without_a_sentence_shows_the_last_output_line() -> None:
    crash = ended(1, status=SubAgentStatus.FAILED, cause=Cause.CRASH)
    assert fold(created(1), Output(agent_id=1, text="MemoryError\n"), crash).agents[0].error == "MemoryError"
    done = fold(created(1), Output(agent_id=1, text="a warning"), ended(1))
    assert done.agents[0].error == ""


def test_conversation_state_and_the_headers_clock() -> None:
    state = fold(user_round(100))
    assert state.conversation_state == "running"
    state = fold(created(1, 101), round_end(110, "waiting"), state=state)
    assert state.conversation_state == "waiting_for_sub_agents"
    state = fold(ended(1, 130), state=state)
    assert (state.conversation_state, state.active_since, state.active_seconds) == ("idle", None, 30.0)
    state = fold(user_round(500), round_end(505), state=state)
    assert state.active_seconds == 35.0, "the hours between two rounds are not counted"


def test_usage_is_the_trees_sum_and_unknown_stays_unknown() -> None:
    def used(agent_id: int | None, usage: Usage) -> UsageReported:
        return UsageReported(agent_id=agent_id, usage=usage, model="m-1")

    assert to_view(CardState(), now=0)["usage"]["reported"] is False
    known = Usage(prompt=10, completion=5, total=15, cost_usd=0.01)
    state = fold(user_round(), used(None, known), created(1), used(1, known), used(1, known))
    assert state.model == "m-1"
    assert state.agents[0].usage.total == 30
    assert to_view(state, now=0)["usage"] == {"reported": True, "tokens": "45", "cost": "$0.0300"}
    state = fold(ended(1, usage=known), state=state)
    assert state.total_usage.total == 30, "the record of the end is right, not what was counted before"
    state = fold(used(None, Usage.unknown()), state=state)
    assert to_view(state, now=0)["usage"] == {"reported": True, "tokens": None, "cost": None}


def test_an_end_record_without_numbers_keeps_what_was_counted() -> None:
    known = Usage(prompt=10, completion=5, total=15, cost_usd=0.01)
    state = fold(created(1), UsageReported(agent_id=1, usage=known, model=""), ended(1))
    assert state.agents[0].usage == known


@pytest.mark.parametrize("role", ["system", "user", "tool"])
@pytest.mark.parametrize("text", ["Sub-agent {} (look) has completed.", "子智能体{} (看) 已完成任务。"])
def test_a_notice_names_the_ended_agents_once(role: str, text: str) -> None:
    notice = "\n\n".join(text.format(number) for number in (1, 2))
    state = fold(user_round(), created(1), created(2), created(3), ended(1), ended(2))
    told = fold(MessageAdded(message={"role": role, "content": notice}), state=state)
    assert told.transcript[-1].kind == "notice"
    assert told.transcript[-1].agent_ids == (1, 2)
    again = fold(MessageAdded(message={"role": "user", "content": notice}), state=told)
    assert again is told
    living = fold(MessageAdded(message={"role": role, "content": text.format(3)}), state=told)
    assert living is told, "an agent that still lives was not announced"


def test_a_notice_round_is_a_separator_and_clears_continue() -> None:
    from dataclasses import replace

    prompt = "Sub-agent 1 (look) has completed its task.\n\nfound it"
    state = replace(fold(user_round(), created(1), round_end(109), ended(1)), can_continue=True)
    state = fold(RoundStarted(round_id="r2", prompt=prompt, origin="notice"), state=state)
    assert state.transcript[-1].agent_ids == (1,)
    assert not state.can_continue
    strange = fold(RoundStarted(round_id="r3", prompt="news\nmore", origin="notice"), state=state)
    assert (strange.transcript[-1].kind, strange.transcript[-1].text) == ("notice", "news")


def test_a_rounds_error_is_shown_once() -> None:
    failed = fold(user_round(), Conclusion(content="", success=False, error="no answer"))
    assert kinds(fold(round_end(105, error="no answer"), state=failed)) == ["prompt", "error"]
    assert kinds(fold(user_round(), round_end(105, error="no answer"))) == ["prompt", "error"]


def test_retrying_is_shown_until_the_next_event() -> None:
    wait = Retrying(reason="rate limit", wait_seconds=4.2)
    state = fold(user_round(), created(1), wait, wait.model_copy(update={"agent_id": 1}))
    view = to_view(state, now=0)
    assert view["retry"] == view["agents"][0]["retry"] == {"reason": "rate limit", "seconds": 4}
    state = fold(TurnStarted(turn=2), TurnStarted(turn=2, agent_id=1), state=state)
    assert to_view(state, now=0)["retry"] is None
    assert to_view(state, now=0)["agents"][0]["retry"] is None


def any_event(random_: random.Random) -> AgentEvent:
    agent_id = random_.choice([None, 1, 2, 3, 100, -1, 0])
    text = random_.choice(["", "x", "Sub-agent 1 (a) has completed.", "\x00\ud800", "\u202e" * 3])
    call = random_.choice(["", "c1", "c2"])
    common = {"agent_id": agent_id, "time": random_.choice([0.0, -5.0, 1e12, random_.random()])}
    message = random_.choice(
        [
            {},
            {"role": "assistant"},
            {"role": 3, "content": {}},
            {"role": "assistant", "content": [1, {"text": text}]},
        ]
    )
    usage = random_.choice([Usage(), Usage.unknown(), Usage(total=5)])
    run_id = random_.choice(["conv_1", "conv_2"])
    return random_.choice(
        [
            Started(pid=1, agent=text, model=text, **common),
            RoundStarted(round_id="r", prompt=text, origin=random_.choice(["user", "notice"]), **common),
            RoundEnded(round_id="r", content=text, error=text, interrupted=random_.random() < 0.5, **common),
            TurnStarted(turn=1, **common),
            TextDelta(text=text, **common),
            MessageAdded(message=message, **common),
            MessageAdded(message={"role": "system", "content": text}, **common),
            ToolStarted(call_id=call, name="n", arguments={}, action=text, **common),
            ToolFinished(call_id=call, name="n", ok=True, preview=text, **common),
            UsageReported(usage=usage, model=text, **common),
            Retrying(reason=text, wait_seconds=1, **common),
            WrapUp(reason="time", **common),
            Conclusion(content=text, error=text, **common),
            Output(text=text, **common),
            created(agent_id or 1, run_id=run_id).model_copy(update=common),
            ended(agent_id or 1, run_id=run_id, status=random_.choice(list(SubAgentStatus))).model_copy(update=common),
        ]
    )


@pytest.mark.parametrize("seed", range(40))
def test_no_order_of_events_breaks_the_fold(seed: int) -> None:
    random_ = random.Random(seed)
    state = CardState()
    for _ in range(300):
        before = state
        state = reduce(state, any_event(random_))
        assert len(state.transcript) >= len(before.transcript), "nothing shown is dropped"
        ids = [agent.agent_id for agent in state.agents]
        assert ids == sorted(set(ids))
    json.dumps(to_view(state, now=2.0), allow_nan=False)
    assert state.transcript, "the sequence did something"
