"""The static record: readable anywhere, safe, honest about what still ran, and small."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import pytest

from easyagent.models import (
    AgentCreated,
    AgentEnded,
    AgentEvent,
    DeliveredFile,
    RoundEnded,
    RoundStarted,
    Stats,
    SubAgentEnd,
    TextDelta,
    ToolFinished,
    ToolStarted,
    Usage,
    UsageReported,
)
from jupyter_subagents.card_state import CardState, reduce
from jupyter_subagents.card_view import DEMO_MODEL
from jupyter_subagents.record import MAX_BYTES, record_html, record_text
from jupyter_subagents.strings import ui_strings

EN = ui_strings("en")
HOSTILE = "<script>x</script><img src=x onerror=y>\"'&"


def story(
    *, ended: bool = True, answer: str = "All **three** agree.", result: str = "found 31", **end: object
) -> CardState:
    events: list[AgentEvent] = [
        RoundStarted(time=1000, round_id="r", prompt="the cell's text", origin="user"),
        ToolStarted(call_id="c", name="x", arguments={}, action="Starting sub-agent 1"),
        ToolFinished(call_id="c", name="x", ok=True, preview=""),
        UsageReported(usage=Usage(total=1500, cost_usd=0.01), model="m-1"),
        AgentCreated(
            time=1001,
            agent_id=1,
            run_id="conv_1",
            agent="explore",
            summary="look at the gauges",
            deliverables_dir="sub_agent_results/agent_1",
            timeout_seconds=600,
            background=True,
        ),
    ]
    if ended:
        values = {
            "status": "completed",
            "cause": "finish_task",
            "ended_at": "",
            "result_summary": result,
            "stats": Stats(runtime_seconds=61, files_read=3, searches=1),
            "usage": Usage(total=2000, cost_usd=0.02),
            "files": [DeliveredFile(path="report.md", size_bytes=1200, sha256="")],
        }
        record = SubAgentEnd.model_validate(values | end)
        events += [
            AgentEnded(time=1062, agent_id=1, run_id="conv_1", end=record),
            RoundEnded(time=1065, round_id="r", content=answer),
        ]
    state = CardState(label="main")
    for event in events:
        state = reduce(state, event)
    return state


def test_the_record_holds_what_a_reader_needs() -> None:
    markup = record_html(story(), strings=EN)
    for text in (
        "m-1",
        "idle",
        "1:05",
        "3.5k tokens",
        "$0.0300",
        "Sub-agent 1",
        "explore",
        "look at the gauges",
        "completed",
        "1:01 · 2.0k tokens",
        "3 files read",
        "1 search",
        "2.0k tokens",
        "$0.0200",
        "found 31",
        "All <strong>three</strong> agree.",
        "Starting sub-agent 1",
    ):
        assert text in markup, text
    assert "of 10:00" not in markup, "of an ended one the limit says nothing"
    assert "of 10:00" in record_html(story(ended=False), strings=EN)
    assert '<a href="sub_agent_results/agent_1/report.md">report.md</a> (1.2 kB)' in markup
    assert "the cell's text" not in markup, "the prompt is the cell right above"
    plain = record_text(story(), strings=EN)
    for text in ("m-1", "completed", "found 31", "All **three** agree.", "report.md (1.2 kB)"):
        assert text in plain, text


def test_bad_ends_say_why() -> None:
    state = story(status="failed", cause="api_error", error="The key was refused.", files=[], result="")
    for record in (record_html(state, strings=EN), record_text(state, strings=EN)):
        assert "failed" in record
        assert "failed: the model endpoint failed" in record
        assert "The key was refused." in record
    assert "No files in sub_agent_results/agent_1" in record_html(state, strings=EN)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ({"partial": True}, True),
        ({"partial": True, "files": []}, True),
        ({"partial": True, "result": ""}, True),
        ({"partial": True, "files": [], "result": ""}, False),
        ({}, False),
    ],
)
def test_partial_is_said_where_something_was_cut(end: dict[str, Any], said: bool) -> None:
    state = story(**({"status": "timeout", "cause": "timeout"} | end))
    for record in (record_html(state, strings=EN), record_text(state, strings=EN)):
        assert (EN["partial"] in record) is said
        assert "timeout: the time limit of 600 seconds was reached" in record


def test_the_cards_of_a_short_last_row_get_the_width_of_the_others() -> None:
    """Fillers of the cards' own width take the row's rest; one card alone takes it all."""
    state = story()
    columns = []
    for number in (2, 3, 4, 5, 6):
        columns.append(re.findall(r"flex:1 1 (\d+)%", record_html(state, strings=EN)))
        created = AgentCreated(
            agent_id=number,
            run_id=f"c{number}",
            agent="explore",
            summary="s",
            deliverables_dir="d",
            timeout_seconds=60,
            background=True,
        )
        state = reduce(state, created)
    assert columns == [["100"], ["46"] * 3, ["31"] * 5, ["46"] * 5, ["31"] * 7]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_still_runs_is_never_called_running_without_a_time(language: str) -> None:
    strings = ui_strings(language)
    at = datetime(2024, 5, 1, 14, 5, tzinfo=UTC)
    for make in (record_html, record_text):
        alive = make(story(ended=False), strings=strings, state_at=at)
        for key in ("state_running", "status_starting"):
            word = strings[key]
            assert strings["state_at"].format(time="14:05", state=word) in alive
            assert alive.count(word) == alive.count(strings["state_at"].format(time="14:05", state=word))
        assert "14:05" not in make(story(), strings=strings, state_at=at)
    assert re.search(r"state at \d\d:\d\d: running", record_html(story(ended=False), strings=EN))


def test_the_demo_says_what_it_is() -> None:
    state = reduce(story(), UsageReported(usage=Usage(), model=DEMO_MODEL))
    assert EN["demo_tag"] in record_html(state, strings=EN)
    assert EN["cost_demo"] in record_text(state, strings=EN)
    assert EN["demo_tag"] not in record_html(story(), strings=EN)


class Collector(HTMLParser):
    """All tags, attributes and style properties of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.styles: dict[str, set[str]] = {}
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.depth += tag not in ("br", "hr")
        for name, value in attrs:
            self.attributes.add(name)
            if name == "style":
                for part in (value or "").split(";"):
                    key, _, setting = part.partition(":")
                    self.styles.setdefault(key.strip(), set()).add(setting.strip())

    def handle_endtag(self, tag: str) -> None:
        self.depth -= 1


