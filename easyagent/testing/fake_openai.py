"""FakeOpenAI: a scripted OpenAI-compatible server for tests of agents, real HTTP on 127.0.0.1.

    with FakeOpenAI() as fake:
        main = fake.script("main", match=for_main())
        main.reply(calls(call("create_sub_agent", agent_id=1, summary="Plots", task="Count.")))
        main.reply("Started.")
        first = fake.script("first", match=for_sub_agent(1))
        held = fake.gate()
        first.reply(calls(call("finish_task", success=True, summary="42 plots")), gate=held)
        main.reply("All is done: 42 plots.")
        ...                                  # run the agent against fake.base_url
        held.reached.wait(30); held.open()   # order by events, never by sleeps
        fake.wait_for(lambda: len(main.requests) == 3)

Each request takes one reply of the first script, in order of creation, that matches and has replies
left. At the end of the `with` block the server closes, and AssertionError names what went wrong:
replies that nobody asked for, requests that no script expected (they got a 400), failed callables.
An exception already on its way is not replaced; the findings are added to it as a note.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from easyagent.openai_server import ChatReply, ChatRequest, OpenAIServer, Reply, error_reply
from easyagent.testing.script import (
    FixedReply,
    Gate,
    Hang,
    Matcher,
    RecordedRequest,
    Script,
    ScriptedReply,
    call,
    calls,
    cut_stream,
    error,
    for_main,
    for_sub_agent,
    hang,
    matcher,
)

__all__ = [
    "FakeOpenAI",
    "Gate",
    "Hang",
    "RecordedRequest",
    "Script",
    "ScriptedReply",
    "call",
    "calls",
    "cut_stream",
    "error",
    "for_main",
    "for_sub_agent",
    "hang",
]

_EXCERPT_CHARACTERS = 200


class FakeOpenAI:
    """A scripted model server with its own thread and loop; a context manager for sync and async tests.

    `base_url` is "http://127.0.0.1:PORT/v1" inside the block; `requests` are all requests in order.
    With `token`, requests without it get a 401 and are not recorded.
    """

    def __init__(self, *, models: Sequence[str] = ("fake-model",), token: str | None = None) -> None:
        self.base_url = ""
        self.requests: list[RecordedRequest] = []
        self._scripts: list[Script] = []
        self._failures: list[str] = []
        self._changed = threading.Condition()
        self._server = OpenAIServer(self._answer, models=models, token=token, on_end=self._ended)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="fake-openai", daemon=True)
        self._started = threading.Event()
        self._start_error: OSError | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        if self._start_error is not None:
            raise self._start_error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        findings = self._findings()
        if not findings:
            return
        report = "FakeOpenAI: " + "; ".join(findings)
        if error is None:
            raise AssertionError(report)
        error.add_note(report)

    def script(self, name: str, *, match: str | Sequence[str] | Matcher | None = None) -> Script:
        """A new script. `match`: a text, or several, that the request's messages must contain; or a
        callable of the request (see `for_main`, `for_sub_agent`); None takes any request."""
        script = Script(name, matcher(match))
        with self._changed:
            self._scripts.append(script)
        return script

    def gate(self) -> Gate:
        """A new gate for `Script.reply(..., gate=...)`."""
        return Gate()

    def wait_for(self, condition: Callable[[], object], timeout: float = 30) -> None:
        """Block until `condition()` is true; it is asked anew at each request, reply and cancel.

        Raises:
            AssertionError: not true within `timeout` seconds; names the requests that came.
        """
        with self._changed:
            if not self._changed.wait_for(condition, timeout):
                came = [f"{request.script or 'unexpected'} ({request.state})" for request in self.requests]
                raise AssertionError(f"FakeOpenAI: not reached within {timeout} s; requests so far: {came}")

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            self.base_url = await self._server.start()
        except OSError as error:
            self._start_error = error
            return
        finally:
            self._started.set()
        await self._stop.wait()
        await self._server.aclose()

    async def _answer(self, request: ChatRequest) -> Reply:
        recorded = RecordedRequest(request.body, request.headers, arrived=time.monotonic())
        with self._changed:
            self.requests.append(recorded)
            planned = next((found for script in self._scripts if (found := script.take(recorded))), None)
            self._changed.notify_all()
        if planned is None:
            return self._failed(f"unexpected request: {_excerpt(recorded)}")
        if planned.gate is not None:
            await planned.gate.wait()
        return await self._reply(planned.reply, recorded)

    def _ended(self, request: ChatRequest, sent: bool) -> None:
        with self._changed:
            for recorded in self.requests:
                if recorded.body is request.body:
                    recorded.state = "answered" if sent else "cancelled"
            self._changed.notify_all()

    async def _reply(self, scripted: ScriptedReply, request: RecordedRequest) -> Reply:
        reply: FixedReply
        if callable(scripted):
            try:
                reply = scripted(request)
            except Exception as error:
                return self._failed(f"a reply of script {request.script!r} raised {error!r}")
        else:
            reply = scripted
        if isinstance(reply, Hang):
            await asyncio.Event().wait()
        return ChatReply(reply) if isinstance(reply, str) else reply  # type: ignore[return-value]

    def _failed(self, finding: str) -> Reply:
        # 400, not 5xx: clients repeat a 5xx, and each repetition would be one more finding.
        self._failures.append(finding)
        return error_reply(400, f"FakeOpenAI: {finding}")

    def _findings(self) -> list[str]:
        unused = [
            f"script {script.name!r} has {script.unused} unused replies" for script in self._scripts if script.unused
        ]
        return self._failures + unused


def _excerpt(request: RecordedRequest) -> str:
    roles = [str(message.get("role")) for message in request.messages]
    return f"roles {roles}, last text {request.last_text[-_EXCERPT_CHARACTERS:]!r}"
