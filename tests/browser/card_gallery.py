"""A page with cards in all their states, outside Jupyter, for people who work on how they look.

    python tests/browser/card_gallery.py gallery.html --language zh --theme THEME.css

THEME.css may be a JupyterLab theme's `index.css`; without it the cards show their fallback colours.
The events are folded, rendered and recorded by the product's own code; only the widget's model is played.
"""

# ruff: noqa: E501  (the scripted texts are read as they stand)
from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path

from easyagent.models import (
    AgentCreated,
    AgentEnded,
    AgentEvent,
    Cause,
    DeliveredFile,
    MessageAdded,
    Retrying,
    RoundEnded,
    RoundStarted,
    Started,
    Stats,
    SubAgentEnd,
    SubAgentStatus,
    TextDelta,
    ToolFinished,
    ToolStarted,
    Usage,
    UsageReported,
    WrapUp,
)
from jupyter_subagents.card_state import CardState, reduce, to_view
from jupyter_subagents.card_view import DEMO_MODEL
from jupyter_subagents.cards import TranscriptFeed
from jupyter_subagents.record import record_html, record_text
from jupyter_subagents.strings import ui_strings

WORDS = {
    "en": {
        "summaries": ["Rainfall tables by station", "Papers on drought indices", "Soil moisture, 2014–2023"],
        "actions": [
            "Reading data/rain_north.csv",
            "Searching the web: standardised drought index",
            "Running python check.py",
        ],
        "plan": "I split the work: one sub-agent a source. They run in the background; I go on when they report.",
        "answer": """## What the three sources say

The dry spells of **2018** and **2022** stand in all three sources; the one of 2020 only in the soil record.

| source | dry months | first | longest spell |
|:--|--:|:--|--:|
| rain gauges | 31 | 2014-07 | 5 |
| papers | 24 | 2015-05 | 4 |
| soil moisture | 37 | 2014-06 | 7 |

- [x] gaps filled by the monthly median
- [ ] station 17 has no record after 2021

```python
dry = rain.groupby("month").mm.sum() < 20
```

See `sub_agent_results/agent_1/report.md` and https://example.org/drought.""",
        "result": "Read 12 station tables (2014–2023, 1,204 rows). 31 dry months; the longest spell is May to September 2018. "
        "Station 17 ends in 2021 and was left out of the mean. Two stations report in inches and were converted. "
        "The table dry_months.csv holds one row a month; report.md says how gaps were filled and which were not. "
        "The north and the south differ: 22 of the 31 dry months are in the south alone.",
        "error": "The endpoint refused the key (401): check the key for this base URL.",
        "prompt": "And what about the coast?",
    },
    "zh": {
        "summaries": ["各站点降雨量表格", "干旱指数相关论文", "2014–2023 年土壤湿度"],
        "actions": [
            "正在读取 data/rain_north.csv",
            "正在搜索网页：标准化干旱指数",
            "正在运行 python check.py",
        ],
        "plan": "我把工作分成三份，每个来源一个子智能体。它们在后台运行，报告后我再继续。",
        "answer": """## 三个来源的结论

**2018** 年和 **2022** 年的干旱在三个来源中都出现；2020 年的只在土壤记录中出现。

| 来源 | 干旱月数 | 首次 | 最长持续 |
|:--|--:|:--|--:|
| 雨量计 | 31 | 2014-07 | 5 |
| 论文 | 24 | 2015-05 | 4 |
| 土壤湿度 | 37 | 2014-06 | 7 |

- [x] 缺口按月中位数补全
- [ ] 17 号站 2021 年后没有记录

详见 `sub_agent_results/agent_1/report.md` 和 https://example.org/drought。""",
        "result": "读取了 12 个站点表格（2014–2023 年，共 1,204 行）。共有 31 个干旱月，最长一次为 2018 年 5 月至 9 月。"
        "17 号站的记录止于 2021 年，未计入平均值。两个站点以英寸为单位，已换算。"
        "dry_months.csv 每月一行；report.md 说明了缺口如何补全，哪些没有补全。南北不同：31 个干旱月中有 22 个只出现在南部。"
        "结论在更换补全方法后没有变化，详细的敏感性分析见报告附录，其中列出了每个站点的补全比例与误差。",
        "error": "端点拒绝了密钥 (401)：请检查此地址的密钥。",
        "prompt": "沿海地区怎么样？",
    },
}


