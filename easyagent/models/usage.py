"""Usage: tokens and money, where unknown stays unknown."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def _add(left: int | float | None, right: int | float | None) -> int | float | None:
    return None if left is None or right is None else left + right


MAX_TOKENS = 10**9
"""Of one request; what says more is no count."""


def token_count(value: object) -> int | None:
    """A number of tokens as an endpoint reports it, or None where it is none."""
    sound = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS
    return value if sound and isinstance(value, int) else None


class Usage(BaseModel):
    """Tokens of one or more requests and their price in US dollars.

    None means unknown: an endpoint that reported no usage, or a model without a known price. A sum
    with an unknown part is unknown, so that no number shown is ever wrong.
    """

    model_config = ConfigDict(frozen=True)

    prompt: int | None = 0
    completion: int | None = 0
    total: int | None = 0
    cost_usd: float | None = 0.0

    @classmethod
    def unknown(cls) -> Usage:
        """The usage of a request whose endpoint reported none."""
        return cls(prompt=None, completion=None, total=None, cost_usd=None)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            prompt=_add(self.prompt, other.prompt),
            completion=_add(self.completion, other.completion),
            total=_add(self.total, other.total),
            cost_usd=_add(self.cost_usd, other.cost_usd),
        )
