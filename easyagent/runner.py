"""AgentRunner: run a task with a main agent and its sub-agents to the end, as a stream of events."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from easyagent.agent_registry import AgentRegistry, get_agent_registry
from easyagent.chat import ChatModel, Messages, Reply, Retry, ToolCall, clean, unique_calls
from easyagent.config import AgentConfig
from easyagent.conversation import Conversation
from easyagent.endpoint import Endpoints, open_model
from easyagent.models import AgentEvent, Conclusion, ModelSettings, RoundEnded, Usage, token_count
from easyagent.openai_server import ChatReply, ChatRequest, OpenAIServer, ToolCallReply
from easyagent.sandbox import enforcement
from easyagent.setup import Setup
from easyagent.tools.base import Tool

LLMCall = Callable[..., Awaitable[Mapping[str, Any]]]
"""(messages, tools, model, temperature) -> {"content", "tool_calls", "usage"}, all by name."""


class CallableModel:
    """A model that is the user's own async function: (messages, tools, model, temperature) -> dict."""

    def __init__(
        self,
        call: Callable[..., Awaitable[Mapping[str, Any]]],
        *,
        name: str = "custom",
        temperature: float | None = None,
    ) -> None:
        self.name, self._call, self._temperature = name, call, temperature
        self.endpoint = f"a function, {name}"

    async def complete(
        self,
        messages: Messages,
        tools: Sequence[Mapping[str, Any]],
        *,
        on_text: Callable[[str], None],
        on_retry: Retry,
    ) -> Reply:
        answer = await self._call(
            messages=messages.copy(), tools=list(tools), model=self.name, temperature=self._temperature
        )
        text = clean(answer.get("content") or "")
        if text:
            on_text(text)
        calls = unique_calls(ToolCall.from_message(call) for call in answer.get("tool_calls") or ())
        usage = answer.get("usage")
        tokens = usage if isinstance(usage, Mapping) else {}
        prompt, completion = token_count(tokens.get("prompt_tokens")), token_count(tokens.get("completion_tokens"))
        counted = Usage.unknown()
        if prompt is not None and completion is not None:
            counted = Usage(prompt=prompt, completion=completion, total=prompt + completion, cost_usd=None)
        return Reply(content=text, tool_calls=calls, usage=counted, model=self.name)

    async def aclose(self) -> None:
        """Nothing is held open."""


class AgentRunner:
    """Runs tasks. Without `llm_call` the configured endpoint answers, and without one the embedded demo model.

    `llm_call` serves the sub-agents' processes too, over a loopback server with a one-run token.
    """

    def __init__(
        self,
        llm_call: LLMCall | None = None,
        config: AgentConfig | None = None,
        *,
        registry: AgentRegistry | None = None,
        tools: tuple[Tool, ...] = (),
    ) -> None:
        self._llm_call, self._config = llm_call, config or AgentConfig()
        self._registry, self._tools = registry or get_agent_registry(), tools

    async def run(self, task: str) -> AsyncGenerator[AgentEvent, None]:
        """Work on a task until the main agent is idle and every sub-agent has ended and been told.

        The last event is a `conclusion`. Leaving the iteration early ends all sub-agents.
        """
        events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        async with self._conversation(events.put_nowait) as conversation:
            work = asyncio.create_task(_work(conversation, task, events))
            last: RoundEnded | None = None
            try:
                while (event := await events.get()) is not None:
                    last = event if isinstance(event, RoundEnded) else last
                    yield event
            finally:
                work.cancel()
                await asyncio.wait({work})
        if not work.cancelled():
            work.result()  # a fault of the machinery itself is raised, not concluded
        content, error = (last.content, last.error) if last else ("", "Nothing ran.")
        yield Conclusion(content=content, success=error is None, error=error)

    @asynccontextmanager
    async def _conversation(self, on_event: Callable[[AgentEvent], None]) -> AsyncIterator[Conversation]:
        endpoints = Endpoints()
        server: OpenAIServer | None = None
        model: Callable[[ModelSettings], ChatModel] = open_model
        try:
            if self._llm_call is not None:
                server, settings = await self._serve(self._llm_call)
                model = self._callable_model
            else:
                settings = await endpoints.settings(self._config)
            held = await asyncio.to_thread(enforcement)
            conversation = Conversation(
                Setup(
                    config=self._config,
                    settings=settings,
                    registry=self._registry,
                    tools=self._tools,
                    confined=held.confined,
                ),
                label="main",
                workspace=self._config.workspace or Path.cwd(),
                open_model=model,
                on_event=on_event,
            )
            try:
                yield conversation
            finally:
                await conversation.aclose()
        finally:
            if server is not None:
                await server.aclose()
            await endpoints.aclose()

    def _callable_model(self, settings: ModelSettings) -> ChatModel:
        assert self._llm_call is not None
        return CallableModel(self._llm_call, name=settings.name, temperature=settings.temperature)

    async def _serve(self, llm_call: LLMCall) -> tuple[OpenAIServer, ModelSettings]:
        """Serve the caller's function to the sub-agents' processes."""
        token, name = secrets.token_urlsafe(16), self._config.model or "custom"

        async def answer(request: ChatRequest) -> ChatReply:
            return _reply(
                await llm_call(
                    messages=request.messages,
                    tools=request.body.get("tools") or [],
                    model=request.body.get("model") or name,
                    temperature=request.body.get("temperature"),
                )
            )

        server = OpenAIServer(answer, models=[name], token=token)
        base_url = await server.start()
        key = SecretStr(token)
        return server, ModelSettings(base_url=base_url, api_key=key, name=name, temperature=self._config.temperature)


async def _work(conversation: Conversation, task: str, events: asyncio.Queue[AgentEvent | None]) -> None:
    try:
        await conversation.ask(task)
        await conversation.settled()
    finally:
        events.put_nowait(None)


def _reply(answer: Mapping[str, Any]) -> ChatReply:
    """The caller's dict as the server's reply."""
    calls = [ToolCall.from_message(call) for call in answer.get("tool_calls") or ()]
    usage = answer.get("usage")
    return ChatReply(
        content=answer.get("content"),
        tool_calls=tuple(ToolCallReply(call.name, call.arguments, call.id) for call in calls),
        usage=usage if isinstance(usage, Mapping) else None,
    )
