"""The words people see on cards and in records, one JSON file a language."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from easyagent.prompts import Language
from easyagent.strings import strings

LANGUAGES = ("en", "zh")


@cache
def ui_strings(language: str) -> Mapping[str, str]:
    """The words of one language, read-only, with the engine's for why an agent ended (`cause.*`). A language
    there is no file for gets English.

    `{name}` in a value is filled by whoever shows it; both languages have the same keys and the same names.
    """
    chosen: Language = "zh" if language == "zh" else "en"
    text = files("jupyter_subagents.strings").joinpath(f"{chosen}.json").read_text("utf-8")
    causes = {key: words for key, words in strings(chosen).items() if key.startswith("cause.")}
    return MappingProxyType({**json.loads(text), **causes})
