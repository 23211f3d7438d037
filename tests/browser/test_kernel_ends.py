"""A card whose kernel restarts while agents work: it must not go on telling of agents that are gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from easyagent.testing import FakeOpenAI, call, calls, for_main, for_sub_agent

pytestmark = pytest.mark.browser

CELLS = ["%load_ext jupyter_subagents", "%%agent\nWork on two things.", "print('a fresh', 'kernel')"]


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def kernel_environment(fake: FakeOpenAI) -> dict[str, str]:
    return {"OPENAI_BASE_URL": fake.base_url}


def test_a_restarted_kernels_card_says_that_it_has_ended(lab, fake) -> None:
    main = fake.script("main", match=for_main())
    created = (
        call("create_sub_agent", agent_id=number, summary="Hang", task="Hang.", run_in_background=True)
        for number in (1, 2)
    )
    main.reply(calls(*created))
    main.reply("Both have begun.")
    gates = [fake.gate(), fake.gate()]
    for number, gate in zip((1, 2), gates, strict=True):
        fake.script(f"agent {number}", match=for_sub_agent(number)).reply("never sent", gate=gate)
    lab.write("restart.ipynb", CELLS)
    lab.open("restart.ipynb")
    lab.run_cell(0)
    lab.run_cell(1)
    assert all(gate.reached.wait(60) for gate in gates)
    cards = lab.page.locator("[data-agent-id]")
    badge = lab.page.locator(".subagents-header .subagents-badge")
    cards.nth(1).wait_for()
    lab.wait_text(1, "waiting for sub-agents")
    assert [card.locator(".subagents-badge").inner_text() for card in cards.all()] == ["running"] * 2
    cards.nth(0).locator(".subagents-stop").wait_for()

    lab.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    lab.wait_text(1, "the kernel has ended")
    lab.screenshot("kernel-ended")
    assert badge.inner_text() == "the kernel has ended"
    assert [card.locator(".subagents-badge").inner_text() for card in cards.all()] == ["interrupted"] * 2
    assert lab.page.locator(".subagents-root button:visible").count() == 0
    clocks = lab.page.locator(".subagents-elapsed").all_inner_texts()
    lab.run_cell(2)
    assert "a fresh kernel" in lab.cell_text(2)
    assert lab.page.locator(".subagents-elapsed").all_inner_texts() == clocks
