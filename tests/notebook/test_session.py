"""A session without a kernel: what an interrupt means for a prompt at each moment of its life."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from easyagent import AgentConfig, Endpoints
from easyagent.agent_registry import get_agent_registry
from easyagent.subagents import LocalLauncher
from easyagent.testing import FakeOpenAI, Gate
from jupyter_subagents.outputs import CellOutput
from jupyter_subagents.session import Prompt, Session
from jupyter_subagents.strings import ui_strings


def output() -> CellOutput:
    return CellOutput(
        label="main",
        model="",
        strings=ui_strings("en"),
        display=None,
        live=False,
        on_action=lambda output, action: None,
    )


@pytest.mark.parametrize("moment", ["before it begins", "while it is set up", "while it waits", "while it is answered"])
def test_an_interrupt_ends_a_prompt_at_any_moment(tmp_path: Path, fake: FakeOpenAI, moment: str) -> None:
    async def main() -> None:
        session = Session("main", tmp_path, Endpoints(), LocalLauncher(), "")
        config = AgentConfig(base_url=fake.base_url, model="fake-model")
        prompts = {text: Prompt(text=text, config=config, registry=get_agent_registry()) for text in ("One.", "Two.")}
        gate, shown = Gate(), output()
        if moment == "while it waits":
            fake.script("one", match="One.").reply("First.", gate=gate)
            first = asyncio.create_task(session.ask(prompts["One."], output(), settle=False))
            await asyncio.to_thread(gate.reached.wait, 30)
        if moment == "while it is answered":
            fake.script("two", match="Two.").reply("Never.", gate=gate)
        asking = asyncio.create_task(session.ask(prompts["Two."], shown, settle=False))
        if moment == "while it is set up":
            await asyncio.sleep(0)
        elif moment == "while it is answered":
            await asyncio.to_thread(gate.reached.wait, 30)
        elif moment == "while it waits":
            while not session.routing._lives(shown) or len(session.outputs) < 2:
                await asyncio.sleep(0)
        session.interrupt(shown)
        with pytest.raises(asyncio.CancelledError):
            await asking
        gate.open()
        if moment == "while it waits":
            assert (await first).content == "First."
        assert session.state == "idle"
        await session.aclose()

    asyncio.run(main())
    texts = [request.last_text for request in fake.requests]
    assert texts == {"while it waits": ["One."], "while it is answered": ["Two."]}.get(moment, [])
