"""The static record: what the saved notebook shows of a conversation, with no kernel and no widget.

It must survive JupyterLab's sanitiser for untrusted notebooks, which keeps `class` and inline `style`
with plain values (no `var()`), GitHub, which drops all styles, and nbconvert. So: text that reads well
by itself, inline styles that work on light and dark (translucent greys, inherited text colour), no
`<style>`, no script, nothing loaded from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from html import escape
from typing import Any
from urllib.parse import quote

from jupyter_subagents.card_model import CardState, Entry
from jupyter_subagents.card_view import line
from jupyter_subagents.record_words import RecordWords
from jupyter_subagents.render import clean_text, to_html

MAX_BYTES = 200_000
_AGENTS_BYTES = 90_000
_ANSWER_BYTES = 100_000

_MUTED = "opacity:0.7"
_RULE = "1px solid rgba(128,128,128,0.35)"
_RED = "214,69,69"
_COLOURS = {
    "completed": "46,158,91",
    "failed": _RED,
    "timeout": "217,130,43",
    "wrapping_up": "217,130,43",
    "waiting_for_sub_agents": "217,130,43",
    "running": "59,130,214",
    "starting": "59,130,214",
}
_GREY = "138,138,138"
_THIRD = 31
_SHARES = {1: 100, 2: 46, 4: 46}
"""Width of a card in percent by how many there are, a gap's room taken off; more go in rows of three."""
_STYLES = {
    "pre": "background-color:rgba(128,128,128,0.12);border-radius:4px;padding:8px 10px;overflow-x:auto",
    "h1": "font-size:1.4em;font-weight:600;margin:0.9em 0 0.4em 0",
    "h2": "font-size:1.25em;font-weight:600;margin:0.9em 0 0.4em 0",
    "h3": "font-size:1.1em;font-weight:600;margin:0.9em 0 0.4em 0",
}


def record_html(state: CardState, *, strings: Mapping[str, str], state_at: datetime | None = None) -> str:
    """The record as HTML of at most 200 kB. `state_at` is the time named while something still runs."""
    return _Record(state, strings, state_at).html()


def record_text(state: CardState, *, strings: Mapping[str, str], state_at: datetime | None = None) -> str:
    """The record as plain text, for terminals, diffs and `text/plain`."""
    return _Record(state, strings, state_at).text()


