"""EndpointModel and choose_model against a real server that behaves as servers do, and as they should not."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from easyagent.chat import Messages, Reply
from easyagent.exceptions import ContextTooLong, ModelError
from easyagent.llm import EndpointModel, choose_model
from easyagent.models import Usage
from easyagent.testing import (
    BrokenStream,
    ChatReply,
    FakeOpenAI,
    RawReply,
    ToolCallReply,
    call,
    calls,
    cut_stream,
    error,
)

KEY = "sk-secret-of-the-test"
HELLO = Messages([{"role": "user", "content": "Hello."}])


async def complete(base_url: str, *, said: list[str] | None = None, retries: list[str] | None = None) -> Reply:
    model = EndpointModel(base_url=base_url, api_key=KEY, name="fake-model", temperature=0.3, max_retries=2)
    try:
        return await model.complete(
            HELLO,
            [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}],
            on_text=(said if said is not None else []).append,
            on_retry=lambda reason, wait: (retries if retries is not None else []).append(reason),
        )
    finally:
        await model.aclose()


def ask(fake: FakeOpenAI, **options: Any) -> Reply:
    return asyncio.run(complete(fake.base_url, **options))


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **rest: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"choices": choices, **rest}).encode() + b"\n\n"


def whole(message: dict[str, Any], **rest: Any) -> RawReply:
    """A server that ignores `stream` and answers in one piece."""
    return RawReply(200, json.dumps({"choices": [{"index": 0, "message": message}], **rest}).encode())


DONE = b"data: [DONE]\n\n"
TOKENS = {"prompt_tokens": 7, "completion_tokens": 3}
ADD = {"name": "add", "arguments": '{"a": 1}'}
FORMS: dict[str, tuple[Any, str, list[tuple[str, str]], int | None]] = {
    "streamed": (ChatReply("Hi there, all of you out there.", usage=TOKENS), "Hi there, all of you out there.", [], 10),
    "streamed calls": (
        replace(calls(call("add", a=1), call("add", a="x" * 99), text="So"), usage=TOKENS),
        "So", [("add", '{"a": 1}'), ("add", json.dumps({"a": "x" * 99}))], 10,
    ),
    "no usage": (ChatReply("Hi", usage=None), "Hi", [], None),
    "half a usage": (ChatReply("Hi", usage={"prompt_tokens": 7}), "Hi", [], None),
    "odd usage": (ChatReply("Hi", usage={**TOKENS, "prompt_tokens_details": [1]}), "Hi", [], 10),
    "reasoning": (ChatReply("Hi", reasoning="Hm, let me see.", usage=TOKENS), "Hi", [], 10),
    "whole": (whole({"content": "Hi"}, usage=TOKENS), "Hi", [], 10),
    "whole call": (
        whole({"content": None, "tool_calls": [{"id": "1", "function": ADD}]}), "", [("add", '{"a": 1}')], None,
    ),
    "arguments as an object": (whole({"tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}]}), "",
                               [("add", '{"a": 1}')], None),
    "pieces without an index": (
        BrokenStream((
            chunk({"tool_calls": [{"id": "1", "function": {"name": "add", "arguments": '{"a":'}}]}),
            chunk({"tool_calls": [{"function": {"arguments": " 1}"}}]}), chunk({}, "tool_calls"), DONE,
        )), "", [("add", '{"a": 1}')], None,
    ),
    "no finish reason, no role, comments": (
        BrokenStream((b": ping\n\n", chunk({"content": "Hi"}), chunk(None), DONE)), "Hi", [], None,
    ),
    "junk in chunks": (
        BrokenStream((
            chunk({"content": 3, "tool_calls": ["x"]}), b'data: {"choices": ["x"]}\n\n',
            chunk({"content": "Hi"}, "stop"), DONE,
        )), "Hi", [], None,
    ),
    "parts of a content": (whole({"content": [{"type": "text", "text": "H"}, 5, {"text": "i"}]}), "Hi", [], None),
    "junk among whole calls": (
        whole({"content": None, "tool_calls": [None, 5, {"function": "x"}, {"id": "1", "function": ADD}]}), "",
        [("add", '{"a": 1}')], None,
    ),
    "junk for all calls, and a text": (whole({"content": "Hi", "tool_calls": "abc"}), "Hi", [], None),
    "junk for streamed calls": (
        BrokenStream((
            chunk({"content": "Hi", "tool_calls": 5}), chunk({"tool_calls": {"a": 1}}),
            chunk({"tool_calls": [{"index": 0, "id": "a", "function": "x"}]}), chunk({}, "stop"), DONE,
        )), "Hi", [], None,
    ),
    "odd names and numbers": (
        BrokenStream((
            chunk({"tool_calls": [{"index": -1, "id": {"a": 1}, "function": {"name": "add", "arguments": {"a": 1}}}]},
                  "tool_calls", model=["m"]), DONE,
        )), "", [("add", '{"a": 1}')], None,
    ),
    "a negative usage": (ChatReply("Hi", usage={**TOKENS, "prompt_tokens": -1}), "Hi", [], None),
    "a usage in words": (ChatReply("Hi", usage={**TOKENS, "completion_tokens": "3"}), "Hi", [], None),
    "an absurd usage": (ChatReply("Hi", usage={**TOKENS, "prompt_tokens": 10**26}), "Hi", [], None),
    "a usage that is true": (ChatReply("Hi", usage={**TOKENS, "completion_tokens": True}), "Hi", [], None),
    "a negative cache": (
        ChatReply("Hi", usage={**TOKENS, "prompt_tokens_details": {"cached_tokens": -5}}), "Hi", [], 10,
    ),
    "empty choices": (BrokenStream((b'data: {"choices": []}\n\n', DONE)), "", [], None),
    "cut off by length": (ChatReply("Hi", finish_reason="length", usage=TOKENS), "Hi", [], 10),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_reply_is_read(form: str) -> None:
    scripted, text, tool_calls, total = FORMS[form]
    with FakeOpenAI() as fake:
        script = fake.script("s").reply(scripted)
        said: list[str] = []
        reply = ask(fake, said=said)
        assert (reply.content, [(c.name, c.arguments) for c in reply.tool_calls]) == (text, tool_calls)
        assert "".join(said) == text and all(entry.id for entry in reply.tool_calls)
        expected = Usage(prompt=7, completion=3, total=10, cost_usd=None) if total else Usage.unknown()
        assert reply.usage == expected
        assert reply.reasoning == ("Hm, let me see." if form == "reasoning" else "")
        assert reply.finish_reason == {"cut off by length": "length"}.get(form, reply.finish_reason)
        body = script.requests[0].body
        assert (body["model"], body["temperature"], body["messages"]) == ("fake-model", 0.3, HELLO.copy())
        assert script.requests[0].headers["authorization"] == f"Bearer {KEY}"


HALF_CALL = BrokenStream(
    (chunk({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "add", "arguments": "{"}}]}),)
)


@pytest.mark.parametrize("broken", [cut_stream("Half a"), HALF_CALL, BrokenStream(()), BrokenStream((chunk({}),))])
def test_a_cut_stream_is_tried_once_more_and_no_half_of_it_is_kept(broken: BrokenStream) -> None:
    with FakeOpenAI() as fake:
        script = fake.script("s").reply(broken).reply(calls(call("add", a=1), text="Whole."))
        retries: list[str] = []
        reply = ask(fake, retries=retries)
        assert (reply.content, [c.arguments for c in reply.tool_calls]) == ("Whole.", ['{"a": 1}'])
        assert (len(retries), len(script.requests)) == (1, 2)
    with FakeOpenAI() as fake:
        script = fake.script("s").reply(broken).reply(broken)
        with pytest.raises(ModelError):
            ask(fake)
        assert len(script.requests) == 2


LEAK = f"Incorrect API key provided: {KEY}."
SENTENCES: dict[str, tuple[Any, str, int | None]] = {
    "401": (error(401, LEAK), "refused the key (401); check OPENAI_API_KEY", 401),
    "403": (error(403, LEAK), "does not allow this request (403)", 403),
    "404": (error(404, LEAK), "knows no model 'fake-model' or no such path (404).", 404),
    "400": (error(400, f"Bad\n thing {KEY}"), "answered 400: Bad thing ***", 400),
    "422": (error(422, f"Bad {KEY}"), "answered 422: Bad ***", 422),
    "not JSON": (RawReply(200, f"<html>{KEY}".encode()), "something that is not JSON: '<html>***'", None),
    "a list": (RawReply(200, b"[]"), "not a chat completion", None),
    "an empty whole": (RawReply(200, b""), "something that is not JSON", None),
    "no choices": (RawReply(200, b'{"choices": []}'), "not a chat completion", None),
    "choices in words": (RawReply(200, b'{"choices": "x"}'), "not a chat completion", None),
    "no message": (RawReply(200, b'{"choices": [{"message": null}]}'), "not a chat completion", None),
    "calls that are none": (whole({"content": None, "tool_calls": [None, 5]}), "tool calls that cannot be read", None),
    "streamed calls that are none": (
        BrokenStream((chunk({"tool_calls": 5}), chunk({}, "tool_calls"), DONE)), "tool calls that cannot be read", None,
    ),
    "nested without end": (BrokenStream((b"data: " + b"[" * 200_000 + b"\n\n",)), "something that is not JSON", None),
    "escapes": (error(400, "No\x1b[31m\u202e\nluck"), "answered 400: No luck", 400),
    "in the stream": (
        BrokenStream((f'data: {{"error": {{"message": "{KEY} over"}}}}\n\n'.encode(),)), "*** over", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SENTENCES)
def test_a_refusal_is_one_sentence_without_the_key_and_is_not_repeated(case: str) -> None:
    scripted, part, status = SENTENCES[case]
    with FakeOpenAI() as fake:
        script = fake.script("s").reply(scripted)
        with pytest.raises(ModelError) as caught:
            ask(fake)
        sentence = str(caught.value)
        assert part in sentence and sentence.startswith(f"The endpoint {fake.base_url[7:-3]} ")
        assert KEY not in sentence and "\n" not in sentence
        assert (caught.value.status, len(script.requests)) == (status, 1)


def test_a_full_window_is_told_apart() -> None:
    with FakeOpenAI() as fake:
        fake.script("s").reply(error(400, "This model's maximum context length is 8 tokens.")).reply(error(400, "No."))
        with pytest.raises(ContextTooLong):
            ask(fake)
        with pytest.raises(ModelError) as other:
            ask(fake)
        assert not isinstance(other.value, ContextTooLong)


def test_busy_and_failing_servers_are_tried_again_after_the_wait_they_ask_for() -> None:
    with FakeOpenAI() as fake:
        script = fake.script("s").reply(error(429, "Slow down.", retry_after=1)).reply(error(503, "Busy.")).reply("Hi")
        retries: list[str] = []
        assert ask(fake, retries=retries).content == "Hi"
        assert script.requests[1].arrived - script.requests[0].arrived >= 1
        assert [("attempt 2" in retries[0]), ("attempt 3" in retries[1])] == [True, True]


def test_an_endpoint_that_is_not_there_is_named() -> None:
    with socket.socket() as bound:  # bound and not listening: connections are refused
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        retries: list[str] = []
        with pytest.raises(ModelError, match=f"^The endpoint {address} cannot be reached; is the server running\\?$"):
            asyncio.run(complete(f"http://{address}/v1", retries=retries))
        assert len(retries) == 2
        with pytest.raises(ModelError, match="cannot be reached"):
            asyncio.run(choose_model(f"http://{address}/v1", None, None))


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_never_stands_before_the_loopback(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "http://127.0.0.1:9")  # the discard port: nothing answers there
    with FakeOpenAI() as fake:
        fake.script("s").reply("Hi")
        assert ask(fake).content == "Hi"
        assert asyncio.run(choose_model(fake.base_url, None, None)) == "fake-model"


MANY = [f"model-{number}" for number in range(12)]
CHOICES: list[tuple[list[str], str | None, Callable[[str], bool]]] = [
    (["only"], None, lambda chosen: chosen == "only"),
    (["a", "b"], "b", lambda chosen: chosen == "b"),
    (["a", "b"], None, lambda text: text.endswith("offers: a, b.")),
    (MANY, None, lambda text: text.endswith(", model-9, ...")),
    (["small-chat", "large-chat", "tts"], "smal-chat", lambda text: "nearest are small-chat, large-chat" in text),
]  # fmt: skip


@pytest.mark.parametrize(("models", "wanted", "fits"), CHOICES)
def test_a_model_is_chosen_or_the_choice_is_named(
    models: list[str], wanted: str | None, fits: Callable[[str], bool]
) -> None:
    with FakeOpenAI(models=models) as fake:
        try:
            answer = asyncio.run(choose_model(fake.base_url, KEY, wanted))
        except ModelError as refused:
            answer = str(refused).replace(", ....", ", ...")
        assert fits(answer), answer


def test_a_refused_key_is_said_where_no_model_is_named() -> None:
    with FakeOpenAI(token="another") as fake, pytest.raises(ModelError, match=r"refused the key \(401\)"):
        asyncio.run(choose_model(fake.base_url, KEY, None))
    with FakeOpenAI(token=KEY) as fake:
        assert asyncio.run(choose_model(fake.base_url, KEY, None)) == "fake-model"


def test_arguments_that_are_no_json_come_as_they_are() -> None:
    with FakeOpenAI() as fake:
        fake.script("s").reply(calls(ToolCallReply("add", '{"a": ')))
        assert ask(fake).tool_calls[0].arguments == '{"a": '


def test_a_price_is_a_number_or_nothing() -> None:
    from easyagent.prices import price_usd

    openai = "https://api.openai.com/v1"
    for counts in ((-1, 5), (10**30, 1), (5, 5, 50), (5, -7, -9)):
        price_usd("gpt-4o-mini", openai, *counts)
    for model, url in (("", ""), ("x" * 10_000, "nonsense"), ("gpt-4o-mini", "http://[::1")):
        assert price_usd(model, url, 1, 1) is None
    assert (price_usd("gpt-4o-mini", openai, 1000, 1000) or 0) > 0
