"""OpenAIServer: connections, routes and the token check around one `answer` callable."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

from easyagent.openai_server import http
from easyagent.openai_server.replies import (
    Answer,
    BrokenStream,
    ChatReply,
    ChatRequest,
    RawReply,
    Reply,
    completion,
    completion_chunks,
    error_reply,
)

_logger = logging.getLogger(__name__)

OnEnd = Callable[[ChatRequest, bool], None]


class OpenAIServer:
    """Serves `answer` as an OpenAI-compatible endpoint on 127.0.0.1, in the running event loop.

    A client that leaves in the middle of a request cancels the task in which `answer` runs. An
    exception in `answer` is logged and answered with status 500.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        models: Sequence[str],
        token: str | None = None,
        on_end: OnEnd | None = None,
    ) -> None:
        """`token`: where given, each request must carry it as `Authorization: Bearer`, else 401.

        `on_end(request, sent)` is called at the end of each chat request; `sent` is False where the
        client left before the whole reply was written.
        """
        self._answer = answer
        self._models = tuple(models)
        self._token = token
        self._on_end = on_end
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()

    async def start(self, port: int = 0) -> str:
        """Listen and return the base URL, "http://127.0.0.1:PORT/v1". Port 0 takes a free one.

        Raises:
            OSError: the port is taken.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", port)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def aclose(self) -> None:
        """Stop listening and close all connections at once; requests under way are cancelled."""
        if self._server is None:
            return
        self._server.close()
        while connections := list(self._connections):
            for connection in connections:
                connection.abort()
            for connection in connections:
                await connection.ended()
        await self._server.wait_closed()
        self._server = None

    def chat_or_reply(self, request: http.HttpRequest) -> ChatRequest | RawReply:
        """The chat request that an HTTP request carries, or the reply to anything else."""
        if not self._authorized(request):
            return error_reply(401, "Incorrect API key provided.", code="invalid_api_key")
        if request.path == "/v1/models" and request.method == "GET":
            return RawReply(200, json.dumps({"object": "list", "data": self._model_list()}).encode())
        if request.path != "/v1/chat/completions" or request.method != "POST":
            return error_reply(404, f"Unknown request URL: {request.method} {request.path}")
        try:
            body = json.loads(request.body)
        except ValueError:
            return error_reply(400, "The request's body is not valid JSON.")
        return self._problem(body) or ChatRequest(body, request.headers)

    async def answer(self, chat: ChatRequest) -> Reply:
        """The reply to a chat request; a failure of the callable becomes a 500."""
        try:
            return await self._answer(chat)
        except Exception:
            _logger.exception("the answer to a chat request failed")
            return error_reply(500, "The server failed to answer this request.")

    def ended(self, chat: ChatRequest, *, sent: bool) -> None:
        """Tell the owner that a chat request is over."""
        if self._on_end is not None:
            self._on_end(chat, sent)

    def _authorized(self, request: http.HttpRequest) -> bool:
        if self._token is None:
            return True
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode("latin-1", "replace"), self._token.encode())

    def _model_list(self) -> list[dict[str, Any]]:
        return [{"id": model, "object": "model", "created": 0, "owned_by": "local"} for model in self._models]

    def _problem(self, body: object) -> RawReply | None:
        messages = body.get("messages") if isinstance(body, dict) else None
        if not isinstance(body, dict) or not isinstance(messages, list) or not messages:
            return error_reply(400, "'messages' must be a list with at least one message.")
        if not all(isinstance(message, dict) for message in messages):
            return error_reply(400, "Each of 'messages' must be an object.")
        if body.get("model") not in self._models:
            return error_reply(404, f"The model '{body.get('model')}' does not exist.", code="model_not_found")
        return None


class _Connection(asyncio.StreamReaderProtocol):
    """One client's connection: reads requests one after the other and writes their replies."""

    def __init__(self, server: OpenAIServer) -> None:
        self._requests = asyncio.StreamReader()
        super().__init__(self._requests, self._connected)
        self._owner = server
        self._task: asyncio.Task[None] | None = None
        self._lost = asyncio.Event()
        self._left = False
        self._busy = False

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._owner._connections.add(self)
        self._writer = writer
        self._task = asyncio.get_running_loop().create_task(self._serve())

    # The stream API alone does not tell a server that its client has left while it prepares a reply;
    # the protocol's callbacks do. A half-closed socket counts as left: no OpenAI client half-closes.
    def eof_received(self) -> bool:
        self._client_left()
        super().eof_received()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._client_left()
        super().connection_lost(exc)
        self._owner._connections.discard(self)
        self._lost.set()

    def _client_left(self) -> None:
        self._left = True
        if self._busy and self._task is not None:
            self._task.cancel()

    def abort(self) -> None:
        """Close the socket now and cancel what is under way."""
        self._writer.transport.abort()
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Wait until the socket is closed and the serving task is done."""
        await self._lost.wait()
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _serve(self) -> None:
        try:
            while await self._serve_one():
                pass
        except ConnectionError:
            pass  # the client left while we wrote: nobody to tell
        finally:
            self._writer.close()

    async def _serve_one(self) -> bool:
        """Answer one request; True where the connection may carry another."""
        try:
            request = await http.read_request(self._requests, self._writer)
        except http.BadRequestError as error:
            await self._write_raw(error_reply(error.status, str(error)), keep_alive=False)
            return False
        if request is None or self._left:
            return False
        self._busy = True
        chat = self._owner.chat_or_reply(request)
        if isinstance(chat, RawReply):
            await self._write_raw(chat, keep_alive=request.keep_alive)
            keep_alive = request.keep_alive
        else:
            keep_alive = await self._serve_chat(request, chat)
        self._busy = False
        return keep_alive

    async def _serve_chat(self, request: http.HttpRequest, chat: ChatRequest) -> bool:
        sent = False
        try:
            keep_alive = await self._write(request, chat, await self._owner.answer(chat))
            sent = True
        finally:
            self._owner.ended(chat, sent=sent)
        return keep_alive

    async def _write(self, request: http.HttpRequest, chat: ChatRequest, reply: Reply) -> bool:
        if isinstance(reply, BrokenStream):
            self._start_stream(chunked=request.chunked_allowed)
            for piece in reply.pieces:
                await self._write_piece(piece, chunked=request.chunked_allowed)
            return False
        if isinstance(reply, RawReply):
            await self._write_raw(reply, keep_alive=request.keep_alive)
            return request.keep_alive
        if chat.body.get("stream"):
            return await self._write_stream(request, chat, reply)
        text = json.dumps(completion(reply, chat))
        await self._write_raw(RawReply(200, text.encode()), keep_alive=request.keep_alive)
        return request.keep_alive

    async def _write_raw(self, reply: RawReply, *, keep_alive: bool) -> None:
        headers = dict(reply.headers)
        if not any(name.lower() == "content-length" for name in headers):
            headers["Content-Length"] = str(len(reply.body))
        if not keep_alive:
            headers["Connection"] = "close"
        self._writer.write(http.head(reply.status, headers) + reply.body)
        await self._writer.drain()

    async def _write_stream(self, request: http.HttpRequest, chat: ChatRequest, reply: ChatReply) -> bool:
        chunked = request.chunked_allowed
        self._start_stream(chunked=chunked)
        for item in completion_chunks(reply, chat):
            await self._write_piece(b"data: " + json.dumps(item).encode() + b"\n\n", chunked=chunked)
            if reply.chunk_delay_seconds > 0:
                await asyncio.sleep(reply.chunk_delay_seconds)
        await self._write_piece(b"data: [DONE]\n\n", chunked=chunked)
        if chunked:
            self._writer.write(http.chunk(b""))
            await self._writer.drain()
        return chunked and request.keep_alive

    def _start_stream(self, *, chunked: bool) -> None:
        framing = {"Transfer-Encoding": "chunked"} if chunked else {"Connection": "close"}
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", **framing}
        self._writer.write(http.head(200, headers))

    async def _write_piece(self, piece: bytes, *, chunked: bool) -> None:
        self._writer.write(http.chunk(piece) if chunked else piece)
        await self._writer.drain()
