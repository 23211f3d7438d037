"""What counts as a word in a text, Han characters included."""

from __future__ import annotations

import re

HAN = "\u3400-\u4dbf\u4e00-\u9fff"
"""Ranges of Han characters, for a regular expression's character class."""

_WORD = re.compile(rf"[{HAN}]|[^\W{HAN}]+(?:['’][^\W{HAN}]+)*")


def words_of(text: str) -> list[str]:
    """The words of a text: each Han character is one, and each run of other letters, digits and `_`."""
    return _WORD.findall(text)
