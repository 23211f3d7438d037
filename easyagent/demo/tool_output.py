"""Reads what read_file and list_files returned, and takes nothing for whole that is not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from easyagent.demo.transcript import Exchange

_PAGE = re.compile(r"\[(?P<path>.*): lines (?P<first>\d+)-(?P<last>\d+) of (?P<total>\d+), (?P<size>\d+) bytes\]")
_EMPTY = re.compile(r"\[.*: empty file\]")
_CUT_LINE = re.compile(r"\[line cut: [\d,]+ more characters\]$", re.MULTILINE)
_LIST = re.compile(r"\[.*: (?P<count>\d+) entries\]")
_DEFAULT_LIMIT = 2000
"""Lines that read_file returns at most where no limit is given."""
PAGES_PER_REPLY = 64
_SKIPPED_FOLDERS = {"sub_agent_results", "node_modules", "__pycache__"}


@dataclass(frozen=True, slots=True)
class FileText:
    """One file as read_file returned it, page by page.

    `problem` is why it cannot be counted; `next_line` the first line that is missing, None when all is there:
    until then `text` is what comes before it.
    """

    path: str
    text: str = ""
    lines: int = 0
    size_bytes: int = 0
    pages: int = 0
    next_line: int | None = 1
    problem: str | None = None
    total_lines: int = 0
    gaps: tuple[tuple[int, int], ...] = ()
    """First and last line of each part that is missing, where the file's length is known."""
    page_lines: int = 0
    """How many lines one page is likely to hold."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a list_files result; `problem` is its error; `missing` entries were cut off."""

    files: tuple[str, ...] = ()
    missing: int = 0
    problem: str | None = None


def pages_to_read(source: FileText) -> list[dict[str, int]]:
    """The read_file arguments beside the path that one reply should ask for: the first page, which tells how long
    the file is and how much a page holds, then all that is missing."""
    if not source.pages:
        return [{}]
    pages = []
    for first, last in source.gaps:
        for start in range(first, last + 1, source.page_lines):
            count = min(source.page_lines, last + 1 - start)
            to_the_end = start + count > source.total_lines
            pages.append({"offset": start} if to_the_end else {"offset": start, "limit": count})
    return pages[:PAGES_PER_REPLY]


def file_text(path: str, exchanges: Iterable[Exchange]) -> FileText:
    """Put the pages of `path` together. A page that is not whole makes the file unreadable, not shorter."""
    pages: dict[int, list[str]] = {}
    size = total = count = 0
    cut: list[int] = []
    for exchange in exchanges:
        if exchange.name != "read_file" or exchange.arguments.get("path") != path:
            continue
        page = _page(exchange)
        if isinstance(page, str):
            return FileText(path, pages=count, next_line=None, problem=page)
        first, page_total, size, part = page
        if (part and first != exchange.arguments.get("offset", 1)) or (pages and page_total != total):
            return FileText(path, pages=count, next_line=None, problem="pages_do_not_join")
        total, count, pages[first] = page_total, count + 1, part
        if first + len(part) <= total and len(part) < exchange.arguments.get("limit", _DEFAULT_LIMIT):
            cut.append(len(part))
    lines, gaps = _joined(pages, total)
    text = "\n".join(lines)
    if gaps:
        # Pages hold so many characters: the next lines may be longer than the last ones.
        likely = max(1, sum(cut) * 9 // (10 * len(cut))) if cut else max(map(len, pages.values()))
        return FileText(path, text, len(lines), size, count, gaps[0][0], None, total, tuple(gaps), likely)
    # UTF-16 takes up to twice the bytes of UTF-8, with "\r\n" at each line and a byte order mark.
    if size > 2 * (len(text.encode("utf-8", "surrogatepass")) + 2 * len(lines)) + 4:
        return FileText(path, pages=count, next_line=None, problem="shorter_than_file")
    return FileText(path, text, len(lines), size, count, None if count else 1, None, total)


def _joined(pages: Mapping[int, list[str]], total: int) -> tuple[list[str], list[tuple[int, int]]]:
    """The lines up to the first gap, and all gaps."""
    lines: list[str] = []
    gaps: list[tuple[int, int]] = []
    expected = 1
    for first in sorted(pages):
        if first > expected:
            gaps.append((expected, first - 1))
        elif not gaps:
            lines += pages[first][expected - first :]
        expected = max(expected, first + len(pages[first]))
    return lines, [*gaps, (expected, total)] if expected <= total else gaps


def _page(exchange: Exchange) -> tuple[int, int, int, list[str]] | str:
    """First line, total lines, size and lines of a page; or what is wrong with it."""
    if exchange.result is None:
        return "no_result"
    head, _, rest = exchange.result.partition("\n")
    if _EMPTY.fullmatch(head) and not rest:
        return 1, 0, 0, []
    if _CUT_LINE.search(rest):
        return "line_cut"
    found = _PAGE.fullmatch(head)
    if found is None:
        return head.removeprefix("Error: ").strip() or "no_result"
    first, last, total = int(found["first"]), int(found["last"]), int(found["total"])
    count = max(0, last - first + 1) if total else 0
    lines = rest.split("\n")
    if count == 0 and total == 0:
        return first, 0, int(found["size"]), []
    tail = lines[count:]
    whole = len(lines) >= count > 0 and (tail[:1] != [] and tail[0].startswith("[") if last < total else not any(tail))
    return (first, total, int(found["size"]), lines[:count]) if whole else "page_not_whole"


def listing(exchange: Exchange) -> Listing:
    """The files that a list_files call found, without hidden ones and sub-agents' results."""
    head, *lines = (exchange.result or "").split("\n")
    found = _LIST.fullmatch(head)
    if found is None:
        return Listing(problem=head.removeprefix("Error: ").strip() or "no_result")
    entries = [line for line in lines if "\t" in line or line.endswith("/")]
    files = tuple(entry.split("\t")[0] for entry in entries if "\t" in entry)
    missing = max(0, int(found["count"]) - len(entries))
    return Listing(tuple(file for file in files if not _skipped(file)), missing)


def _skipped(path: str) -> bool:
    parts = path.removeprefix("./").split("/")
    return any(part.startswith(".") or part in _SKIPPED_FOLDERS for part in parts)
