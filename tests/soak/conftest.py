"""Soak tests: small in `make test`, long in `make soak`; `make soak SOAK=10` multiplies the long counts."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

SOAK = int(os.environ.get("SOAK", "0"))
_COUNTS = pytest.StashKey[dict[str, int]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_COUNTS] = {}


@pytest.fixture
def times() -> Callable[[int, int], int]:
    """How often to do it: `times(small, long)`."""
    return lambda small, long: long * SOAK if SOAK else small


@pytest.fixture
def soaking() -> bool:
    """True in `make soak`, where figures that a noisy machine can spoil are held to their bars."""
    return SOAK > 0


@pytest.fixture
def reached(request: pytest.FixtureRequest) -> Callable[[str, int], None]:
    """Counts what was done, for the table at the end."""
    counts = request.config.stash[_COUNTS]

    def count(what: str, number: int = 1) -> None:
        counts[what] = counts.get(what, 0) + number

    return count


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counts = config.stash[_COUNTS]
    if counts:
        terminalreporter.section("soak counts")
        for what in sorted(counts):
            terminalreporter.write_line(f"{counts[what]:8,}  {what}")
