"""All text a model reads, as Markdown files per language, and the one way to fill in their placeholders."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from easyagent.models import AgentDefinition

Language = Literal["zh", "en"]
LANGUAGES: tuple[Language, ...] = ("zh", "en")

_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
# Tried at the start of a word only: from every letter of it, one long word would take minutes.
_PATH = re.compile(r"(?<![\w.~-])[\w.~-]*[/\\][\w./\\*-]*|(?<![\w-])[\w-]+\.\w{1,5}\b", re.ASCII)


@cache
def load(name: str, language: Language) -> str:
    """The template `name` (a file stem) in a language, without its final newline."""
    return (files(__package__) / language / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")


def fill(template: str, values: Mapping[str, object]) -> str:
    """Replace `{key}` by its value for the keys given.

    One pass and no format language: braces in a value or elsewhere in the template stay what they are.
    """
    pattern = re.compile(r"\{(" + "|".join(map(re.escape, values)) + r")\}")
    return pattern.sub(lambda match: str(values[match.group(1)]), template)


def detect_language(text: str, setting: str = "auto") -> Language:
    """The language to write in: the setting, or zh where over 10 % of the text, paths left out, is Han and no kana."""
    if setting in ("zh", "en"):
        return "zh" if setting == "zh" else "en"
    words = "".join(_PATH.sub("", text).split())
    if not words or _KANA.search(words):
        return "en"
    return "zh" if len(_HAN.findall(words)) > 0.1 * len(words) else "en"


@cache
def _tool_phrases(language: Language) -> list[tuple[list[str], str]]:
    text = (files(__package__) / language / "tools.json").read_text(encoding="utf-8")
    return [(entry["tools"], entry["text"]) for entry in json.loads(text)]


def tool_lines(names: Iterable[str], language: Language) -> str:
    """The tool list of a system prompt, made from the tools the agent really has."""
    present, lines = list(names), []
    for group, phrase in _tool_phrases(language):
        here = [name for name in group if name in present]
        if here:
            lines.append(f"- {' / '.join(here)}: {phrase}")
    known = {name for group, _ in _tool_phrases(language) for name in group}
    lines += [f"- {name}" for name in present if name not in known]
    return "\n".join(lines)


def system_prompt(
    template: str, *, tools: Iterable[str], language: Language, workspace: Path, definition: AgentDefinition | None
) -> str:
    """A system prompt for the tools an agent really has; a definition's own prompt follows under its name."""
    values = {
        "tools": tool_lines(tools, language),
        "workspace": workspace,
        "system": platform.platform(),
        "current_time": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z"),
    }
    prompt = fill(load(template, language), values)
    if definition is None or not definition.system_prompt:
        return prompt
    return f"{prompt}\n\n# {definition.name}\n\n{definition.system_prompt}"
