"""The openai package's client, opened as this project needs it. With `llm` the only module that loads the package."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

    import openai

NO_KEY = "no-key-needed"
"""Sent to endpoints without a key; openai refuses an empty one."""

CONNECT_SECONDS = 10.0
FIRST_BYTE_SECONDS = 600.0


_SURROUNDINGS = (
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""What a client that is not for loopback takes from the environment when it is made."""

_spare: dict[tuple[str | None, ...], tuple[openai.AsyncOpenAI, Any]] = {}
"""Clients and their HTTP clients, made before a fork, by their surroundings: making one costs a child more memory than
using one."""


def open_client(
    base_url: str, api_key: str, on_request: Callable[[Any], Awaitable[None]] | None, max_retries: int
) -> openai.AsyncOpenAI:
    """A client of an endpoint; the caller closes it."""
    loopback = urlsplit(base_url).hostname in ("localhost", "::1") or (urlsplit(base_url).hostname or "").startswith(
        "127."
    )
    surroundings = _surroundings(loopback)
    client, http_client = _spare.pop(surroundings) if surroundings in _spare else _make(loopback)
    client.base_url, client.api_key, client.max_retries = base_url, api_key, max_retries
    http_client.event_hooks = {"request": [on_request]} if on_request else {}
    return client


def _surroundings(loopback: bool) -> tuple[str | None, ...]:
    return () if loopback else tuple(map(os.environ.get, _SURROUNDINGS))


def _make(loopback: bool) -> tuple[openai.AsyncOpenAI, Any]:
    import openai

    http_client = openai.DefaultAsyncHttpxClient(
        verify=_ssl_context(not loopback, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
        trust_env=not loopback,  # a proxy never stands between this machine and itself
    )
    timeout = openai.Timeout(FIRST_BYTE_SECONDS, connect=CONNECT_SECONDS)
    client = openai.AsyncOpenAI(base_url="http://127.0.0.1", api_key=NO_KEY, timeout=timeout, http_client=http_client)
    return client, http_client


@functools.cache
def _ssl_context(trust_env: bool, cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    """One for all clients and all processes forked from this one: it costs 10 ms and 3 MB. The names are its key."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=trust_env)


@contextlib.contextmanager
def rehearsal() -> Iterator[None]:
    """Load the client and all that requests made within load, for processes that are forked from this one: they take
    over the clients that are opened within, and left open."""
    import anyio._backends._asyncio  # noqa: F401  # anyio looks for its back end at the first request
    import openai

    kept = {_surroundings(loopback): _make(loopback) for loopback in (True, False)}
    _spare.update(kept)
    for client, http_client in kept.values():
        assert client.chat.completions is not None  # openai loads its resources at first use
        http_client.headers["Connection"] = "close"  # no connection outlives the rehearsal
    raw_stream()
    openai.APIStatusError  # noqa: B018
    yield
    for _, http_client in kept.values():
        del http_client.headers["Connection"]
    _spare.update(kept)


def raw_stream() -> Any:
    """A stream class that hands back the HTTP response itself, so that no chunk is turned into openai's models."""
    import openai

    class RawStream(openai.AsyncStream[Any]):
        def __new__(cls, *, response: Any, **_: Any) -> Any:
            return response

    return RawStream
