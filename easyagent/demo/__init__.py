"""The embedded demo model: rules, not a language model, behind an OpenAI-compatible endpoint.

`python -m easyagent.demo` serves it on 127.0.0.1, so that the package's main job runs on a fresh
machine without a key and a network. Write one `DemoSettings` line to its stdin, read one
`DemoAddress` line from its stdout, and close its stdin to end it.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["DEMO_MODEL_ID", "DemoAddress", "DemoSettings"]

DEMO_MODEL_ID: Final = "demo-rules-not-a-language-model"
"""The only model the demo serves; its name says what it is wherever a model is named."""


class DemoSettings(BaseModel):
    """The first line of the demo process's stdin, as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    token: str | None = None
    """Where given, each request must carry it as its bearer token."""
    pace_seconds: Annotated[float, Field(ge=0)] = 0.25
    """Wait before each reply, so that a person can follow the cards; 0 for tests."""


class DemoAddress(BaseModel):
    """The only line of the demo process's stdout, as JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base_url: str
    model: str = DEMO_MODEL_ID
