"""The main job in real JupyterLab: cards that move and stop while another cell runs, and a record that lasts."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from easyagent.testing import FakeOpenAI, call, calls, for_main, for_sub_agent

pytestmark = pytest.mark.browser

HOSTILE = (
    "# Findings\n\n| site | value |\n|---|---|\n| north | 1 |\n\n"
    "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
    "<svg onload='window.pwned = 1'></svg> [link](javascript:window.pwned=1) ![i](http://127.0.0.1:9/leak.png)"
)
CELLS = [
    "%load_ext jupyter_subagents",
    "%%agent\nCompare the two notes.",
    "import pathlib, time\nwhile not pathlib.Path('go').exists():\n    time.sleep(0.05)\nprint('slept')",
    "from jupyter_subagents import agents\nprint(agents[1].status, agents[2].status, agents[2].result)",
]


@pytest.fixture
def fake() -> Iterator[FakeOpenAI]:
    with FakeOpenAI() as server:
        yield server


@pytest.fixture
def kernel_environment(fake: FakeOpenAI) -> dict[str, str]:
    return {"OPENAI_BASE_URL": fake.base_url}


def test_cards_move_and_stop_while_another_cell_runs_and_the_record_lasts(lab, fake) -> None:
    (lab.root / "one.md").write_text("# one\n")
    (lab.root / "two.md").write_text("# two\n")
    main = fake.script("main", match=for_main())
    first, second = fake.script("first", match=for_sub_agent(1)), fake.script("second", match=for_sub_agent(2))
    to_stop, to_go_on = fake.gate(), fake.gate()
    main.reply(
        calls(
            *(
                call(
                    "create_sub_agent",
                    agent_id=number,
                    summary=f"Read {name}",
                    task=f"Read {name}.md",
                    run_in_background=True,
                )
                for number, name in ((1, "one"), (2, "two"))
            )
        )
    )
    main.reply("I started **two** sub-agents.")
    main.reply(HOSTILE)
    first.reply("never sent", gate=to_stop)
    second.reply(calls(call("read_file", path="two.md")), gate=to_go_on)
    second.reply(calls(call("write_file", path="sub_agent_results/agent_2/report.md", content="# Report\n")))
    second.reply(calls(call("finish_task", success=True, summary="Two is a heading and nothing else.")))

    lab.write("job.ipynb", CELLS)
    lab.open("job.ipynb")
    lab.run_cell(0)
    lab.run_cell(1)
    assert to_stop.reached.wait(60) and to_go_on.reached.wait(60)
    lab.run_cell(2, wait=False)
    cards = lab.page.locator("[data-agent-id]")
    cards.nth(1).wait_for()
    assert cards.count() == 2

    # The clock of a card moves while the third cell sleeps; so does what the kernel sends.
    clock = cards.nth(0).locator(".subagents-elapsed")
    before = clock.inner_text()
    lab.page.wait_for_function(
        "([element, text]) => element.innerText !== text", arg=[clock.element_handle(), before], timeout=10_000
    )
    cards.nth(0).get_by_role("button", name=re.compile("Stop")).click()
    cards.nth(0).get_by_text("terminated").first.wait_for(timeout=10_000)
    to_go_on.open()
    lab.screenshot("cards")
    lab.wait_text(1, "completed")
    lab.wait_text(1, "Findings")
    assert lab.cell_is_running(2), "the third cell ended before the cards did: the check proved nothing"
    assert "Findings" not in lab.cell_text(2)
    (lab.root / "go").touch()
    lab.wait_cell(2)
    assert "slept" in lab.cell_text(2)
    lab.run_cell(3)
    assert "terminated completed Two is a heading and nothing else." in lab.cell_text(3)
    lab.page.wait_for_selector(".jp-Cell-outputWrapper .subagents-record")
    lab.screenshot("record")
    assert lab.page.evaluate("() => window.pwned") is None

    saved = lab.save("job.ipynb")
    _check_saved(saved)
    _check_reopened(lab, saved)


def _check_saved(saved: dict) -> None:
    outputs = saved["cells"][1]["outputs"]
    assert [output["output_type"] for output in outputs] == ["display_data"]
    data = outputs[0]["data"]
    assert set(data) == {"text/html", "text/plain"}
    html, text = "".join(data["text/html"]), "".join(data["text/plain"])
    for expected in ("terminated", "completed", "Two is a heading and nothing else.", "report.md", "Findings"):
        assert expected in html and expected in text
    assert not re.search(r"<(script|img|svg|iframe|style)", html)
    assert "javascript:" not in re.findall(r'href="([^"]*)"', html)


def _check_reopened(lab, saved: dict) -> None:
    """Without a kernel, with a fresh kernel, as an untrusted copy, and through nbconvert."""
    lab.shut_kernel_down()
    lab.open("job.ipynb", kernel=False)
    _see_record(lab)
    lab.open("job.ipynb")
    _see_record(lab)
    saved["cells"][0]["source"] = "# a copy from somewhere else\n"
    saved["metadata"]["copied"] = True
    for cell in saved["cells"]:
        cell["metadata"].pop("trusted", None)
        for output in cell["outputs"]:
            output.get("metadata", {})["copied"] = True
    (lab.root / "copy.ipynb").write_text(json.dumps(saved))
    lab.open("copy.ipynb", kernel=False)
    _see_record(lab)
    lab.screenshot("untrusted")
    lab.shut_kernel_down()

    subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "html", "--output", "job.html", str(lab.root / "job.ipynb")],
        check=True,
        capture_output=True,
        cwd=lab.root,
    )
    lab.page.goto((lab.root / "job.html").as_uri(), wait_until="domcontentloaded")
    assert "Two is a heading and nothing else." in lab.page.inner_text("body")
    assert lab.page.evaluate("() => window.pwned") is None


def _see_record(lab) -> None:
    lab.wait_text(1, "Findings")
    text = lab.cell_text(1)
    for expected in ("terminated", "completed", "Two is a heading and nothing else.", "report.md"):
        assert expected in text
    assert "model not found" not in text.lower()
    assert lab.page.evaluate("() => window.pwned") is None
