"""Measures of texts and JSON files. Pure functions of the file's text."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from importlib.resources import files

from easyagent.demo.words import HAN, words_of

_HEADING = re.compile(r" {0,3}(#{1,6})\s+(.+?)\s*#*\s*")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_HAN_RUN = re.compile(f"[{HAN}]+")
_HAN = re.compile(f"[{HAN}]")
_TERMS = 8
_NAMES = 20
_SHORTEST_TERM = 3
_STOP_WORDS = frozenset((files("easyagent.demo") / "stop_words.txt").read_text("utf-8").split())
_STOP_HAN = frozenset("的了是在和与及或也都而就不有我你他她它们这那个们为以于对从到上下中之其被把将很更最还又")


@dataclass(frozen=True, slots=True)
class Document:
    """A text. Each Han character counts as one word."""

    lines: int
    empty_lines: int
    words: int
    han_characters: int
    headings: tuple[tuple[int, str], ...]
    """Level and text of each Markdown heading."""
    terms: tuple[tuple[str, int], ...]
    """The most frequent words of three letters and more, and Han pairs, without stop words."""


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A JSON file: its top-level type, and how many items or keys that has (None for plain values)."""

    kind: str
    size: int | None
    names: tuple[str, ...]
    """The first keys of the object, or of the objects in the list."""


def measure_document(text: str, lines: int, *, markdown: bool) -> Document:
    """Count a text of `lines` lines."""
    text = text.removeprefix("\ufeff")
    all_lines = text.split("\n") if lines else []
    return Document(
        lines=lines,
        empty_lines=sum(not line.strip() for line in all_lines),
        words=len(words_of(text)),
        han_characters=len(_HAN.findall(text)),
        headings=_headings(all_lines) if markdown else (),
        terms=_terms(text),
    )


def _headings(lines: list[str]) -> tuple[tuple[int, str], ...]:
    found, fenced = [], False
    for line in lines:
        if _FENCE.match(line):
            fenced = not fenced
        heading = _HEADING.fullmatch(line)
        if heading and not fenced:
            found.append((len(heading[1]), heading[2]))
    return tuple(found)


def _terms(text: str) -> tuple[tuple[str, int], ...]:
    words = [word.lower() for word in words_of(text)]
    counts = Counter(word for word in words if _is_term(word))
    for run in _HAN_RUN.findall(text):
        pairs = (run[index : index + 2] for index in range(len(run) - 1))
        counts.update(pair for pair in pairs if not _STOP_HAN.intersection(pair))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(ranked[:_TERMS])


def _is_term(word: str) -> bool:
    return len(word) >= _SHORTEST_TERM and word not in _STOP_WORDS and not word[0].isdigit()


def measure_json(text: str) -> JsonValue:
    """Count a JSON text.

    Raises:
        ValueError: the text is not valid JSON.
    """
    value = json.loads(text.removeprefix("\ufeff"))
    if isinstance(value, dict):
        return JsonValue("object", len(value), tuple(value)[:_NAMES])
    if isinstance(value, list):
        keys = dict.fromkeys(key for item in value if isinstance(item, dict) for key in item)
        return JsonValue("array", len(value), tuple(keys)[:_NAMES])
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", type(None): "null"}
    return JsonValue(kinds[type(value)], None, ())


def occurrences(text: str, term: str) -> int:
    """How often a term stands in a text, in any case, not overlapping."""
    return text.lower().count(term.lower())