class _Record(RecordWords):
    # --- HTML

    def html(self) -> str:
        title = escape(self.strings["conversation"].format(label=self.view["label"]))
        badge = _badge(self.header_word(), self.view["state"])
        header = _div(
            f"{badge} · <strong>{title}</strong> · {_joined(self.header_parts())}",
            f"padding:2px 0 6px 0;border-bottom:{_RULE};margin-bottom:10px",
        )
        asked = "".join(_div(escape(text), f"color:rgb({_RED});margin-bottom:6px") for text in self.questions())
        body = header + asked + self.agents_html() + self.transcript_html()
        return f'<div class="subagents-record" style="line-height:1.5">{body}</div>'

    def agents_html(self) -> str:
        cards: list[str] = []
        note = ""
        size = 0
        agents = self.view["agents"]
        share = _SHARES.get(len(agents), _THIRD)
        column = f"flex:1 1 {share}%;min-width:280px;box-sizing:border-box"
        for index, agent in enumerate(agents):
            card = self.agent_html(agent, column)
            size += len(card.encode())
            if size > _AGENTS_BYTES:
                note = _div(escape(self.strings["cut_agents"].format(n=len(agents) - index)), _MUTED)
                break
            cards.append(card)
        if not cards:
            return ""
        # Without them the cards of the last row would be wider than those above.
        fillers = f'<div style="{column};height:0"></div>' * (100 // share - 1)
        return f'<div style="display:flex;flex-wrap:wrap;gap:0 10px">{"".join(cards)}{fillers}</div>\n{note}'

    def agent_html(self, agent: dict[str, Any], column: str) -> str:
        name = escape(self.strings["sub_agent"].format(id=agent["agent_id"]))
        badge = _badge(self.status(agent), agent["status"])
        small = f"{_MUTED};font-size:92%"
        lines = [
            _div(f"<strong>{name}</strong> · {escape(agent['type'])} · {badge}"),
            _div(f"<strong>{escape(agent['summary'])}</strong>"),
            _div(_joined(self.facts(agent)), small),
            _div(_joined(self.counts(agent)), small),
        ]
        if agent["alive"] and agent["last_action"]:
            lines.append(_div(escape(agent["last_action"]), small))
        reasons = [text for text in (self.why(agent), agent["error"]) if text]
        lines += [_div(escape(text), f"color:rgb({_RED});margin-top:4px") for text in reasons]
        if agent["result"]:
            lines.append(_div(escape(self.shortened(agent["result"], 4000)), "margin-top:4px;white-space:pre-wrap"))
        if not agent["alive"]:
            lines.append(_div(self.files_html(agent), "margin-top:4px;font-size:92%"))
        colour = _COLOURS.get(agent["status"], _GREY)
        style = (
            f"{column};margin:0 0 10px 0;padding:7px 12px 9px 12px;"
            f"border:{_RULE};border-top:3px solid rgb({colour});border-radius:6px"
        )
        return f'<div style="{style}">{"".join(lines)}</div>\n'

    def files_html(self, agent: dict[str, Any]) -> str:
        directory = agent["directory"]
        partial = _div(escape(self.strings["partial"]), _MUTED) if agent["partial"] else ""
        if not agent["files"]:
            none = self.strings["no_deliverables"].format(directory=directory)
            return _div(escape(none), _MUTED) + partial
        links = [_file_link(directory, file["path"], file["size"]) for file in agent["files"]]
        if agent["more_files"]:
            links.append(escape(self.strings["more_files"].format(n=agent["more_files"])))
        return f"{escape(self.strings['deliverables_in'].format(directory=directory))}: {' · '.join(links)}{partial}"

    def transcript_html(self) -> str:
        """The newest entries that fit: the answer stands at the end."""
        parts: list[str] = []
        room = _ANSWER_BYTES
        for entry in reversed(self.entries()):
            part = self.entry_html(entry, room)
            room -= len(part.encode())
            if room < 0:
                parts.append(_div(escape(self.strings["cut_transcript"]), _MUTED))
                break
            parts.append(part)
        return "".join(reversed(parts))

    def entry_html(self, entry: Entry, room: int) -> str:
        if entry.kind == "text":
            return self.answer_html(entry.text, room)
        text = escape(self.entry_text(entry))
        if entry.kind in ("error", "interrupted"):
            return _div(text, f"color:rgb({_RED});margin:4px 0")
        if entry.kind == "tool":
            return _div(f"› {text}", f"{_MUTED};font-size:92%")
        return _div(text, f"{_MUTED};font-size:92%;border-top:{_RULE};margin:10px 0 6px 0;padding-top:4px")

    def answer_html(self, markdown: str, room: int) -> str:
        """The text as HTML; one that alone is too long is cut, and says so."""
        limit = len(markdown)
        note = ""
        while True:
            part = _div(_styled(to_html(markdown[:limit])), "margin:4px 0") + note
            if len(part.encode()) <= room or limit < 2000 or room < _ANSWER_BYTES // 2:
                return part
            limit //= 2
            note = _div(escape(self.strings["cut_text"]), _MUTED)

    def shortened(self, text: str, limit: int) -> str:
        return text if len(text) <= limit else f"{text[:limit]}…\n{self.strings['cut_text']}"

    # --- plain text

    def text(self) -> str:
        title = self.strings["conversation"].format(label=self.view["label"])
        lines = [" · ".join([title, self.header_word(), *self.header_parts()])]
        lines += self.questions()
        for agent in self.view["agents"]:
            lines += self.agent_lines(agent)
        lines.append("")
        for entry in self.entries():
            lines.append(clean_text(entry.text) if entry.kind == "text" else f"[{self.entry_text(entry)}]")
        text = "\n".join(lines)
        if len(text.encode()) <= MAX_BYTES:
            return text
        kept = text.encode()[: MAX_BYTES - 200].decode("utf-8", "ignore")
        return f"{kept}…\n{self.strings['cut_text']}"

    def agent_lines(self, agent: dict[str, Any]) -> list[str]:
        name = self.strings["sub_agent"].format(id=agent["agent_id"])
        lines = [
            " · ".join([name, agent["type"], agent["summary"], self.status(agent)]),
            "  " + " · ".join([*self.facts(agent), *self.counts(agent)]),
        ]
        texts = (self.why(agent), agent["error"], line(agent["result"], 600))
        lines += [f"  {text}" for text in texts if text]
        if agent["files"]:
            names = ", ".join(f"{file['path']} ({file['size']})" for file in agent["files"])
            lines.append(f"  {self.strings['deliverables_in'].format(directory=agent['directory'])}: {names}")
        if agent["partial"]:
            lines.append(f"  {self.strings['partial']}")
        return lines


def _div(inner: str, style: str = "") -> str:
    return f'<div style="{style}">{inner}</div>\n' if style else f"<div>{inner}</div>\n"


def _badge(word: str, status: str) -> str:
    """The state in words on its colour, translucent: the theme's own text colour stays readable on it."""
    colour = _COLOURS.get(status, _GREY)
    dot = f'<span style="color:rgb({colour})">●</span>'
    look = "border-radius:10px;padding:0 9px;font-weight:600;display:inline-block"
    style = f"background-color:rgba({colour},0.15);{look}"
    return f'<span style="{style}">{dot} {escape(word)}</span>'


def _joined(parts: list[str]) -> str:
    return " · ".join(escape(part) for part in parts)


def _file_link(directory: str, path: str, size: str) -> str:
    """A link relative to the notebook, or the bare name where the path does not stay below it."""
    label = f"{escape(path)} ({escape(size)})"
    whole = f"{directory}/{path}"
    if whole.startswith("/") or "\\" in whole or ".." in whole.split("/"):
        return label
    return f'<a href="{escape(quote(whole))}">{escape(path)}</a> ({escape(size)})'


def _styled(markup: str) -> str:
    """Say as inline style what the live card's stylesheet says; notebooks align table cells right by default.

    The markup comes from the allow-list, which writes `<` only where a tag begins.
    """
    markup = markup.replace('<li class="task">', '<li style="list-style:none;margin-left:-1.3em">')
    for tag, style in _STYLES.items():
        markup = markup.replace(f"<{tag}>", f'<{tag} style="{style}">')
    return re.sub(
        r'<(t[hd])(?: align="(left|right|center)")?>',
        lambda match: f'<{match[1]} style="text-align:{match[2] or "left"};padding:4px 12px 4px 8px">',
        markup,
    )
