"""Text from elsewhere (models, endpoints, files, errors) made safe to print: nothing in it acts on a terminal."""

from __future__ import annotations

import re
import unicodedata

_ANSI = re.compile(
    r"\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)|[P^_X][^\x1b]*\x1b\\|\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # controls but tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidi: text that reads otherwise than it is
    "\U000e0000-\U000e007f"  # tags: text nobody sees
    "\ufff9-\ufffb\ud800-\udfff]"
)
_BREAKS = re.compile("\r\n?|[\u2028\u2029]")
_INVISIBLE = ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")


def clean_text(text: str) -> str:
    """Text without what a reader cannot see but a terminal or browser acts on; newlines and tabs stay."""
    return _UNSEEN.sub("", _BREAKS.sub("\n", _ANSI.sub("", text)))


def one_line(text: str) -> str:
    """The same on one line."""
    return " ".join(clean_text(text).split())


def is_blank(text: str) -> bool:
    """True where a reader would see nothing: white space, control and other invisible characters only."""
    return all(unicodedata.category(character) in _INVISIBLE for character in text)