def collected(markup: str) -> Collector:
    collector = Collector()
    collector.feed(markup)
    collector.close()
    return collector


def test_hostile_text_stays_text_everywhere() -> None:
    state = story(
        answer=HOSTILE,
        result=HOSTILE,
        error=HOSTILE,
        files=[{"path": f"{HOSTILE}.md", "size_bytes": 1, "sha256": ""}],
    )
    renamed = [
        AgentCreated(
            agent_id=2,
            run_id="b",
            agent=HOSTILE,
            summary=HOSTILE,
            deliverables_dir=HOSTILE,
            timeout_seconds=60,
            background=True,
        ),
        RoundStarted(round_id="s", prompt=HOSTILE, origin="notice"),
        TextDelta(text=HOSTILE),
        ToolStarted(call_id="d", name="y", arguments={}, action=HOSTILE),
    ]
    for event in renamed:
        state = reduce(state, event)
    document = collected(record_html(state, strings=EN))
    assert document.depth == 0, "nothing broke out of its element"
    assert document.tags <= {"div", "span", "strong", "a", "p", "ul", "li"}
    assert document.attributes <= {"class", "style", "href", "target", "rel"}


def test_only_styles_that_the_notebooks_sanitizer_keeps() -> None:
    """JupyterLab's sanitiser (apputils/sanitizer.ts) keeps these properties and no `var()` or `calc()`."""
    answer = "# h\n\n| a |\n|--:|\n| 1 |\n\n- [x] b\n\n```\nc\n```"
    state = reduce(story(answer=answer, error="e"), ToolStarted(call_id="z", name="n", arguments={}, action="a"))
    styles = collected(record_html(state, strings=EN)).styles
    assert set(styles) <= {
        "background-color",
        "border",
        "border-bottom",
        "border-radius",
        "border-top",
        "box-sizing",
        "color",
        "display",
        "flex",
        "flex-wrap",
        "font-size",
        "font-weight",
        "gap",
        "height",
        "line-height",
        "list-style",
        "margin",
        "margin-bottom",
        "margin-left",
        "margin-top",
        "max-width",
        "min-width",
        "overflow-x",
        "opacity",
        "padding",
        "padding-top",
        "text-align",
        "white-space",
    }
    assert "right" in styles["text-align"]
    assert not any("(" in value and not value.rpartition("rgb")[1] for values in styles.values() for value in values)


@pytest.mark.parametrize(
    ("path", "href"),
    [
        ("a b.csv", "sub_agent_results/agent_1/a%20b.csv"),
        ("javascript:x", "sub_agent_results/agent_1/javascript%3Ax"),
        ("../../etc/passwd", None),
        ("a\\b", None),
    ],
)
def test_file_links_stay_below_the_notebook(path: str, href: str | None) -> None:
    state = story(files=[{"path": path, "size_bytes": 1, "sha256": ""}])
    links = re.findall(r'href="([^"]*)"', record_html(state, strings=EN))
    assert links == ([href] if href else [])


def test_a_record_is_cut_at_200_kb_and_says_so() -> None:
    long = story(answer="word & word\n\n" * 40_000)
    markup = record_html(long, strings=EN)
    assert len(markup.encode()) <= MAX_BYTES
    assert EN["cut_text"] in markup
    assert "word &amp; word" in markup
    assert len(record_text(long, strings=EN).encode()) <= MAX_BYTES
    assert EN["cut_text"] not in record_html(story(), strings=EN)


def test_many_agents_and_rounds_fit_and_the_last_answer_stays() -> None:
    state = story()
    for number in range(2, 400):
        created = AgentCreated(
            agent_id=number,
            run_id=f"c{number}",
            agent="explore",
            summary="x" * 200,
            deliverables_dir="d",
            timeout_seconds=60,
            background=True,
        )
        state = reduce(state, created)
        state = reduce(state, RoundEnded(round_id="r", content=f"answer {number} " + "y" * 2000))
    markup = record_html(state, strings=EN)
    assert len(markup.encode()) <= MAX_BYTES
    assert "more sub-agents are not shown" in markup
    assert EN["cut_transcript"] in markup
    assert "answer 399 " in markup
    assert "answer 5 " not in markup
