"""FakeOpenAI: scripts in order, events instead of sleeps, and failures that cannot be overlooked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import openai
import pytest

from easyagent.testing import (
    ChatReply,
    FakeOpenAI,
    call,
    calls,
    cut_stream,
    error,
    for_main,
    for_sub_agent,
    hang,
)


@contextmanager
def client_of(fake: FakeOpenAI, **options: Any) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=fake.base_url, api_key="k", **{"max_retries": 0, **options}) as client:
        yield client


def say(client: openai.OpenAI, *texts: str) -> Any:
    messages: list[Any] = [{"role": "user", "content": text} for text in texts]
    return client.chat.completions.create(model="fake-model", messages=messages).choices[0].message


def first_message(agent_id: int, language: str = "en") -> str:
    template = (files("easyagent") / "prompts" / language / "first_message.md").read_text("utf-8")
    return template.format(agent_id=agent_id, summary="s", task="t", deliverables_dir="d", timeout_seconds=60)


def test_scripts_are_tried_in_order_and_replies_are_taken_in_order() -> None:
    with FakeOpenAI() as fake, client_of(fake) as client:
        both = fake.script("both", match=("red", "blue")).reply("1").reply(lambda request: request.last_text.upper())
        rest = fake.script("rest", match=lambda request: len(request.messages) == 1)
        rest.reply(calls(call("add", a=1), call("add", a=2), text="so")).repeat("again")
        assert say(client, "red", "and blue").content == "1"
        message = say(client, "red")
        assert (message.content, [c.function.arguments for c in message.tool_calls]) == (
            "so",
            ['{"a": 1}', '{"a": 2}'],
        )
        assert [say(client, "blue red").content, say(client, "blue red").content] == ["BLUE RED", "again"]
        assert say(client, "more").content == "again"
        assert [request.script for request in fake.requests] == ["both", "rest", "both", "rest", "rest"]
        assert [request.last_text for request in both.requests] == ["and blue", "blue red"]
        arrivals = [request.arrived for request in fake.requests]
        assert arrivals == sorted(arrivals) and fake.requests[0].headers["authorization"] == "Bearer k"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_matchers_tell_main_and_sub_agents_apart_by_the_real_templates(language: str) -> None:
    with FakeOpenAI() as fake, client_of(fake) as client:
        fake.script("main", match=for_main()).reply("m").reply("m")
        fake.script("one", match=for_sub_agent(1)).reply("1")
        fake.script("any", match=for_sub_agent()).reply("any")
        # The main agent's history may quote a task: what counts is the first user message.
        assert say(client, "hi").content == say(client, "hi", first_message(1, language)).content == "m"
        assert say(client, first_message(1, language)).content == "1"
        assert say(client, first_message(11, language)).content == "any"


def test_errors_cut_streams_and_retries() -> None:
    with FakeOpenAI() as fake, client_of(fake, max_retries=1) as client:
        script = fake.script("s").reply(error(429, "slow down", retry_after=0.01, code="rate")).reply("after")
        assert say(client, "x").content == "after" and len(script.requests) == 2
        script.reply(error(400, "no such thing"))
        with pytest.raises(openai.BadRequestError, match="no such thing"):
            say(client, "x")
        script.reply(cut_stream("half a sen"))
        stream = client.chat.completions.create(
            model="fake-model", messages=[{"role": "user", "content": "x"}], stream=True
        )
        assert next(iter(stream)).choices[0].delta.content == "half a sen"
        with pytest.raises(openai.APIError):
            list(stream)


def test_a_gate_orders_replies_by_events() -> None:
    with FakeOpenAI() as fake, client_of(fake) as client, ThreadPoolExecutor() as pool:
        held = fake.gate()
        fake.script("s").reply("late", gate=held).reply("early").reply("past", gate=held)
        late = pool.submit(say, client, "first")
        assert held.reached.wait(30) and say(client, "second").content == "early" and not late.done()
        held.open()
        assert late.result(30).content == "late" and say(client, "third").content == "past"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_leaves_is_seen_as_cancelled(streamed: bool) -> None:
    async def ask_and_leave(fake: FakeOpenAI) -> None:
        async with openai.AsyncOpenAI(base_url=fake.base_url, api_key="k", max_retries=0) as client:
            completions: Any = client.chat.completions
            asking = asyncio.ensure_future(
                completions.create(model="fake-model", messages=[{"role": "user", "content": "x"}], stream=streamed)
            )
            await asyncio.to_thread(fake.wait_for, lambda: fake.requests)
            if streamed:
                await (await asking).close()
            else:
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking

    with FakeOpenAI() as fake:
        fake.script("s").reply(ChatReply("a b c d" * 9, chunk_delay_seconds=60) if streamed else hang())
        asyncio.run(ask_and_leave(fake))
        fake.wait_for(lambda: fake.requests[0].cancelled)
        assert fake.requests[0].state == "cancelled"


def test_an_answered_request_is_not_cancelled_and_wait_for_says_what_came() -> None:
    with FakeOpenAI() as fake, client_of(fake) as client:
        fake.script("s").reply("x")
        say(client, "x")
        fake.wait_for(lambda: fake.requests[0].state == "answered")
        with pytest.raises(AssertionError, match=r"not reached within 0\.01 s; .*s \(answered\)"):
            fake.wait_for(lambda: len(fake.requests) == 2, timeout=0.01)


def test_unused_replies_fail_at_the_end_and_name_the_script() -> None:
    with pytest.raises(AssertionError, match="script 'left' has 2 unused replies"), FakeOpenAI() as fake:
        fake.script("left").reply("1").reply("2").repeat("3")
        fake.script("free").repeat("4")


def test_an_unexpected_request_gets_a_400_and_fails_at_the_end() -> None:
    expected = pytest.raises(AssertionError, match=r"unexpected request: roles \['user'\], last text 'surprise'")
    with expected, FakeOpenAI() as fake, client_of(fake, max_retries=3) as client:
        with pytest.raises(openai.BadRequestError):
            say(client, "surprise")
        assert len(fake.requests) == 1


def test_a_failing_callable_is_named() -> None:
    expected = pytest.raises(AssertionError, match="script 's' raised ZeroDivisionError")
    with expected, FakeOpenAI() as fake, client_of(fake) as client:
        fake.script("s").reply(lambda request: str(1 / 0))
        with pytest.raises(openai.BadRequestError):
            say(client, "x")


def test_an_exception_on_its_way_is_kept_and_gets_a_note() -> None:
    with pytest.raises(KeyError, match="mine") as caught, FakeOpenAI() as fake:
        fake.script("left").reply("1")
        raise KeyError("mine")
    assert any("unused" in note for note in caught.value.__notes__)


def test_hanging_requests_end_with_the_server_and_no_thread_is_left() -> None:
    before = threading.active_count()
    with ThreadPoolExecutor() as pool:
        with FakeOpenAI() as fake, client_of(fake) as client:
            held = fake.gate()
            fake.script("s").reply(hang()).reply("never", gate=held)
            asked = [pool.submit(say, client, "x") for _ in range(2)]
            fake.wait_for(lambda: len(fake.requests) == 2)
        for each in asked:
            with pytest.raises(openai.APIConnectionError):
                each.result(30)
    assert threading.active_count() == before and all(request.cancelled for request in fake.requests)


def test_a_token_and_models_of_its_own() -> None:
    with FakeOpenAI(models=("a", "b"), token="t") as fake:
        fake.script("s").repeat("x")
        with client_of(fake) as stranger, pytest.raises(openai.AuthenticationError):
            stranger.models.list()
        with openai.OpenAI(base_url=fake.base_url, api_key="t") as client:
            assert [model.id for model in client.models.list()] == ["a", "b"]
        assert fake.requests == []
