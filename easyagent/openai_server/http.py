"""The part of HTTP/1.1 that an OpenAI client speaks: requests in, whole or chunked responses out."""

from __future__ import annotations

import asyncio
import http
from collections.abc import Mapping
from dataclasses import dataclass

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Larger bodies are refused with 413: no chat conversation comes near it."""


class BadRequestError(Exception):
    """Bytes that are no request this server takes; `status` is what to answer before closing."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request with its whole body. Header names are lower case, the path is without its query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    keep_alive: bool
    chunked_allowed: bool
    """False for HTTP/1.0: a stream then ends with the connection."""


async def read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest | None:
    """The next request of a connection, or None where the client has left.

    Raises:
        BadRequestError: malformed or too large; the connection cannot go on.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        method, target, version, headers = _parse_head(head)
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await _read_body(reader, headers)
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError as error:
        raise BadRequestError(431, "the request's head is too long") from error
    connection = headers.get("connection", "").lower()
    modern = version != "HTTP/1.0"
    keep_alive = connection != "close" if modern else connection == "keep-alive"
    return HttpRequest(method, target.partition("?")[0], headers, body, keep_alive, modern)


def _parse_head(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequestError(400, "not an HTTP/1.1 request")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadRequestError(400, "malformed header line")
        headers[name.strip().lower()] = value.strip()
    return parts[0], parts[1], parts[2], headers


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _read_chunked(reader)
    length = headers.get("content-length", "0")
    if not (length.isascii() and length.isdigit()):
        raise BadRequestError(400, "malformed Content-Length")
    if int(length) > MAX_BODY_BYTES:
        raise BadRequestError(413, "the request's body is too large")
    return await reader.readexactly(int(length))


async def _read_chunked(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        line = await reader.readuntil(b"\r\n")
        try:
            size = int(line.split(b";")[0], 16)
        except ValueError as error:
            raise BadRequestError(400, "malformed chunk size") from error
        if size < 0 or len(body) + size > MAX_BODY_BYTES:
            raise BadRequestError(413, "the request's body is too large")
        if size == 0:
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass  # trailers carry nothing we use
            return bytes(body)
        body += (await reader.readexactly(size + 2))[:size]


def head(status: int, headers: Mapping[str, str]) -> bytes:
    """The status line and headers of a response."""
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body; empty data is its end."""
    return b"%x\r\n%s\r\n" % (len(data), data)
