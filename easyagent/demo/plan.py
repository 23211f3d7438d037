"""From the user's prompt to the parts of work that sub-agents get."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from easyagent.demo.phrases import PHRASES, Phrases
from easyagent.demo.targets import calls_to_make, listing_calls, targets
from easyagent.demo.transcript import Prompt
from easyagent.demo.wish import Wish, read_wish
from easyagent.openai_server import ToolCallReply
from easyagent.prompts import detect_language

LIMIT = 5
"""Sub-agents that run at once by default."""

_ITEM = re.compile(r"^(\s*)(?:\d+[.)](?=\s|[^\d\s])|\d+[、）]|[-*•+]\s)\s*(.+)$")
_SUMMARY_CHARACTERS = 30


@dataclass(frozen=True, slots=True)
class Part:
    """One sub-agent's work: what create_sub_agent gets."""

    summary: str
    task: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about a prompt: calls to make first, else parts to start, else a refusal in words."""

    calls: tuple[ToolCallReply, ...] = ()
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    refusal: str | None = None


def plan(prompt: Prompt) -> Plan:
    """Plan a prompt, with the lists of files that were made for it so far."""
    phrases = PHRASES[detect_language(prompt.text)]
    intro, items = _items(prompt.text)
    if items:
        asked = read_wish(intro)
        return Plan(parts=tuple(_item_part(item, asked, phrases) for item in items))
    wish = read_wish(prompt.text)
    if not wish.covered:
        return Plan(refusal=phrases.not_understood)
    if wish.command is not None:
        return Plan(parts=(Part(_short(prompt.text), prompt.text),))
    calls = calls_to_make(listing_calls(wish), prompt.exchanges)
    return Plan(calls=calls) if calls else _file_plan(wish, prompt, phrases)


def _items(text: str) -> tuple[str, list[str]]:
    """The text before a list and the list's items; deeper items belong to the one above them."""
    lines = text.split("\n")
    found = [(number, match) for number, line in enumerate(lines) if (match := _ITEM.match(line))]
    if not found:
        return text, []
    depth = min(len(match[1]) for _, match in found)
    starts = {number: match[2].strip() for number, match in found if len(match[1]) == depth}
    items: list[str] = []
    first = min(starts)
    for number, line in enumerate(lines[first:], first):
        if number in starts:
            items.append(starts[number])
        elif line.startswith((" ", "\t")) and line.strip():
            items[-1] += " " + line.strip()
    return "\n".join(lines[:first]).strip(), items


def _item_part(item: str, asked: Wish, phrases: Phrases) -> Part:
    """A list item as it stands; where it only names files, with what the text before the list asks for."""
    wish = read_wish(item)
    if wish.has_targets and not wish.terms and not wish.not_covered and asked.terms:
        goal = _goal(item, asked.terms, phrases)
    elif wish.has_targets and not wish.not_covered and (wish.bare or (asked.asked and not wish.asked)):
        goal = _goal(item, (), phrases)
    else:
        goal = phrases.goal_item.format(item=item)
    return Part(_short(item), f"{goal}\n{phrases.goal_rest}")


def _file_plan(wish: Wish, prompt: Prompt, phrases: Phrases) -> Plan:
    found = targets(wish, prompt.text, prompt.exchanges)
    notes = [phrases.not_listed.format(path=path, problem=problem) for path, problem in found.problems]
    if found.missing:
        notes.append(phrases.list_cut.format(count=found.missing))
    if wish.not_covered:
        note = phrases.not_covered.format(words=phrases.list_separator.join(wish.not_covered))
        notes.append(note[0].upper() + note[1:])
    if not found.files:
        wanted = [*wish.globs, *wish.folders, *(f"*.{suffix}" for suffix in wish.suffixes)]
        refusal = phrases.nothing_found.format(what=phrases.list_separator.join(wanted) or prompt.text)
        return Plan(refusal="\n\n".join([refusal, *notes]))
    groups = _groups(found.files, LIMIT)
    if len(groups) < len(found.files):
        notes.append(phrases.grouped.format(count=len(found.files), limit=LIMIT, agents=len(groups)))
    return Plan(parts=tuple(_group_part(group, wish.terms, phrases) for group in groups), notes=tuple(notes))


def _groups(files: Sequence[str], most: int) -> list[Sequence[str]]:
    """The files in at most `most` groups of nearly equal size, in order."""
    count = min(most, len(files))
    bounds = [len(files) * index // count for index in range(count + 1)]
    return [files[start:end] for start, end in itertools.pairwise(bounds)]


def _group_part(files: Sequence[str], terms: tuple[str, ...], phrases: Phrases) -> Part:
    first = files[0].rpartition("/")[2]
    named = first if len(files) == 1 else phrases.and_more.format(first=first, count=len(files) - 1)
    goal = _goal(phrases.list_separator.join(f"`{file}`" for file in files), terms, phrases)
    return Part(
        _short((phrases.search if terms else phrases.summarise).format(files=named)),
        f"{goal}\n{phrases.goal_rest}",
    )


def _goal(files: str, terms: tuple[str, ...], phrases: Phrases) -> str:
    if not terms:
        return phrases.goal.format(files=files)
    quoted = phrases.list_separator.join(f"“{term}”" for term in terms)
    return phrases.goal_search.format(files=files, terms=quoted)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _SUMMARY_CHARACTERS else text[: _SUMMARY_CHARACTERS - 1] + "…"
