"""Model text made safe: what survives, what does not, and that streaming ends at the same HTML."""

from __future__ import annotations

import random
import re

import pytest

from jupyter_subagents.render import MAX_MARKDOWN, BlockRenderer, clean_text, to_html

HOSTILE = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    "<img src=https://leak.example/x.png>",
    "![x](https://leak.example/x.png)",
    '![x](javascript:window.hit=1 "t")',
    "[x](javascript:window.hit=1)",
    "[x](JaVaScRiPt&#58;window.hit=1)",
    "[x](data:text/html,<script>window.hit=1</script>)",
    "[x](vbscript:x)",
    "<javascript:window.hit=1>",
    "<iframe srcdoc='<script>window.hit=1</script>'></iframe>",
    "<svg onload=window.hit=1>",
    "<details open ontoggle=window.hit=1>",
    "<style>body{display:none}</style>",
    '<a href="x" data-commandlinker-command="terminal:create-new" data-commandlinker-args="{}">x</a>',
    '[x](https://ok.example "onclick=x\\" onmouseover=\\"window.hit=1")',
    "```<script>\nwindow.hit=1\n```",
    "| a | b |\n|--|--|\n| <script>window.hit=1</script> | ![](https://leak.example) |",
    "- [x] <script>window.hit=1</script>",
    "[a]: javascript:window.hit=1\n\n[a]",
    "<x><!--><script>window.hit=1</script>-->",
    "`<script>window.hit=1</script>`",
    "**<img src=x onerror=window.hit=1>：**后",
    "https://ok.example/<script>window.hit=1</script>",
]

_TAG = re.compile(r"<(/?)([a-z0-9]+)((?:\s+[a-z-]+=\"[^\"<>]*\")*)\s*>")
_ALLOWED = {
    "p",
    "br",
    "hr",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "ul",
    "ol",
    "li",
    "blockquote",
    "pre",
    "code",
    "em",
    "strong",
    "del",
    "a",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
}


def assert_safe(markup: str) -> None:
    """Every `<` begins an allowed tag, whose attributes are known and whose links go to the web or mail."""
    rest = _TAG.sub("", markup)
    assert "<" not in rest, markup
    for _, tag, attributes in _TAG.findall(markup):
        assert tag in _ALLOWED, markup
        for name, value in re.findall(r'([a-z-]+)="([^"]*)"', attributes):
            assert name in {"href", "target", "rel", "align", "start", "class"}, markup
            assert name != "href" or value.startswith(("http://", "https://", "mailto:")), markup


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_becomes_harmless(text: str) -> None:
    markup = to_html(text)
    assert_safe(markup)
    assert markup.strip(), "what was written stays readable"


def test_the_safety_check_itself_can_fail() -> None:
    for markup in ("<script>x</script>", '<a href="javascript:x">x</a>', '<p onclick="x">x</p>', "<img>"):
        with pytest.raises(AssertionError):
            assert_safe(markup)


def test_markdown_people_use() -> None:
    markup = to_html("# T\n\n| a | b |\n|:--|--:|\n| 1 | 2 |\n\n- [x] done\n- [ ] open\n\n~~old~~ `x<y`\n")
    assert "<h1>T</h1>" in markup
    assert '<th align="right">b</th>' in markup
    assert '<li class="task">☑ done</li>' in markup
    assert "<del>old</del> <code>x&lt;y</code>" in markup
    link = to_html("[page](https://a.example/p)")
    assert 'rel="noopener noreferrer nofollow"' in link
    assert 'target="_blank"' in link


def test_raw_html_stays_text() -> None:
    assert to_html("a <b>c</b>\n\n<div>d</div>") == ("<p>a &lt;b&gt;c&lt;/b&gt;</p>\n<p>&lt;div&gt;d&lt;/div&gt;</p>\n")


def test_entities_are_read_and_written_again() -> None:
    assert to_html("a&nbsp;b &lt;script&gt; &#x202e;c &amp;") == "<p>a&nbsp;b &lt;script&gt; c &amp;</p>\n"
    assert to_html("`&lt;`") == "<p><code>&amp;lt;</code></p>\n"


def test_images_are_links() -> None:
    assert '<a href="https://a.example/i.png"' in to_html("![a plot](https://a.example/i.png)")
    assert "a plot</a>" in to_html("![a plot](figures/plot.png)")