LOST = "its kernel is gone"


class Story:
    """Scripted events with times near now, folded by the product's own reducer."""

    def __init__(self, words: dict, now: float, model: str = "gpt-x-mini") -> None:
        self.words, self.now, self.model = words, now, model
        self.state = CardState(label="drought")

    def add(self, *events: AgentEvent) -> None:
        for event in events:
            self.state = reduce(self.state, event)

    def begin(self, ago: float) -> None:
        self.add(
            RoundStarted(time=self.now - ago, round_id="r1", prompt="Compare.", origin="user"),
            UsageReported(usage=self.usage(2100, 0.0021), model=self.model),
            ToolStarted(call_id="l", name="list_files", arguments={}, action=self.words["actions"][0]),
            ToolFinished(call_id="l", name="list_files", ok=True, preview=""),
        )

    def usage(self, total: int, cost: float | None) -> Usage:
        return Usage(prompt=total, completion=0, total=total, cost_usd=cost)

    def agent(self, number: int, ago: float, kind: str = "explore", limit: float = 600) -> None:
        started = AgentCreated(
            time=self.now - ago,
            agent_id=number,
            run_id=f"conv_{number}",
            agent=kind,
            summary=self.words["summaries"][(number - 1) % 3],
            deliverables_dir=f"sub_agent_results/agent_{number}",
            timeout_seconds=limit,
            background=True,
            model=self.model,
        )
        self.add(started)

    def work(self, number: int, ago: float, cost: float | None = 0.0123) -> None:
        stats = Stats(files_read=12, searches=number, web_pages=number - 1, commands=4)
        action = self.words["actions"][(number - 1) % 3]
        who = {"agent_id": number, "time": self.now - ago}
        self.add(
            Started(pid=1, agent="explore", model=self.model, **who),
            UsageReported(usage=self.usage(18_240 * number, cost), model=self.model, **who),
            ToolStarted(call_id="x", name="read_file", arguments={}, action=action, **who),
            ToolFinished(call_id="x", name="read_file", ok=True, preview="", stats=stats, **who),
        )

    def end(self, number: int, status: SubAgentStatus, ago: float = 5, **fields: object) -> None:
        values = {"status": status, "cause": Cause.FINISH_TASK, "ended_at": "2024-01-01T00:00:00Z"} | fields
        end = SubAgentEnd.model_validate(values)
        self.add(AgentEnded(time=self.now - ago, agent_id=number, run_id=f"conv_{number}", end=end))

    def say(self, text: str) -> None:
        self.add(MessageAdded(message={"role": "assistant", "content": text}))


def _files(*names: str) -> tuple[DeliveredFile, ...]:
    return tuple(DeliveredFile(path=name, size_bytes=900 * 7**n, sha256="") for n, name in enumerate(names))


