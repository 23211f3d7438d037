"""The openai package's client, opened as this project needs it. With `llm` the only module that loads the package."""

from __future__ import annotations

import functools
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

    import openai

NO_KEY = "no-key-needed"
"""Sent to endpoints without a key; openai refuses an empty one."""

CONNECT_SECONDS = 10.0
FIRST_BYTE_SECONDS = 600.0


def open_client(
    base_url: str, api_key: str, on_request: Callable[[Any], Awaitable[None]] | None, max_retries: int
) -> openai.AsyncOpenAI:
    import openai

    loopback = urlsplit(base_url).hostname in ("localhost", "::1") or (urlsplit(base_url).hostname or "").startswith(
        "127."
    )
    http_client = openai.DefaultAsyncHttpxClient(
        verify=_ssl_context(not loopback, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
        trust_env=not loopback,  # a proxy never stands between this machine and itself
        event_hooks={"request": [on_request]} if on_request else {},
    )
    timeout = openai.Timeout(FIRST_BYTE_SECONDS, connect=CONNECT_SECONDS)
    return openai.AsyncOpenAI(
        base_url=base_url, api_key=api_key, max_retries=max_retries, timeout=timeout, http_client=http_client
    )


@functools.cache
def _ssl_context(trust_env: bool, cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    """One for all clients and all processes forked from this one: it costs 10 ms and 3 MB. The names are its key."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=trust_env)


def warm_up() -> None:
    """Load the client and what its first request would load, for processes that are forked from this one."""
    import anyio._backends._asyncio  # noqa: F401  # anyio looks for its back end at the first request
    import openai

    client = open_client("https://127.0.0.1/v1", NO_KEY, None, 0)
    assert client.chat.completions is not None  # openai loads its resources at first use
    open_client("http://127.0.0.1/v1", NO_KEY, None, 0)
    raw_stream()
    openai.APIStatusError  # noqa: B018


def raw_stream() -> Any:
    """A stream class that hands back the HTTP response itself, so that no chunk is turned into openai's models."""
    import openai

    class RawStream(openai.AsyncStream[Any]):
        def __new__(cls, *, response: Any, **_: Any) -> Any:
            return response

    return RawStream
