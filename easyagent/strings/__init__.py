"""Words for people, per language: what an agent is doing and how it ended."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from easyagent.prompts import Language


@cache
def strings(language: Language) -> dict[str, str]:
    """The phrases of a language by key; both languages have the same keys."""
    loaded: dict[str, str] = json.loads((files(__package__) / f"{language}.json").read_text(encoding="utf-8"))
    return loaded
