"""Model text made safe to show: the only way by which it becomes HTML.

JupyterLab runs scripts that stand in `text/markdown`, `text/html` and `ipywidgets.HTML` outputs of a
trusted notebook, so model text never goes there as it is. Here raw HTML is not parsed at all, images
become links (nothing is loaded until somebody clicks), and an allow-list is the second wall.
"""

from __future__ import annotations

import html
import re
from typing import Any

import mistune
import nh3

from easyagent.plain_text import clean_text as clean_text

MAX_MARKDOWN = 200_000
"""Characters; longer text is shown as plain text."""

_TAGS = {
    "p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code",
    "em", "strong", "del", "a", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
_ATTRIBUTES = {"*": set[str](), "a": {"href", "target"}, "th": {"align"}, "td": {"align"}, "ol": {"start"}}


def to_html(markdown: str) -> str:
    """Markdown as HTML that holds no script, no image, no style, and only http, https and mailto links."""
    text = clean_text(markdown)
    if len(text) <= MAX_MARKDOWN:
        try:
            return _allowed(str(_markdown(text)))
        except RecursionError:  # nested deeper than the parser can follow: no reader needs that as Markdown
            pass
    return f"<pre>{html.escape(text)}</pre>\n"


def _allowed(markup: str) -> str:
    return nh3.clean(
        markup,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes={"li": {"task"}},
        clean_content_tags=set(),
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
        link_rel="noopener noreferrer nofollow",
        set_tag_attribute_values={"a": {"target": "_blank"}},
    )


class _Renderer(mistune.HTMLRenderer):
    """mistune's HTML without what the allow-list would drop anyway, so that its meaning stays readable."""

    def text(self, text: str) -> str:
        return html.escape(clean_text(html.unescape(text)), quote=False)

    def image(self, text: str, url: str, title: str | None = None) -> str:
        return self.link(text or html.escape(url), url)

    def task_list_item(self, text: str, checked: bool = False) -> str:
        return f'<li class="task">{"☑" if checked else "☐"} {text}</li>\n'

    def table_cell(self, text: str, align: str | None = None, head: bool = False) -> str:
        tag = "th" if head else "td"
        return f'<{tag} align="{align}">{text}</{tag}>\n' if align else f"<{tag}>{text}</{tag}>\n"


def _bare_links(md: mistune.Markdown) -> None:
    """Make bare addresses links. ASCII only: in Chinese text no space stands after an address."""

    def parse(inline: Any, match: re.Match[str], state: Any) -> int:
        address = match.group(0)
        if state.in_link:
            inline.process_text(address, state)
        else:
            child = [{"type": "text", "raw": address}]
            state.append_token({"type": "link", "children": child, "attrs": {"url": address}})
        return match.end()

    pattern = r"https?://[!#-)+-;=?-Z_a-z~%\[\]]*[#-&+\-/-9=@-Z_a-z~]"
    md.inline.register("bare_link", pattern, parse)


def _strong_spans(md: mistune.Markdown) -> None:
    """Take a simple `**span**` as strong even where CommonMark does not.

    Its rule wants a space or a sign outside a span that ends in a sign; in Chinese text, as in
    `**结论：**三个来源一致`, there is none. (https://github.com/commonmark/commonmark-spec/issues/650)
    """

    def parse(inline: Any, match: re.Match[str], state: Any) -> int | None:
        if state.depth >= inline.max_nested_level:
            return None
        inner = state.copy()
        inner.src = match.group(0)[2:-2]
        state.append_token({"type": "strong", "children": inline.render(inner)})
        return match.end()

    pattern = r"\*\*(?=[^\s*])(?:[^*\n`\\]|\\[^\n]|`[^`\n]+`){1,300}(?<=[^\s*])\*\*(?!\*)"
    md.inline.register("strong_span", pattern, parse, before="emphasis")


def _parser() -> mistune.Markdown:
    renderer = _Renderer(escape=True)
    plugins = [mistune.plugins.import_plugin(name) for name in ("table", "strikethrough", "task_lists")]
    markdown = mistune.Markdown(renderer, plugins=[*plugins, _bare_links, _strong_spans])
    renderer.register("task_list_item", _Renderer.task_list_item)
    renderer.register("table_cell", _Renderer.table_cell)
    # Without these rules `<` is a letter like any other, and a block's end never depends on a tag.
    markdown.block.specification["block_html"] = r"(?!)"  # the list rule looks for it by name
    markdown.block.rules = [rule for rule in markdown.block.rules if rule != "raw_html"]
    markdown.inline.rules = [rule for rule in markdown.inline.rules if rule != "inline_html"]
    return markdown


_markdown = _parser()

_FENCE = re.compile(r"(?:[ >]|[-*+] |\d{1,9}[.)] )*(`{3,}|~{3,})(.*)")
_FENCE_END = re.compile(r"[ >]*(`{3,}|~{3,})\s*$")
_LIST = re.compile(r"[ >]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")


class BlockRenderer:
    """Renders a growing Markdown text: finished blocks once each, the rest as a plain tail.

    >>> growing = BlockRenderer()
    >>> growing.update("# Title\\n\\nSome te")
    >>> growing.blocks, growing.tail
    (['<h1>Title</h1>\\n'], 'Some te')
    """

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self.tail = ""
        self._done = ""

    def update(self, text: str) -> None:
        """Take the whole text so far. It normally extends the last one; otherwise all is rendered anew."""
        text = clean_text(text)
        if not text.startswith(self._done):
            self.blocks, self._done = [], ""
        rest = text[len(self._done) :]
        start = 0
        for end in _block_ends(rest):
            self.blocks.append(to_html(rest[start:end]))
            start = end
        self._done += rest[:start]
        self.tail = rest[start:]

    def finish(self, text: str) -> list[str]:
        """The blocks of the complete text; together they are exactly `to_html(text)`.

        Blocks already rendered are kept where they can be: a link whose address is given later,
        for one, changes a block that looked finished.
        """
        self.update(text)
        blocks = [*self.blocks, to_html(self.tail)] if self.tail.strip() else self.blocks
        whole = to_html(text)
        self.blocks = blocks if "".join(blocks) == whole else [whole]
        self._done, self.tail = clean_text(text), ""
        return self.blocks


def _block_ends(text: str) -> list[int]:
    """Where a block surely ended: at a blank line outside fences.

    A list or indented code may go on after it, so there only the next unindented line decides. When in
    doubt the block stays open, which costs only that it is shown as plain text a little longer.
    """
    ends: list[int] = []
    fence = ""
    in_list = indented = blank = False
    start = offset = 0
    for line in text.splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        if line.strip():
            indent = len(line) - len(line.lstrip(" \t"))
            if blank and indent == 0 and not fence and not _LIST.match(line):
                ends.append(offset)
                start, in_list, indented = offset, False, False
            in_list = in_list or _LIST.match(line) is not None
            indented = indented or indent > 3 or line.startswith("\t")
            fence = _fence_after(fence, line)
        offset += len(line)
        blank = not line.strip() and bool(text[start:offset].strip())
        if blank and not (fence or in_list or indented):
            ends.append(offset)
            start, blank = offset, False
    return ends


def _fence_after(fence: str, line: str) -> str:
    """The fence that is open after this line with what stands before it, "" for none."""
    quoted = line.lstrip(" ").startswith(">")
    if fence.startswith(">") and not quoted:
        fence = ""
    match = _FENCE.match(line) if not fence else _FENCE_END.match(line)
    if match is None:
        return fence
    if not fence:
        marks, info = match.groups()
        return "" if marks[0] == "`" and "`" in info else (">" if quoted else "") + marks
    opened = fence.lstrip(">")
    marks = match[1]
    closes = marks[0] == opened[0] and len(marks) >= len(opened) and quoted == fence.startswith(">")
    return "" if closes else fence
