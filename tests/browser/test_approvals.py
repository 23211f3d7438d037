"""Consent in real JupyterLab: a call waits in the card, is answered by a click, and its agent goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from easyagent.testing import FakeOpenAI, call, calls, for_main, for_sub_agent

pytestmark = pytest.mark.browser
COMMAND = "python3 -c \"print('six times seven is', 6 * 7)\""


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def kernel_environment(fake: FakeOpenAI) -> dict[str, str]:
    return {"OPENAI_BASE_URL": fake.base_url, "EASYAGENT_SANDBOX": "off"}


def test_calls_are_allowed_and_denied_by_a_click(lab, fake) -> None:
    main, agent = fake.script("main", match=for_main()), fake.script("agent", match=for_sub_agent(1))
    main.reply(
        calls(
            call("create_sub_agent", agent_id=1, summary="Compute", task="Compute.", run_in_background=True),
            call("write_file", path="notes.md", content="# notes\n"),
        )
    )
    main.repeat("Noted.")
    agent.reply(calls(call("run_command", command=COMMAND)))
    agent.reply(calls(call("run_command", command=COMMAND)))
    agent.reply(calls(call("finish_task", success=True, summary="forty-two")))
    lab.write("consent.ipynb", ["%load_ext jupyter_subagents", "%%agent\nCompute and note.", "%agent"])
    lab.open("consent.ipynb")
    lab.run_cell(0)
    lab.run_cell(1, wait=False)
    rows = lab.page.locator(".subagents-question")
    lab.page.wait_for_function("() => document.querySelectorAll('.subagents-question').length === 2")
    asked = {row.locator(".subagents-asks").inner_text(): row for row in rows.all()}
    assert set(asked) == {"The main agent asks to use write_file", "Sub-agent 1 asks to use run_command"}
    assert COMMAND in rows.filter(has_text="run_command").locator(".subagents-subject").inner_text()
    assert "+# notes" in rows.filter(has_text="write_file").inner_text()  # what it would change
    assert "waiting for approval" in lab.page.locator("[data-agent-id='1'] .subagents-badge").inner_text()
    lab.screenshot("approvals")
    rows.filter(has_text="write_file").get_by_role("button", name="Deny").click()
    lab.wait_cell(1)  # the main agent's turn goes on and ends
    assert not (lab.root / "notes.md").exists()
    rows.filter(has_text="run_command").get_by_role("button", name="This run").click()
    lab.wait_text(1, "forty-two")
    lab.page.wait_for_function("() => !document.querySelector('.subagents-question')")
    assert [request.last_text[:15] for request in agent.requests[1:]] == [
        "[exit code 0]\ns"
    ] * 2  # and was not asked again
    assert not [text for text in lab.console if text.startswith("pageerror")]
    saved = str(lab.save("consent.ipynb"))
    assert "asks to use" not in saved  # nothing waits any more


def test_a_line_answers_where_no_card_can_be_clicked(lab, fake) -> None:
    main = fake.script("main", match=for_main())
    main.reply(calls(call("write_file", path="notes.md", content="# notes\n"))).reply("Written.")
    cells = ["%load_ext jupyter_subagents", "%%agent -b\nNote.", "%agent", "%agent allow 7", "%agent allow 1"]
    lab.write("lines.ipynb", cells)
    lab.open("lines.ipynb")
    lab.run_cell(0)
    lab.run_cell(1)
    lab.page.wait_for_selector(".subagents-question")
    lab.run_cell(2)
    assert "approval 1: The main agent asks to use write_file: notes.md" in lab.cell_text(2)
    assert "+# notes" in lab.cell_text(2)
    lab.run_cell(3)
    assert "name one that waits" in lab.cell_text(3)
    lab.run_cell(4)
    lab.wait_text(1, "Written.")
    assert (lab.root / "notes.md").read_text() == "# notes\n" and "Allowed: 1." in lab.cell_text(4)
