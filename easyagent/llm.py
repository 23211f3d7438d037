"""The chat model an agent talks to. The openai package is loaded late: it is heavy.

Requests go through `client.post` with messages encoded once each: `chat.completions.create` walks the
whole list at every call, which makes a long conversation quadratic. openai stays in charge of keys,
retries and errors.
"""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from easyagent.chat import STREAM_DONE, Messages, Reply, ReplyBuilder, Retry
from easyagent.exceptions import ContextTooLong, ModelError
from easyagent.models import Usage, token_count
from easyagent.openai_client import CONNECT_SECONDS, NO_KEY, open_client, raw_stream

MAX_RETRIES = 5
SILENT_STREAM_SECONDS = 60.0


class EndpointModel:
    """A model behind any OpenAI-compatible chat-completions endpoint."""

    def __init__(
        self,
        *,
        base_url: str,
        api_key: str | None,
        name: str,
        temperature: float | None = None,
        demo: bool = False,
        max_retries: int = MAX_RETRIES,
    ) -> None:
        self.name, self.base_url, self._temperature, self._demo = name, base_url, temperature, demo
        self.endpoint = f"{base_url} {name}"
        self._key = api_key or NO_KEY
        self._on_retry: Retry | None = None
        self._client = open_client(base_url, self._key, self._before_request, max_retries)

    async def complete(
        self,
        messages: Messages,
        tools: Sequence[Mapping[str, Any]],
        *,
        on_text: Callable[[str], None],
        on_retry: Retry,
    ) -> Reply:
        head: dict[str, Any] = {"model": self.name, "stream": True, "stream_options": {"include_usage": True}}
        if tools:
            head["tools"] = list(tools)
        if self._temperature is not None:
            head["temperature"] = self._temperature
        self._on_retry = on_retry
        body = messages.request_body(head)
        for attempt in range(2):
            builder = ReplyBuilder(on_text if attempt == 0 else lambda text: None)
            try:
                async for chunk in self._chunks(body):
                    builder.add(chunk)
            except ModelError as error:
                raise type(error)(self._without_key(str(error)), status=error.status) from None
            except Exception as error:
                sentence = self._sentence(error)
                if attempt == 0 and _is_cut(error):
                    on_retry(sentence, 0.0)
                    continue
                raise self._model_error(error, sentence) from error
            if builder.complete or attempt:
                break
            on_retry("The endpoint cut its reply short.", 0.0)
        return self._finish(builder)

    def _finish(self, builder: ReplyBuilder) -> Reply:
        if not builder.complete:
            raise ModelError(f"The endpoint {self._host} cut its reply short twice.")
        if builder.unreadable and not builder.started:
            raise ModelError(f"The endpoint {self._host} answered with tool calls that cannot be read.")
        return builder.reply(self._usage(builder.raw_usage))

    async def aclose(self) -> None:
        await self._client.close()

    async def _chunks(self, body: bytes) -> AsyncIterator[Mapping[str, Any]]:
        """The parsed chunks of a stream; a server that answers whole gives one."""
        import httpx2

        response = await self._client.post(
            "/chat/completions",
            cast_to=httpx2.Response,
            content=body,
            options={"headers": {"Content-Type": "application/json"}},
            stream=True,
            stream_cls=raw_stream(),
        )
        raw: Any = response
        try:
            if "text/event-stream" not in raw.headers.get("content-type", "text/event-stream"):
                yield _whole(await raw.aread(), self._host)
                return
            lines = raw.aiter_lines().__aiter__()
            while True:
                try:
                    # Not wait_for: before Python 3.12 it can lose an interrupt that comes together with a line.
                    async with asyncio.timeout(SILENT_STREAM_SECONDS):
                        line = await anext(lines)
                except StopAsyncIteration:
                    return
                if line.startswith("data:"):
                    text = line[5:].strip()
                    if text == "[DONE]":
                        yield STREAM_DONE
                        return
                    yield _chunk(text, self._host)
        finally:
            await raw.aclose()

    async def _before_request(self, request: Any) -> None:
        """Tells of openai's own retries: the count stands in a header of the request."""
        count = request.headers.get("x-stainless-retry-count", "0")
        if count != "0" and self._on_retry is not None:
            self._on_retry(f"The endpoint {self._host} did not answer; attempt {int(count) + 1}.", 0.0)

    def _usage(self, raw: Mapping[str, Any] | None) -> Usage:
        prompt, completion = (raw or {}).get("prompt_tokens"), (raw or {}).get("completion_tokens")
        prompt, completion = token_count(prompt), token_count(completion)
        if prompt is None or completion is None:
            return Usage.unknown()
        if self._demo:
            cost: float | None = 0.0
        else:
            from easyagent.prices import price_usd

            details = (raw or {}).get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, Mapping) else None
            cached = min(token_count(cached) or 0, prompt)
            cost = price_usd(self.name, self.base_url, prompt, completion, cached)
        return Usage(prompt=prompt, completion=completion, total=prompt + completion, cost_usd=cost)

    @property
    def _host(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    def _model_error(self, error: Exception, sentence: str) -> ModelError:
        import openai

        status = error.status_code if isinstance(error, openai.APIStatusError) else None
        text = str(error).lower()
        too_long = status in (400, 413) and any(
            words in text
            for words in ("context length", "context_length", "maximum context", "too long", "context size")
        )
        return ContextTooLong(sentence, status=status) if too_long else ModelError(sentence, status=status)

    def _sentence(self, error: Exception) -> str:
        import openai

        host = self._host
        if isinstance(error, openai.APIStatusError):
            status = error.status_code
            fixed = {
                401: f"The endpoint {host} refused the key (401); check OPENAI_API_KEY or run %agent setup.",
                403: f"The endpoint {host} does not allow this request (403); check the key's rights.",
                404: f"The endpoint {host} knows no model {self.name!r} or no such path (404).",
                429: f"The endpoint {host} is limiting requests (429); try again later.",
            }
            if status in fixed:
                return fixed[status]
            return f"The endpoint {host} answered {status}: {self._without_key(_detail(error))}"
        if isinstance(error, openai.APITimeoutError | TimeoutError):
            return f"The endpoint {host} did not answer in time."
        if isinstance(error, openai.APIConnectionError):
            return f"The endpoint {host} cannot be reached; is the server running?"
        return f"The endpoint {host} failed: {self._without_key(str(error) or type(error).__name__)}"

    def _without_key(self, text: str) -> str:
        return text if self._key == NO_KEY else text.replace(self._key, "***")


async def choose_model(base_url: str, api_key: str | None, wanted: str | None) -> str:
    """The model id to use: the one asked for, else the only one the endpoint lists.

    Raises ModelError that lists what there is: up to ten ids, or the three nearest to an unknown one.
    """
    host = urlsplit(base_url).netloc.rpartition("@")[2]
    client = open_client(base_url, api_key or NO_KEY, None, 1)
    try:
        page: Any = await client.get("/models", cast_to=object, options={"timeout": CONNECT_SECONDS})
        ids = [str(entry["id"]) for entry in page["data"]]
    except Exception as error:
        if wanted:
            return wanted
        raise ModelError(_no_model_sentence(host, error), status=getattr(error, "status_code", None)) from error
    finally:
        await client.close()
    if wanted is None:
        if len(ids) == 1:
            return ids[0]
        some = ", ".join(ids[:10]) + (", ..." if len(ids) > 10 else "")
        raise ModelError(f"Name a model with -m or EASYAGENT_MODEL; {host} offers: {some or 'none'}.")
    if ids and wanted not in ids:
        near = difflib.get_close_matches(wanted, ids, n=3, cutoff=0.0)
        raise ModelError(f"{host} has no model {wanted!r}; the nearest are {', '.join(near)}.", status=404)
    return wanted


def _no_model_sentence(host: str, error: Exception) -> str:
    import openai

    if isinstance(error, openai.APIConnectionError):
        return f"The endpoint {host} cannot be reached; is the server running?"
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return f"The endpoint {host} refused the key ({error.status_code}); check OPENAI_API_KEY or run %agent setup."
    return f"No model is named and {host} does not list any; name one with -m or EASYAGENT_MODEL."


def _is_cut(error: Exception) -> bool:
    """True where a reply had begun: openai itself repeats requests that got no answer."""
    import httpx2

    return isinstance(error, httpx2.TransportError | TimeoutError)


def _detail(error: Exception) -> str:
    body = getattr(error, "body", None)
    message = body.get("message") if isinstance(body, dict) else None
    return " ".join(str(message or error).split())[:300]


def _whole(body: bytes, host: str) -> dict[str, Any]:
    """A reply that was not streamed, in the shape of a chunk."""
    answer = _chunk(body.decode("utf-8", "replace"), host)
    choices = answer.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ModelError(f"The endpoint {host} answered with something that is not a chat completion.")
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        numbered = [{"index": index, **call} if isinstance(call, dict) else call for index, call in enumerate(calls)]
        message = {**message, "tool_calls": numbered}
    reason = choice.get("finish_reason") or "stop"
    return {**answer, "choices": [{**choice, "delta": message, "finish_reason": reason}]}


def _chunk(text: str, host: str) -> dict[str, Any]:
    try:
        chunk = json.loads(text)
    except (ValueError, RecursionError):
        raise ModelError(f"The endpoint {host} answered with something that is not JSON: {text[:80]!r}.") from None
    if not isinstance(chunk, dict):
        raise ModelError(f"The endpoint {host} answered with something that is not a chat completion.")
    if chunk.get("error"):
        detail = chunk["error"].get("message") if isinstance(chunk["error"], dict) else chunk["error"]
        raise ModelError(f"The endpoint {host} failed: {' '.join(str(detail).split())[:300]}")
    return chunk
