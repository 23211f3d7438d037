"""The server core over real sockets: framing, routes, streams, and clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest

from easyagent.models import Usage
from easyagent.openai_server import (
    Answer,
    BrokenStream,
    ChatReply,
    ChatRequest,
    OpenAIServer,
    RawReply,
    Reply,
    ToolCallReply,
    estimate_tokens,
)

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "hello 你好"}]
LONG = "Ein langer Text, in Stücken. " * 40


def answering(*replies: Reply) -> Answer:
    waiting = list(replies)

    async def answer(request: ChatRequest) -> Reply:
        return waiting.pop(0)

    return answer


@asynccontextmanager
async def serving(answer: Answer, **settings: Any) -> AsyncIterator[str]:
    server = OpenAIServer(answer, models=["m"], **settings)
    try:
        yield await server.start()
    finally:
        await server.aclose()


@asynccontextmanager
async def connected(base_url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(base_url).port)
    try:
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


def post(body: object, *headers: str, path: str = "/v1/chat/completions", version: str = "HTTP/1.1") -> bytes:
    data = json.dumps(body).encode()
    lines = [f"POST {path} {version}", "Host: x", f"Content-Length: {len(data)}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + data


ASK = post({"model": "m", "messages": HELLO})


async def response(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """One whole response with a Content-Length."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    return int(status.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


async def one_response(answer: Answer, request: bytes) -> tuple[int, dict[str, str], bytes]:
    async with serving(answer) as base_url, connected(base_url) as (reader, writer):
        writer.write(request)
        return await response(reader)


async def openai_reply(reply: ChatReply, **arguments: Any) -> Any:
    async with (
        serving(answering(reply)) as base_url,
        openai.AsyncOpenAI(base_url=base_url, api_key="k", max_retries=0) as client,
    ):
        completions: Any = client.chat.completions
        made = await completions.create(model="m", messages=HELLO, **arguments)
        return [chunk async for chunk in made] if arguments.get("stream") else made


CALLS = ChatReply(
    content="Two calls.",
    tool_calls=(
        ToolCallReply("read_file", {"path": "表.csv" * 30}),
        ToolCallReply("broken", '{"half": ', "id-2"),
    ),
    reasoning="Because.",
    usage=Usage(prompt=7, completion=3, total=10),
)


def test_a_whole_reply_reaches_an_openai_client() -> None:
    reply = asyncio.run(openai_reply(CALLS))
    message = reply.choices[0].message
    assert (message.content, message.reasoning_content) == ("Two calls.", "Because.")
    assert [call.function.name for call in message.tool_calls] == ["read_file", "broken"]
    assert json.loads(message.tool_calls[0].function.arguments) == {"path": "表.csv" * 30}
    assert (message.tool_calls[1].id, message.tool_calls[1].function.arguments) == ("id-2", '{"half": ')
    assert (reply.choices[0].finish_reason, reply.model) == ("tool_calls", "m")
    assert (reply.usage.prompt_tokens, reply.usage.total_tokens) == (7, 10)


def test_a_streamed_reply_comes_in_pieces_and_joins_to_the_same() -> None:
    chunks = asyncio.run(openai_reply(CALLS, stream=True, stream_options={"include_usage": True}))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    pieces = [call for delta in deltas for call in delta.tool_calls or []]
    first = [piece for piece in pieces if piece.index == 0]
    assert "".join(piece.function.arguments for piece in first) == CALLS.tool_calls[0].arguments_json
    assert len(first) > 3 and first[0].function.name == "read_file" and first[0].id
    assert "".join(delta.content or "" for delta in deltas) == "Two calls."
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "tool_calls"
    assert (chunks[-1].choices, chunks[-1].usage.total_tokens) == ([], 10)