def scenes(words: dict, now: float) -> Iterator[tuple[str, CardState]]:
    """Each state of header and cards at least once."""
    story = Story(words, now)
    story.begin(62)
    story.say(words["plan"])
    for number in (1, 2, 3):
        story.agent(number, 58)
    story.work(1, 55)
    story.work(2, 50)
    story.add(Retrying(agent_id=2, reason="429 Too Many Requests", wait_seconds=8))
    yield "running, starting, retrying", story.state

    story = Story(words, now)
    story.begin(520)
    story.say(words["plan"])
    for number in (1, 2, 3):
        story.agent(number, 510)
        story.work(number, 508)
    story.end(
        1,
        SubAgentStatus.COMPLETED,
        40,
        result_summary=words["result"],
        files=_files("report.md", "dry_months.csv", "figures/spells.png"),
    )
    story.add(WrapUp(agent_id=2, time=now - 20, reason="time"), RoundEnded(time=now - 60, round_id="r1", content=""))
    yield "waiting for sub-agents: completed, wrapping up, running", story.state

    story.end(2, SubAgentStatus.COMPLETED, 9, result_summary=words["summaries"][1], files=_files("papers.md"))
    story.end(3, SubAgentStatus.TERMINATED, 8, cause="terminated", partial=True, files=_files("draft.md"))
    notice = "Sub-agent 1 (a) has completed its task.\n\nSub-agent 2 (b) has completed its task."
    story.add(RoundStarted(time=now - 7, round_id="r2", prompt=notice, origin="notice"))
    streaming = words["answer"][:330]
    story.add(TextDelta(text=streaming))
    yield "a second round streams", story.state
    story.say(words["answer"])
    story.add(RoundEnded(time=now - 1, round_id="r2", content=words["answer"]))
    yield "finished; may continue", replace(story.state, can_continue=True)

    story = Story(words, now)
    story.begin(700)
    for number in (1, 2, 3, 4):
        story.agent(number, 690, "analyst", 60.0)
        story.work(number, 688, None)
    story.end(1, SubAgentStatus.FAILED, 600, cause="api_error", error=words["error"])
    story.end(2, SubAgentStatus.TIMEOUT, 600, cause="timeout", partial=True, files=_files("half.csv"))
    story.end(3, SubAgentStatus.INTERRUPTED, 600, cause="kernel_exit", partial=True)
    story.end(
        4,
        SubAgentStatus.COMPLETED,
        630,
        result_summary=words["summaries"][0],
        files=_files(*[f"part_{n}.csv" for n in range(6)]),
    )
    story.add(
        RoundStarted(round_id="r2", prompt=words["prompt"], origin="user"),
        ToolStarted(call_id="w", name="x", arguments={}, action=words["actions"][1]),
        ToolFinished(call_id="w", name="x", ok=False, preview=""),
        RoundEnded(time=now - 590, round_id="r2", content="", error=words["error"]),
    )
    yield "bad ends, cost unknown", story.state

    story = Story(words, now, DEMO_MODEL)
    story.begin(12)
    story.agent(1, 10, "general")
    story.work(1, 9)
    yield "demo model", story.state
    yield LOST, story.state


PAGE = """<!doctype html><meta charset="utf-8"><title>Cards</title><style>
%(theme)s
body { margin: 0; padding: 16px 24px; background: var(--jp-layout-color0, #fff); color: var(--jp-content-font-color1, #000);
  font-family: var(--jp-content-font-family, sans-serif); font-size: 14px }
body > h2 { font: 600 12px sans-serif; opacity: .5; margin: 28px 0 6px; text-transform: uppercase }
%(css)s</style>%(places)s<script type="application/json" id="cards">%(cards)s</script>
<script type="module">%(esm)s
for (const [index, card] of JSON.parse(document.getElementById("cards").textContent).entries()) {
  const handlers = {};
  const model = { get: (name) => card[name], off() {}, on: (name, call) => { handlers[name] = call; },
    send: (content) => { if (content.type === "ready") queueMicrotask(() => { handlers["msg:custom"](card.transcript); if (card.lost) handlers.comm_live_update(); }); else console.log(JSON.stringify(content)); } };
  agentCard.render({ model, el: document.getElementById("card-" + index) });
}
</script>"""


def page(language: str, theme: str) -> str:
    """The gallery as one HTML document."""
    strings, now = ui_strings(language), time.time()
    static = files("jupyter_subagents") / "static"
    places, cards = [], []
    for index, (title, state) in enumerate(scenes(WORDS[language], now)):
        feed = TranscriptFeed()
        feed.update(state)
        view = to_view(state, now=now)
        whole = {**feed.whole(), "now": now}
        cards.append({"state": view, "strings": dict(strings), "transcript": whole, "lost": title == LOST})
        record = record_html(state, strings=strings)
        text = escape(record_text(state, strings=strings))
        places.append(
            f'<h2>{title}</h2><div id="card-{index}"></div><h2>its record</h2>'
            f'<div class="jp-RenderedHTMLCommon">{record}</div><!--{text.replace("--", "")}-->'
        )
    esm = (static / "card.js").read_text("utf-8").replace("export default {", "const agentCard = {")
    return PAGE % {
        "theme": theme,
        "css": (static / "card.css").read_text("utf-8"),
        "esm": esm,
        "places": "".join(places),
        "cards": json.dumps(cards).replace("<", "\\u003c"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--language", choices=sorted(WORDS), default="en")
    parser.add_argument("--theme", type=Path, help="a stylesheet that sets the --jp-* colours")
    arguments = parser.parse_args()
    theme = arguments.theme.read_text("utf-8") if arguments.theme else ""
    arguments.output.write_text(page(arguments.language, theme), "utf-8")


if __name__ == "__main__":
    main()
