"""What the front end gets, and the words it is shown with."""

from __future__ import annotations

import json
import string

from easyagent.models import AgentCreated, Started, SubAgentStatus
from jupyter_subagents.card_state import CardState, reduce, to_view
from jupyter_subagents.card_view import DEMO_MODEL, cost_text, count_text, duration_text, size_text
from jupyter_subagents.strings import LANGUAGES, ui_strings


def test_the_view_is_json_and_holds_no_hidden_characters() -> None:
    hostile = AgentCreated(
        agent_id=1,
        run_id="conv_1",
        agent="x\ny",
        summary="a\x1b[31mb\u202ec",
        deliverables_dir="d",
        timeout_seconds=60,
        background=True,
    ).model_copy(update={"deliverables_dir": "d\ud800"})
    state = reduce(reduce(CardState(), Started(pid=1, agent="main", model=DEMO_MODEL)), hostile)
    view = to_view(state, now=1.5)
    json.dumps(view).encode()
    assert view["demo"]
    assert view["agents"][0]["directory"] == "d"
    assert view["agents"][0]["summary"] == "abc"
    assert view["agents"][0]["type"] == "x y"


def test_both_languages_have_the_same_words() -> None:
    def names(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}

    english, chinese = (ui_strings(language) for language in ("en", "zh"))
    assert set(LANGUAGES) == {"en", "zh"}
    assert english.keys() == chinese.keys()
    for key in english:
        assert names(english[key]) - {"n"} == names(chinese[key]) - {"n"}, key
    assert ui_strings("fr") is not None
    assert ui_strings("fr")["stop"] == english["stop"] != chinese["stop"]
    statuses = {f"status_{status}" for status in SubAgentStatus} | {"status_wrapping_up"}
    assert statuses <= english.keys()


def test_short_number_texts() -> None:
    assert [count_text(n) for n in (0, 999, 1000, 999_949, 999_950)] == [
        "0",
        "999",
        "1.0k",
        "999.9k",
        "1.00M",
    ]
    assert [cost_text(d) for d in (0, 0.00001, 0.0123, 1.5)] == ["$0", "<$0.0001", "$0.0123", "$1.50"]
    assert [size_text(n) for n in (0, 999, 1000, 12_345, 5_000_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "12 kB",
        "5.0 MB",
    ]
    assert [duration_text(s) for s in (-1, 42.9, 725, 3723)] == ["0:00", "0:42", "12:05", "1:02:03"]