def test_usage_is_estimated_given_or_left_out() -> None:
    estimated = asyncio.run(openai_reply(ChatReply("four"))).usage
    assert estimated.prompt_tokens == estimate_tokens([HELLO, []]) and estimated.completion_tokens == 2
    assert asyncio.run(openai_reply(ChatReply("x", usage=None))).usage is None
    given = asyncio.run(
        openai_reply(ChatReply("x", usage={"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 9}))
    )
    assert given.usage.total_tokens == 9
    unasked = asyncio.run(openai_reply(ChatReply("x"), stream=True))
    assert [chunk.usage for chunk in unasked] == [None] * len(unasked)


def test_one_connection_carries_many_requests_in_each_framing() -> None:
    async def run() -> list[str]:
        async with (
            serving(answering(*map(ChatReply, "abcd"))) as base_url,
            connected(base_url) as (reader, writer),
        ):
            body = json.dumps({"model": "m", "messages": HELLO}).encode()
            chunked = b"POST /v1/chat/completions?x=1 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            for part in (body[:9], body[9:]):
                chunked += b"%x;ext=1\r\n%s\r\n" % (len(part), part)
            writer.write(ASK + chunked + b"0\r\nTrailer: x\r\n\r\n")
            got = [await response(reader), await response(reader)]
            writer.write(post({"model": "m", "messages": HELLO}, "Expect: 100-continue"))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            got.append(await response(reader))
            writer.write(post({"model": "m", "messages": HELLO}, "Connection: close"))
            got.append(await response(reader))
            assert got[-1][1]["connection"] == "close" and await reader.read() == b""
            return [json.loads(data)["choices"][0]["message"]["content"] for _, _, data in got]

    assert asyncio.run(run()) == ["a", "b", "c", "d"]


def test_a_stream_to_an_old_client_ends_with_the_connection() -> None:
    async def run() -> bytes:
        async with serving(answering(ChatReply(LONG))) as base_url, connected(base_url) as (reader, writer):
            writer.write(post({"model": "m", "messages": HELLO, "stream": True}, version="HTTP/1.0"))
            return await reader.read()

    head, _, body = asyncio.run(run()).partition(b"\r\n\r\n")
    assert b"chunked" not in head and body.endswith(b"data: [DONE]\n\n")
    events = [json.loads(event[6:]) for event in body.decode().split("\n\n")[:-2]]
    assert "".join(e["choices"][0]["delta"].get("content") or "" for e in events) == LONG and len(events) == 42


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (post({"model": "m", "messages": []}), 400),
        (post({"model": "m", "messages": ["text"]}), 400),
        (post({"model": "other", "messages": HELLO}), 404),
        (post({}, path="/v1/embeddings"), 404),
        (b"GET /v1/chat/completions HTTP/1.1\r\n\r\n", 404),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 3\r\n\r\n{,}", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"GET /v1/models HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", 431),
    ],
)
def test_what_is_wrong_gets_an_error_in_the_api_s_form(request_bytes: bytes, status: int) -> None:
    got, headers, body = asyncio.run(one_response(answering(), request_bytes))
    assert (got, headers["content-type"]) == (status, "application/json") and json.loads(body)["error"]["message"]


def test_the_token_guards_each_route() -> None:
    async def run() -> None:
        async with (
            serving(answering(ChatReply("in")), token="tök") as base_url,
            connected(base_url) as (reader, writer),
        ):
            for header in ("X: y", "Authorization: Bearer tok"):
                writer.write(post({"model": "m", "messages": HELLO}, header))
                status, _, body = await response(reader)
                assert status == 401 and json.loads(body)["error"]["code"] == "invalid_api_key"
            writer.write(post({"model": "m", "messages": HELLO}, "Authorization: Bearer tök"))
            assert (await response(reader))[0] == 200

    asyncio.run(run())


def test_raw_replies_and_broken_streams_are_served_as_they_are() -> None:
    async def run() -> None:
        raw, sent = RawReply(529, b"busy", {"Retry-After": "7"}), []
        piece = b'data: {"choices": []}\n\n'
        async with (
            serving(answering(raw, BrokenStream((piece,))), on_end=lambda _, whole: sent.append(whole)) as base_url,
            connected(base_url) as (reader, writer),
        ):
            writer.write(ASK)
            status, headers, body = await response(reader)
            assert (status, headers["retry-after"], body) == (529, "7", b"busy")
            writer.write(post({"model": "m", "messages": HELLO, "stream": True}))
            rest = await reader.read()
            assert piece in rest and b"[DONE]" not in rest and not rest.endswith(b"0\r\n\r\n")
            assert sent == [True, True]

    asyncio.run(run())


def test_a_failing_answer_is_a_logged_500(caplog: pytest.LogCaptureFixture) -> None:
    async def answer(request: ChatRequest) -> Reply:
        raise RuntimeError("inner words")

    status, _, body = asyncio.run(one_response(answer, ASK))
    assert status == 500 and b"inner words" not in body and "inner words" in caplog.text


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_that_leaves_cancels_its_request(streamed: bool) -> None:
    async def run() -> tuple[list[str], list[bool]]:
        seen: list[str] = []
        sent: list[bool] = []
        reached, ended = asyncio.Event(), asyncio.Event()

        async def answer(request: ChatRequest) -> Reply:
            reached.set()
            if streamed:
                return ChatReply(LONG, chunk_delay_seconds=60)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            raise AssertionError("nothing sets this event")

        def on_end(request: ChatRequest, whole: bool) -> None:
            sent.append(whole)
            ended.set()

        async with serving(answer, on_end=on_end) as base_url:
            async with connected(base_url) as (reader, writer):
                writer.write(post({"model": "m", "messages": HELLO, "stream": streamed}))
                await asyncio.wait_for(reached.wait(), 30)
                if streamed:
                    await reader.readuntil(b"\n\n")
            await asyncio.wait_for(ended.wait(), 30)
        return seen, sent

    assert asyncio.run(run()) == ([] if streamed else ["cancelled"], [False])


def test_closing_leaves_no_task_and_no_connection() -> None:
    async def run() -> tuple[int, bytes]:
        reached = asyncio.Event()

        async def answer(request: ChatRequest) -> Reply:
            reached.set()
            await asyncio.Event().wait()
            raise AssertionError("nothing sets this event")

        server = OpenAIServer(answer, models=["m"])
        base_url = await server.start()
        async with connected(base_url) as (reader, writer), connected(base_url) as (idle, _):
            writer.write(ASK)
            await asyncio.wait_for(reached.wait(), 30)
            await server.aclose()
            tasks = len(asyncio.all_tasks())
            try:
                left = await reader.read() + await idle.read()
            except ConnectionResetError:
                left = b""
            with pytest.raises(OSError):
                await asyncio.open_connection("127.0.0.1", urlsplit(base_url).port)
        await server.aclose()
        return tasks, left

    assert asyncio.run(run()) == (1, b"")
