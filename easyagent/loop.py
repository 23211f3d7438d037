"""The loop: ask the model, run the tools it calls, add what arrived meanwhile, until it is done.

One loop drives the main agent and every sub-agent. It knows neither processes nor files of record: all
that happens goes out as events, in order, each after its effect.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from easyagent import notices
from easyagent.chat import ChatModel, Messages, Reply, ToolCall, clean, load_json
from easyagent.exceptions import ModelError
from easyagent.inbox import Inbox, Incoming
from easyagent.models import (
    AgentEvent,
    Cause,
    FinishResult,
    MessageAdded,
    MessagesReplaced,
    Retrying,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnStarted,
    UsageReported,
    WrapUp,
)
from easyagent.prompts import load
from easyagent.tools.base import ToolContext, ToolResult
from easyagent.tools.toolbox import Toolbox

MAX_REMINDERS = 3
WRAP_UP_SHARE = 0.8
MAX_CALLS_PER_REPLY = 128
PREVIEW_CHARACTERS = 300
UNRELATED_STATUSES = (401, 403, 429)
"""Refusals that say nothing of a message's form."""

INTERRUPTED = "Error: interrupted by the user."
AFTER_FINISH = "Error: not run, because finish_task had already ended this task."

Emit = Callable[[AgentEvent], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run of the loop ended: the last text, and for a sub-agent its report or why there is none."""

    content: str
    cause: Cause | None = None
    finish: FinishResult | None = None
    error: str | None = None


class AgentLoop:
    """One agent at work on a conversation. `run` returns an Outcome; a model that fails raises ModelError."""

    def __init__(
        self,
        *,
        model: ChatModel,
        toolbox: Toolbox,
        context: ToolContext,
        messages: Messages,
        inbox: Inbox,
        emit: Emit,
        max_turns: int | None = None,
        must_finish: bool = False,
        time_used: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`must_finish`: a sub-agent, which ends by finish_task; `time_used`: share of its time, 0 to 1."""
        self._model, self._toolbox, self._messages, self._inbox, self._emit = (
            model,
            toolbox,
            messages,
            inbox,
            emit,
        )
        self._context = replace(context, finish=self._take_finish if must_finish else None)
        self._max_turns, self._must_finish, self._time_used = max_turns, must_finish, time_used
        self._finish: FinishResult | None = None
        self._told_wrap_up = False
        self._notices: notices.Written | None = None
        """The notices at the conversation's end whose form the endpoint has not accepted yet."""

    async def run(self) -> Outcome:
        """Turns until the agent is done, the turns are used up, or the model fails."""
        turn, reminders, text = 0, 0, ""
        while self._max_turns is None or turn < self._max_turns:
            turn += 1
            reply = await self._ask(turn)
            text = reply.content or text
            if reply.tool_calls:
                await self._run_tools(reply.tool_calls, self._only(turn))
                if self._finish is not None:
                    return Outcome(self._finish.summary, Cause.FINISH_TASK, self._finish)
                self._append_arrivals()
            elif not self._must_finish:
                return Outcome(text)
            elif self._append_arrivals():
                continue
            elif reminders == MAX_REMINDERS:
                return Outcome(text, Cause.NO_FINISH_TASK)
            else:
                reminders += 1
                self._append({"role": "user", "content": load("reminder", self._context.language)})
        return Outcome(text, Cause.MAX_ITERATIONS)

    async def _ask(self, turn: int) -> Reply:
        self._wrap_up_when_due(turn)
        self._emit(TurnStarted(turn=turn, max_turns=self._max_turns))
        while True:
            try:
                reply = await self._reply(self._only(turn))
                break
            except ModelError as error:
                if not self._reword(error):
                    raise
        if self._notices is not None:
            notices.remember(self._model.endpoint, self._notices.form)
            self._notices = None
        self._emit(UsageReported(usage=reply.usage, model=reply.model or self._model.name))
        if reply.tool_calls or reply.content:
            self._append(reply.message())  # an empty message is not kept: endpoints refuse to see it again
        return reply

    def _only(self, turn: int) -> str | None:
        """The one tool of a sub-agent's last turn."""
        return "finish_task" if self._must_finish and turn == self._max_turns else None

    async def _reply(self, only_tool: str | None) -> Reply:
        streamed: list[str] = []

        def on_text(text: str) -> None:
            streamed.append(text)
            self._emit(TextDelta(text=text))

        try:
            return await self._model.complete(
                self._messages,
                self._toolbox.schemas(self._context.language, only=only_tool),
                on_text=on_text,
                on_retry=lambda reason, wait: self._emit(Retrying(reason=reason, wait_seconds=wait)),
            )
        except (asyncio.CancelledError, ModelError):
            if streamed:
                self._append({"role": "assistant", "content": "".join(streamed)})
            raise

    async def _run_tools(self, calls: tuple[ToolCall, ...], only_tool: str | None) -> None:
        """All calls of one reply: concurrent tools at the same time, others in order, results in call order."""
        results: dict[str, ToolResult] = {}
        running: list[asyncio.Task[None]] = []
        try:
            for call in calls[:MAX_CALLS_PER_REPLY]:
                if self._finish is not None:
                    results[call.id] = ToolResult(AFTER_FINISH, ok=False)
                    continue
                if only_tool is not None and call.name != only_tool:
                    text = f"Error: not run; in this last turn only {only_tool} can be called."
                    results[call.id] = ToolResult(text, ok=False)
                    continue
                entry = self._toolbox.find(call.name)
                task = asyncio.create_task(self._run_tool(call, results))
                running.append(task)
                await asyncio.sleep(0)  # a concurrent call makes its reservations before the next one begins
                if entry is None or not entry.concurrent:
                    await task
            await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*running, return_exceptions=True)
            for call in calls:
                result = results.get(call.id, ToolResult(INTERRUPTED, ok=False))
                if call in calls[MAX_CALLS_PER_REPLY:]:
                    result = ToolResult(
                        f"Error: not run; at most {MAX_CALLS_PER_REPLY} calls are taken from one reply."
                    )
                message = {"role": "tool", "tool_call_id": call.id, "content": clean(result.content)}
                self._append(message, told=result.told)

    async def _run_tool(self, call: ToolCall, results: dict[str, ToolResult]) -> None:
        entry = self._toolbox.find(call.name)
        arguments = _arguments(call.arguments)
        action = entry.action(arguments, self._context.language) if entry else call.name
        self._emit(ToolStarted(call_id=call.id, name=call.name, arguments=arguments, action=action))
        before = set(self._context.stats.written)
        result = ToolResult(INTERRUPTED, ok=False)
        try:
            result = await self._toolbox.call(call.name, call.arguments, replace(self._context, call_id=call.id))
        finally:
            results[call.id] = result
            self._emit(
                ToolFinished(
                    call_id=call.id,
                    name=call.name,
                    ok=result.ok,
                    preview=clean(result.content)[:PREVIEW_CHARACTERS],
                    stats=self._context.stats.snapshot(),
                    written=tuple(set(self._context.stats.written) - before),
                )
            )

    def _append_arrivals(self) -> bool:
        """Add what waits in the inbox, after all tool results of the turn."""
        arrivals = self._inbox.after_tools()
        self.take(arrivals)
        return bool(arrivals)

    def take(self, arrivals: Sequence[Incoming]) -> None:
        """Add what arrived, notices in the form that the endpoint is known to accept."""
        form, start = notices.accepted(self._model.endpoint), max(0, len(self._messages) - 1)
        before = self._messages.copy()[start:]
        told = tuple(run_id for arrival in arrivals for run_id in arrival.run_ids)
        if any(arrival.role == "system" for arrival in arrivals) and before:
            self._notices = notices.Written(start, before[0], tuple(arrivals), form)
            messages = self._notices.messages(self._context.language)
            if messages[0] != before[0]:
                self._replace(start, messages, told)
                return
        for arrival in arrivals:
            role = "user" if form != "system" else arrival.role
            self._append({"role": role, "content": arrival.content}, told=arrival.run_ids)

    def _reword(self, error: ModelError) -> bool:
        """Where an endpoint refuses a request that ends in notices: put them in the next form. False where it is no
        such refusal, or there is no other form."""
        if self._notices is None or error.status is None or error.status in UNRELATED_STATUSES:
            return False
        self._notices = self._notices.reworded()
        if self._notices is None:
            return False
        self._replace(self._notices.start, self._notices.messages(self._context.language), ())
        return True

    def _replace(self, start: int, messages: list[dict[str, Any]], told: tuple[str, ...]) -> None:
        self._messages.replace(start, messages)
        self._emit(MessagesReplaced(start=start, messages=tuple(messages), told=told))

    def _wrap_up_when_due(self, turn: int) -> None:
        if not self._must_finish or self._told_wrap_up:
            return
        turns_due = self._max_turns is not None and self._max_turns > 1 and turn > WRAP_UP_SHARE * self._max_turns
        time_due = self._time_used() >= WRAP_UP_SHARE
        if turns_due or time_due:
            self._told_wrap_up = True
            self._append({"role": "user", "content": load("wrap_up", self._context.language)})
            self._emit(WrapUp(reason="time" if time_due else "turns"))

    def _take_finish(self, result: FinishResult) -> None:
        if self._finish is None:
            self._finish = result

    def _append(self, message: dict[str, Any], *, told: tuple[str, ...] = ()) -> None:
        self._messages.append(message)
        self._emit(MessageAdded(message=message, told=told))


def _arguments(text: str) -> dict[str, Any]:
    """The arguments for people to see; broken JSON is shown as it came."""
    with contextlib.suppress(ValueError):
        values = load_json(text or "{}")
        if isinstance(values, dict):
            return values
    return {"arguments": text[:PREVIEW_CHARACTERS]}
