"""The card's front end in a real browser, outside Jupyter: what a person sees, presses and hears."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from easyagent.models import AgentCreated, AgentEnded, AgentEvent, RoundEnded, RoundStarted, Started, SubAgentEnd
from jupyter_subagents.card_state import CardState, reduce, to_view
from jupyter_subagents.strings import ui_strings

pytestmark = pytest.mark.browser

MODEL = """
window.sent = []; window.handlers = {}; window.values = {};
window.model = { get: (name) => values[name], on: (name, call) => { handlers[name] = call; },
  off: (name) => { delete handlers[name]; }, send: (content) => sent.push(content) };
window.setState = (state) => { values.state = state; handlers["change:state"](); };
"""
HOSTILE = "<img src=x onerror='window.hit=1'><script>window.hit=1</script>"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield browser.new_page(viewport={"width": 900, "height": 700})
        browser.close()


@pytest.fixture
def card(page: Page) -> Page:
    """An empty card that has just said it is ready."""
    static = files("jupyter_subagents") / "static"
    source = (static / "card.js").read_text("utf-8").replace("export default {", "window.card = {")
    page.set_content(f"<style>{(static / 'card.css').read_text('utf-8')}</style><div id=el></div>")
    page.add_script_tag(content=MODEL)
    page.add_script_tag(content=f"{{ {source} }}")
    page.evaluate("strings => { values = { strings, state: {} }; }", dict(ui_strings("en")))
    page.evaluate("() => { window.dispose = card.render({ model, el: document.getElementById('el') }); }")
    assert sent(page) == [{"type": "ready"}]
    return page


def sent(page: Page) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = page.evaluate("() => sent.splice(0)")
    return messages


def created(agent_id: int, time: float = 1000.0, summary: str = "look") -> AgentCreated:
    return AgentCreated(
        time=time,
        agent_id=agent_id,
        run_id=f"c{agent_id}",
        agent="explore",
        summary=summary,
        deliverables_dir="d",
        timeout_seconds=600,
        background=True,
    )


def ended(agent_id: int, **fields: object) -> AgentEnded:
    end = SubAgentEnd.model_validate({"status": "completed", "cause": "finish_task", "ended_at": ""} | fields)
    return AgentEnded(time=1060, agent_id=agent_id, run_id=f"c{agent_id}", end=end)


def show(page: Page, *events: AgentEvent, now: float = 1030.0, **changed: object) -> None:
    state = reduce(CardState(), RoundStarted(time=1000, round_id="r", prompt="p", origin="user"))
    for event in events:
        state = reduce(state, event)
    page.evaluate("state => setState(state)", json.loads(json.dumps(to_view(state, now=now) | changed)))


def transcript(page: Page, start: int, entries: list[dict[str, Any]], tail: str = "") -> None:
    message = {"type": "transcript", "from": start, "entries": entries, "tail": tail}
    page.evaluate("message => handlers['msg:custom'](message)", message)


def test_a_focused_stop_button_outlives_updates_and_says_it_was_heard(card: Page) -> None:
    show(card, created(1), created(3))
    button = card.locator("[data-agent-id='3'] .subagents-stop")
    button.focus()
    kept = button.element_handle()
    show(card, created(1), created(2), created(3), Started(agent_id=3, pid=1, agent="explore"))
    assert card.evaluate("element => element === document.activeElement && element.isConnected", kept)
    assert card.locator(".subagents-card").evaluate_all("cards => cards.map(c => c.dataset.agentId)") == [
        "1",
        "2",
        "3",
    ]
    card.keyboard.press("Enter")
    assert sent(card) == [{"type": "stop", "agent_id": 3}]
    assert button.inner_text() == "Stopping…"
    button.dispatch_event("click")
    assert sent(card) == [], "one press is one request"
    show(card, created(1), created(2), created(3), ended(3, status="terminated"))
    assert not button.is_visible()
    assert card.evaluate("document.activeElement.dataset.agentId") == "3", "focus stays on the card"


def test_before_the_first_state_there_is_only_a_frame(card: Page) -> None:
    assert card.locator("#el").inner_text().strip() == ""
    assert card.locator("#el button:visible").count() == 0
    shown = "() => [...document.querySelectorAll('#el *')].filter(e => e.checkVisibility()).map(e => e.className)"
    assert card.evaluate(shown) == ["subagents-root", "subagents-header", "subagents-buttons"]
    show(card, created(1))
    assert card.locator("#el button:visible").count() == 2
    assert "demo model" not in card.locator("#el").inner_text()


def header_and_card(page: Page) -> tuple[str, str]:
    badges = page.locator(".subagents-badge")
    return badges.nth(0).inner_text(), badges.nth(1).inner_text()


def clocks(page: Page) -> list[str]:
    return page.locator(".subagents-elapsed").all_inner_texts()


def test_a_card_whose_kernel_restarts_says_so_and_heals(card: Page) -> None:
    show(card, created(1), created(2), ended(2, result_summary="done"), can_continue=True)
    assert header_and_card(card) == ("running", "starting")
    card.locator(".subagents-continue").wait_for()
    card.locator("[data-agent-id='1'] .subagents-stop").click()
    card.evaluate("() => handlers.comm_live_update()")
    assert header_and_card(card) == ("the kernel has ended", "interrupted")
    assert card.locator("[data-agent-id='2'] .subagents-badge").inner_text() == "completed"
    assert card.locator("#el button:visible").count() == 0
    assert clocks(card)[:2] == ["0:30", "0:30"]
    card.evaluate("() => setState({ ...values.state, now: 1050 })")
    assert header_and_card(card) == ("running", "starting")
    assert clocks(card)[:2] == ["0:50", "0:50 of 10:00"]
    assert card.locator("#el button:visible").count() == 3


def test_a_kernel_that_says_nothing_for_long_counts_as_ended(card: Page) -> None:
    """150 s by the heartbeat that the state names; here a twentieth of a second."""
    show(card, created(1), heartbeat=0.02)
    card.wait_for_function("() => document.querySelector('.subagents-badge').textContent === 'the kernel has ended'")
    assert header_and_card(card)[1] == "interrupted"
    assert card.locator("#el button:visible").count() == 0
    stands = clocks(card)
    assert stands == ["0:30", "0:30"]
    card.evaluate("() => handlers['msg:custom']({ type: 'transcript', from: 0, entries: [], tail: '', now: 1040 })")
    assert header_and_card(card) == ("running", "starting"), "any word of the kernel heals a false alarm"
    card.wait_for_function("() => document.querySelector('.subagents-badge').textContent === 'the kernel has ended'")
    assert clocks(card) == ["0:40", "0:40"]


def test_silence_means_nothing_where_nothing_lives_or_the_time_is_not_up(card: Page) -> None:
    tick = "() => document.querySelector('.subagents-elapsed').textContent"
    show(card, created(1))
    before = card.evaluate(tick)
    card.wait_for_function("before => document.querySelector('.subagents-elapsed').textContent !== before", arg=before)
    assert header_and_card(card) == ("running", "starting")
    show(card, created(1), ended(1), RoundEnded(time=1060, round_id="r", content=""), heartbeat=0)
    card.evaluate("() => handlers.comm_live_update()")
    assert header_and_card(card) == ("idle", "completed")


def test_bad_ends_say_why_in_words(card: Page) -> None:
    cut = {"partial": True, "result_summary": "as far as it came"}
    ends = [
        ended(1, status="failed", cause="max_iterations", **cut),
        ended(2, status="timeout", cause="timeout", partial=True),
        ended(3, status="terminated", cause="terminated", partial=True),
        ended(4),
    ]
    show(card, *(created(number) for number in (1, 2, 3, 4)), *ends)
    texts = card.locator(".subagents-card").all_inner_texts()
    assert "failed: the limit of turns was reached" in texts[0]
    assert "timeout: the time limit of 600 seconds was reached" in texts[1]
    assert [": the" in text for text in texts] == [True, True, False, False]
    assert ["partial: the work was cut short" in text for text in texts] == [True, False, False, False]


@pytest.mark.parametrize("width", [1280, 700, 420])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_stop_keeps_the_right_end_of_the_first_line(card: Page, width: int, language: str) -> None:
    card.set_viewport_size({"width": width, "height": 700})
    card.evaluate("() => { dispose(); document.getElementById('el').replaceChildren(); }")
    card.evaluate("strings => { values.strings = strings; card.render({ model, el }); }", dict(ui_strings(language)))
    usage = {"reported": True, "tokens": "123.4k", "cost": None}
    show(card, created(1), state="waiting_for_sub_agents", demo=True, model="a-long-model-name-2024", usage=usage)
    header = card.locator(".subagents-header").bounding_box()
    badge = card.locator(".subagents-header .subagents-badge").bounding_box()
    stop = card.locator(".subagents-header .subagents-stop").bounding_box()
    card.set_viewport_size({"width": 900, "height": 700})
    assert header is not None and badge is not None and stop is not None
    assert abs(stop["x"] + stop["width"] - header["x"] - header["width"]) < 2
    assert stop["y"] < badge["y"] + badge["height"] and badge["y"] < stop["y"] + stop["height"]
    if width == 1280:
        assert header["height"] < 40, "one line is enough"


def test_the_headers_buttons(card: Page) -> None:
    show(card, created(1))
    assert card.locator(".subagents-header .subagents-badge").inner_text() == "running"
    assert not card.locator(".subagents-continue").is_visible()
    card.locator(".subagents-header .subagents-stop").click()
    card.evaluate("() => setState({ ...values.state, can_continue: true })")
    card.locator(".subagents-continue").click()
    assert sent(card) == [{"type": "stop_all"}, {"type": "continue"}]


def test_text_from_models_stays_text(card: Page) -> None:
    hostile = ended(
        1,
        status="failed",
        error=HOSTILE,
        result_summary=HOSTILE,
        files=[{"path": HOSTILE, "size_bytes": 1, "sha256": ""}],
    )
    show(card, created(1, summary=HOSTILE), hostile)
    rows = [{"kind": kind, "text": HOSTILE} for kind in ("tool", "notice", "prompt", "error")]
    transcript(card, 0, rows, tail=HOSTILE)
    assert card.locator("#el img, #el script").count() == 0
    assert card.evaluate("window.hit") is None
    assert card.locator("#el").inner_text().count("onerror") == 9
    transcript(card, 0, [{"kind": "text", "html": "<p>from the kernel's <em>allow-list</em></p>"}])
    assert card.locator("#el em").count() == 1


def test_transcript_rows_before_the_change_stay(card: Page) -> None:
    transcript(card, 0, [{"kind": "text", "html": "<p>one</p>"}, {"kind": "tool", "text": "read", "ok": None}], "tw")
    kept = card.locator(".subagents-row").first.element_handle()
    transcript(
        card,
        1,
        [{"kind": "tool", "text": "read", "ok": False}, {"kind": "notice", "text": "", "agents": [1, 2]}],
    )
    assert card.evaluate("row => row.isConnected", kept)
    assert card.locator(".subagents-row").all_inner_texts() == [
        "one",
        "read (failed)",
        "notice: sub-agents 1, 2 ended",
    ]
    assert not card.locator(".subagents-tail").is_visible()
    transcript(card, 9, [{"kind": "text", "html": "<p>later</p>"}])
    assert sent(card) == [{"type": "ready"}], "a gap is asked for again"


def test_clocks_tick_by_the_kernels_time(card: Page) -> None:
    show(card, created(1, time=1000), now=1030)
    elapsed = card.locator("[data-agent-id='1'] .subagents-elapsed")
    assert elapsed.inner_text() == "0:30 of 10:00"
    card.wait_for_function(
        "() => document.querySelector('.subagents-card .subagents-elapsed').textContent.startsWith('0:32')"
    )
    show(card, created(1), ended(1, stats={"runtime_seconds": 45}), now=1100)
    assert elapsed.inner_text() == "0:45", "of an ended one the limit says nothing"


def test_a_long_result_can_be_opened(card: Page) -> None:
    show(card, created(1), created(2), ended(1, result_summary="word " * 400), ended(2, result_summary="short"))
    more = card.locator("[data-agent-id='1'] .subagents-more")
    result = card.locator("[data-agent-id='1'] .subagents-result")
    before = result.bounding_box()
    more.click()
    after = result.bounding_box()
    assert before is not None
    assert after is not None
    assert after["height"] > before["height"]
    assert more.inner_text() == "Show less"
    assert not card.locator("[data-agent-id='2'] .subagents-more").is_visible()


def test_only_the_states_speak_and_motion_can_be_switched_off(card: Page) -> None:
    show(card, created(1), Started(agent_id=1, pid=1, agent="explore"))
    live = card.locator("[aria-live]").evaluate_all("elements => elements.map(e => e.className)")
    assert live == ["subagents-badge"] * 2
    badge = "document.querySelector('.subagents-card .subagents-badge')"
    dot = f"() => getComputedStyle({badge}, '::before').animationName"
    assert card.evaluate(dot) == "subagents-breathe"
    card.emulate_media(reduced_motion="reduce")
    assert card.evaluate(dot) == "none"
    card.emulate_media(reduced_motion="no-preference")


def test_nothing_overflows_in_a_narrow_output(card: Page) -> None:
    card.set_viewport_size({"width": 320, "height": 700})
    show(
        card,
        created(1, summary="x" * 200),
        ended(1, error="y" * 300, files=[{"path": "z" * 90, "size_bytes": 1, "sha256": ""}]),
    )
    transcript(card, 0, [{"kind": "tool", "text": "t" * 300, "ok": True}], "w" * 300)
    assert card.evaluate("document.documentElement.scrollWidth") <= 320
    card.set_viewport_size({"width": 900, "height": 700})


def test_a_closed_view_listens_no_more(card: Page) -> None:
    listens_to = ["change:state", "comm_live_update", "msg:custom"]
    assert sorted(card.evaluate("() => Object.keys(handlers)")) == listens_to
    card.evaluate("() => dispose()")
    assert card.evaluate("() => Object.keys(handlers)") == []