def test_chinese_text() -> None:
    assert to_html("**结论：**一致") == "<p><strong>结论：</strong>一致</p>\n"
    assert to_html("**甲**乙：**丙。**丁") == "<p><strong>甲</strong>乙：<strong>丙。</strong>丁</p>\n"
    markup = to_html("见https://a.example/x，然后")
    assert 'href="https://a.example/x"' in markup
    assert markup.endswith("</a>，然后</p>\n")


def test_clean_text_strips_what_is_unseen() -> None:
    hidden = "a\x1b[31mb\x1b[0m\x1b]0;title\x07c\x00\x08\u202ed\u2066e\U000e0041f\ud800g\x9b1mh"
    assert clean_text(hidden) == "abcdefgh"
    assert clean_text("a\tb\r\nc\rd\u2028e") == "a\tb\nc\nd\ne"
    assert clean_text("👩‍🔬 ё 漢") == "👩‍🔬 ё 漢"
    to_html("\ud800 \udfff").encode()


@pytest.mark.parametrize("text", [">" * 5000, "[" * 5000, "*a _b " * 3000, "- " * 3000, "`" * 5001, "![" * 5000])
def test_nested_nonsense_neither_raises_nor_takes_long(text: str) -> None:
    assert_safe(to_html(text))


def test_too_long_text_is_plain() -> None:
    assert to_html("# a\n" * MAX_MARKDOWN).startswith("<pre># a\n")
    assert to_html("# a\n").startswith("<h1>")


def stream(text: str, step: int) -> BlockRenderer:
    growing = BlockRenderer()
    for end in range(step, len(text) + step, step):
        before = list(growing.blocks)
        growing.update(text[:end])
        assert growing.blocks[: len(before)] == before, "a finished block is never rendered again"
    return growing


ANSWER = """# Title

A paragraph
of two lines.

- one

- two

  inside two
- three

1. first
2. second

| a | b |
|--|--|
| 1 | 2 |

```python
x = 1

# not a heading

- not a list
```

> quoted
> twice

    indented

    code

Last words
"""


@pytest.mark.parametrize("step", [1, 7, 64])
def test_blocks_appear_one_by_one_and_read_as_the_whole(step: int) -> None:
    growing = stream(ANSWER, step)
    assert len(growing.blocks) >= 6
    assert growing.tail == "Last words\n"
    assert "".join([*growing.blocks, to_html(growing.tail)]) == to_html(ANSWER)
    streamed = list(growing.blocks)
    assert growing.finish(ANSWER)[: len(streamed)] == streamed
    assert growing.tail == ""


def test_an_open_fence_or_list_stays_in_the_tail() -> None:
    growing = stream("done\n\n```\ncode\n\nmore\n\n", 3)
    assert growing.blocks == ["<p>done</p>\n"]
    assert growing.tail == "```\ncode\n\nmore\n\n"
    growing = stream("- a\n\n", 1)
    assert growing.blocks == []


def test_an_address_given_later_changes_the_finished_block() -> None:
    text = "see [it][1]\n\nmore\n\n[1]: https://a.example"
    growing = stream(text, 5)
    assert "href" not in growing.blocks[0]
    assert "".join(growing.finish(text)) == to_html(text)
    assert "href" in growing.blocks[0]


def test_a_text_that_is_not_a_continuation_starts_anew() -> None:
    growing = BlockRenderer()
    growing.update("one\n\ntwo")
    growing.update("other\n\ntwo")
    assert growing.blocks == ["<p>other</p>\n"]


PIECES = [
    "text",
    "**b**",
    "- a",
    "  - b",
    "1. one",
    "    indented",
    "```",
    "```py",
    "~~~",
    "> q",
    "> ```",
    "# h",
    "---",
    "| a | b |",
    "|--|:-:|",
    "| 1 | 2 |",
    "",
    "",
    "",
    "  para",
    "<div>",
    "<!--",
    "* * *",
    "- ```",
    "`x",
    "*it",
    "- ",
]


@pytest.mark.parametrize("seed", range(60))
def test_any_text_ends_as_the_whole(seed: int) -> None:
    random_ = random.Random(seed)
    text = "\n".join(random_.choice(PIECES) for _ in range(20))
    growing = stream(text, random_.randrange(1, 9))
    assert "".join(growing.finish(text)) == to_html(text)
    assert_safe(to_html(text))
