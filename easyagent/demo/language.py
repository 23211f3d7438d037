"""Which language a text is in, and what counts as a word in it."""

from __future__ import annotations

import re
from typing import Literal

Language = Literal["en", "zh"]

HAN = "\u3400-\u4dbf\u4e00-\u9fff"
"""Ranges of Han characters, for a regular expression's character class."""

_HAN = re.compile(f"[{HAN}]")
_KANA = re.compile("[\u3040-\u30ff]")
_PATHS = re.compile(r"`[^`]*`|[A-Za-z0-9_*.-]*[/.][A-Za-z0-9_*./-]+")
_WORD = re.compile(rf"[{HAN}]|[^\W{HAN}]+(?:['’][^\W{HAN}]+)*")
_HAN_SHARE = 0.1


def language_of(text: str) -> Language:
    """zh where over 10 % of the text, paths and spaces left out, are Han characters and none is kana."""
    plain = "".join(_PATHS.sub("", text).split())
    han = len(_HAN.findall(plain))
    return "zh" if han > _HAN_SHARE * len(plain) and not _KANA.search(plain) else "en"


def words_of(text: str) -> list[str]:
    """The words of a text: each Han character is one, and each run of other letters, digits and `_`."""
    return _WORD.findall(text)
