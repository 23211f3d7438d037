"""Text files: reading them with their encoding and line ends, and cutting results to a budget."""

from __future__ import annotations

import codecs
import difflib
import hashlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from easyagent.exceptions import ToolError

MAX_FILE_BYTES = 32 * 1024 * 1024
RESULT_CHARACTERS = 40_000
LINE_CHARACTERS = 10_000


@dataclass(frozen=True, slots=True)
class TextFile:
    """A decoded file and what is needed to write it back as it was."""

    text: str
    """Content; with \\n line ends where the file uses one kind of line end throughout."""
    bom: bytes
    encoding: str
    newline: str
    size_bytes: int
    sha256: str
    cut: bool
    """True where the file is longer than MAX_FILE_BYTES and only its head was read."""

    def encode(self, text: str) -> bytes:
        """Text as bytes of this file. Raises UnicodeEncodeError where its encoding lacks a character."""
        return self.bom + text.replace("\n", self.newline).encode(self.encoding)


def read_bytes(path: Path, shown: str) -> tuple[bytes, int]:
    """The head of a regular file and its size. Never blocks on a FIFO or device; raises ToolError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        raise ToolError(f"{shown} does not exist; look with list_files.") from None
    except OSError as error:
        raise ToolError(f"{shown} cannot be opened: {error.strerror}.") from error
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        information = os.fstat(descriptor)
        if stat.S_ISDIR(information.st_mode):
            raise ToolError(f"{shown} is a directory; look with list_files.")
        if not stat.S_ISREG(information.st_mode):
            raise ToolError(f"{shown} is not a regular file and cannot be read.")
        parts, left = [], MAX_FILE_BYTES
        while left and (part := file.read(min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts), information.st_size


def read_text(path: Path, shown: str) -> TextFile:
    """Decode a text file: BOM, then UTF-8, then GB18030. Raises ToolError for binary files."""
    data, size = read_bytes(path, shown)
    cut = size > len(data)
    bom, encoding, text = _decode(data, shown, cut=cut)
    # A file of mixed line ends is left as it is: an edit must not touch the lines it does not name.
    all_crlf = "\r\n" in text and text.count("\n") == text.count("\r\n")
    return TextFile(
        text=text.replace("\r\n", "\n") if all_crlf else text,
        bom=bom,
        encoding=encoding,
        newline="\r\n" if all_crlf else "\n",
        size_bytes=size,
        sha256=hashlib.sha256(data).hexdigest(),
        cut=cut,
    )


def _decode(data: bytes, shown: str, *, cut: bool) -> tuple[bytes, str, str]:
    for bom, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(bom):
            return bom, name, data[len(bom) :].decode(name, "replace")
    if b"\0" in data[:8192]:
        raise ToolError(f"{shown} is a binary file of {len(data):,} bytes and cannot be read as text.")
    for name in ("utf-8", "gb18030"):
        try:
            return b"", name, codecs.getincrementaldecoder(name)().decode(data, final=not cut)
        except UnicodeDecodeError:
            continue
    return b"", "latin-1", data.decode("latin-1")


def cut_middle(text: str, limit: int = RESULT_CHARACTERS) -> str:
    """Keep the head and the tail of a text that is over the limit and say how much was left out."""
    if len(text) <= limit:
        return text
    head, tail = limit * 2 // 3, limit // 3
    return f"{text[:head]}\n[... {len(text) - head - tail:,} characters left out ...]\n{text[-tail:]}"


def difference(before: str, after: str) -> str:
    """A unified diff without the names of files."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3)
    return "\n".join(list(lines)[2:])
