"""read_file, write_file, edit_file, list_files, search_files, search_code: what they say, keep and refuse."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from easyagent.models import AgentDefinition
from easyagent.permissions import Grants
from easyagent.tools import ToolContext, ToolResult
from easyagent.tools.toolbox import Toolbox


def context(workspace: Path, *, level: str = "ask", owns_roots: bool = True, **rules: Any) -> ToolContext:
    return ToolContext(
        workspace=workspace.resolve(),
        language="en",
        grants=Grants(level, rules, owns_roots=owns_roots),
        roots=(workspace.resolve() / "out",) if owns_roots else (),
    )


def use(ctx: ToolContext, name: str, **arguments: Any) -> ToolResult:
    toolbox = Toolbox.for_sub_agent(AgentDefinition(name="a"))
    return asyncio.run(toolbox.call(name, json.dumps(arguments), ctx))


def refused(result: ToolResult) -> str:
    assert not result.ok and result.content.startswith("Error: "), result
    return result.content.removeprefix("Error: ")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "ws"
    (path / "out").mkdir(parents=True)
    (tmp_path / "ws-secret").mkdir()
    (tmp_path / "ws-secret" / "secret.txt").write_text("secret")
    return path


def test_reading_pages_through_a_file_with_its_place_in_the_header(workspace: Path) -> None:
    (workspace / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 2501)))
    (workspace / "empty").write_text("")
    (workspace / "open.txt").write_text("one\ntwo")
    ctx = context(workspace)
    lines = use(ctx, "read_file", path="a.txt").content.split("\n")
    assert lines[0] == "[a.txt: lines 1-2000 of 2500, 23893 bytes]"
    assert (lines[1], lines[2000], lines[2001]) == (
        "line 1", "line 2000", '[500 more lines: read_file(path="a.txt", offset=2001)]',
    )  # fmt: skip
    rest = use(ctx, "read_file", path="a.txt", offset=2001).content.split("\n")
    assert (rest[0], rest[1], rest[-1]) == ("[a.txt: lines 2001-2500 of 2500, 23893 bytes]", "line 2001", "line 2500")
    assert use(ctx, "read_file", path="a.txt", offset=7, limit=1).content == (
        '[a.txt: lines 7-7 of 2500, 23893 bytes]\nline 7\n[2493 more lines: read_file(path="a.txt", offset=8)]'
    )
    assert use(ctx, "read_file", path="open.txt").content == "[open.txt: lines 1-2 of 2, 7 bytes]\none\ntwo"
    assert use(ctx, "read_file", path="empty").content == "[empty: empty file]"
    assert (
        refused(use(ctx, "read_file", path="open.txt", offset=3)) == "open.txt has 2 lines; offset 3 is beyond its end."
    )
    assert ctx.stats.snapshot().files_read == 3


def test_a_long_line_and_a_huge_sparse_file_are_cut(workspace: Path) -> None:
    (workspace / "long.txt").write_text("x" * 5_000_000 + "\nend\n")
    long = use(context(workspace), "read_file", path="long.txt").content
    assert len(long) < 11_000 and "[line cut: 4,990,000 more characters]\nend" in long
    with (workspace / "sparse").open("wb") as file:
        file.write(b"head\n")
        file.truncate(50 << 30)
    assert "binary file" in refused(use(context(workspace), "read_file", path="sparse"))


ENCODINGS: dict[str, tuple[bytes, str]] = {
    "utf-8": ("é 样\n".encode(), "é 样"),
    "utf-8 bom": (b"\xef\xbb\xbf" + "é 样\n".encode(), "é 样"),
    "utf-16": ("é 样\n".encode("utf-16"), "é 样"),
    "utf-16 big": (b"\xfe\xff" + "é 样\n".encode("utf-16-be"), "é 样"),
    "gb18030": ("样地样地\n".encode("gb18030"), "样地样地"),
    "latin-1": (b"caf\xe9 \xff\n", "caf\xe9 \xff"),
    "crlf": (b"a\r\nb\r\n", "a\nb"),
    "mixed": (b"a\r\nb\nc\r\n", "a\r\nb\nc\r"),
    "old mac": (b"a\rb", "a\rb"),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_encoding_is_read_and_kept_by_an_edit(workspace: Path, name: str) -> None:
    data, text = ENCODINGS[name]
    path = workspace / "out" / "f.txt"
    path.write_bytes(data)
    ctx = context(workspace)
    assert text in use(ctx, "read_file", path="out/f.txt").content
    old = text[0]
    assert use(ctx, "edit_file", path="out/f.txt", old_text=old, new_text="Q", replace_all=True).ok
    assert path.read_bytes() != data
    assert use(ctx, "edit_file", path="out/f.txt", old_text="Q", new_text=old, replace_all=True).ok
    assert path.read_bytes() == data  # there and back: nothing but the named text was touched


def test_an_edit_that_would_damage_a_file_is_refused(workspace: Path) -> None:
    path = workspace / "out" / "f.txt"
    for data, new, part in (
        (b"\xff\xfea\0b\0c", "x", "no text in utf-16-le"),  # half a character at the end
        (b"caf\xe9 \xff b", "样", "cannot be written in the file's encoding latin-1"),
    ):
        path.write_bytes(data)
        assert part in refused(use(context(workspace), "edit_file", path="out/f.txt", old_text="b", new_text=new))
        assert path.read_bytes() == data


def test_an_edit_names_one_place_in_a_file_as_it_was_read(workspace: Path) -> None:
    path = workspace / "out" / "f.txt"
    path.write_text("one two two\n")
    path.chmod(0o750)
    ctx = context(workspace)
    edit = {"path": "out/f.txt", "new_text": "three"}
    assert use(ctx, "edit_file", old_text="one", **edit).content == "Replaced 1 occurrence in out/f.txt."
    assert "not found" in refused(use(ctx, "edit_file", old_text="four", **edit))
    assert "occurs 2 times" in refused(use(ctx, "edit_file", old_text="two", **edit))
    assert "old_text" in refused(use(ctx, "edit_file", old_text="", **edit))
    assert path.read_text() == "three two two\n"
    path.write_text("changed two two\n")
    assert "has changed since you read it" in refused(use(ctx, "edit_file", old_text="two", replace_all=True, **edit))
    use(ctx, "read_file", path="out/f.txt")
    done = use(ctx, "edit_file", old_text="two", replace_all=True, **edit)
    assert (done.content, path.read_text()) == ("Replaced 2 occurrences in out/f.txt.", "changed three three\n")
    assert path.stat().st_mode & 0o777 == 0o750
    assert list(ctx.stats.written) == ["out/f.txt"]
    assert [entry.name for entry in (workspace / "out").iterdir()] == ["f.txt"]  # no temporary file is left


def test_special_files_are_refused_at_once(workspace: Path) -> None:
    os.mkfifo(workspace / "fifo")
    (workspace / "zero").symlink_to("/dev/zero")
    (workspace / "loop").symlink_to("loop")
    (workspace / "escape").symlink_to("../ws-secret")
    (workspace / "binary").write_bytes(b"\x7fELF\0\0")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(workspace / "socket"))
        ctx = context(workspace)
        for path, part in (
            ("fifo", "not a regular file"), ("socket", "cannot be opened"), ("zero", "outside the workspace"),
            ("loop", "loop"), ("escape/secret.txt", "outside the workspace"), ("out", "is a directory"),
            ("../ws-secret/secret.txt", "outside the workspace"), ("/etc/passwd", "outside the workspace"),
            ("binary", "binary file of 6 bytes"), ("none.txt", "does not exist"), ("", "empty"), ("a\0b", "NUL"),
            ("x" * 5000, "name too long"), ("binary/x", "Not a directory"), ("/proc/self/environ", "outside"),
        ):  # fmt: skip
            assert part.lower() in refused(use(ctx, "read_file", path=path)).lower(), path
        for name in ("fifo", "socket", "zero", "loop"):
            assert "matches" not in refused(use(ctx, "edit_file", path=name, old_text="a", new_text="b"))
        (workspace / "inside").symlink_to("out")
        (workspace / "out" / "ok.txt").write_text("fine")
        for path in ("inside/ok.txt", str(workspace / "out" / "ok.txt"), "./out/../out/ok.txt"):
            assert use(ctx, "read_file", path=path).content.startswith("[out/ok.txt: ")  # the control
        assert "secret" not in use(ctx, "search_code", query="secret").content.split("\n", 1)[-1].replace(
            "secret' in", ""
        )
        assert "secret.txt" not in use(ctx, "list_files", pattern="**/*").content
        listing = use(ctx, "list_files").content.split("\n")
        assert {"escape/", "inside/", "out/", "loop\t(broken link)", "binary\t6 bytes"} <= set(listing)


FORBIDDEN = [
    "a.txt", "../ws-secret/new.txt", "escape/new.txt", "/tmp/new.txt", ".", "out", "out/.git/config", "out/AGENTS.md",
    "out/agents.MD", "out/n.ipynb", "out/n.IPYNB", ".subagents/x", "out/.subagent/conversations.json", "out/.mcp.json",
    "out/subagents/custom.json", "out/.claude/agents/a.md", "out/.ipynb_checkpoints/a", "", "out/a\0", "out/link.txt",
]  # fmt: skip


@pytest.mark.parametrize("level", ["ask", "edits", "auto", "read-only"])
def test_a_sub_agent_writes_in_its_own_roots_and_nowhere_else(workspace: Path, level: str) -> None:
    (workspace / "a.txt").write_text("old")
    (workspace / "escape").symlink_to("../ws-secret")
    (workspace / "out" / "link.txt").symlink_to("../a.txt")
    before = sorted(str(path) for path in workspace.parent.rglob("*"))
    ctx = context(workspace, level=level)
    for path in FORBIDDEN:
        refused(use(ctx, "write_file", path=path, content="new"))
        refused(use(ctx, "edit_file", path=path, old_text="old", new_text="new"))
    assert sorted(str(path) for path in workspace.parent.rglob("*")) == before
    assert (workspace / "a.txt").read_text() == "old"
    assert (
        use(ctx, "write_file", path="out/deep/er/ok.txt", content="é").content == "Wrote out/deep/er/ok.txt (2 bytes)."
    )
    assert (workspace / "out" / "deep" / "er" / "ok.txt").read_text() == "é"


@pytest.mark.parametrize(("level", "allowed"), [("ask", False), ("edits", True), ("auto", True), ("read-only", False)])
def test_the_main_agents_level_decides_over_its_writes(workspace: Path, level: str, *, allowed: bool) -> None:
    ctx = context(workspace, level=level, owns_roots=False)
    result = use(ctx, "write_file", path="new.txt", content="new")
    assert (result.ok, (workspace / "new.txt").exists()) == (allowed, allowed)
    if not allowed:
        assert f"permission level {level}" in result.content and "--permissions edits" in result.content
    denied = context(workspace, level=level, owns_roots=False, write_file={"docs/**": "deny", "*": "allow"})
    assert "permissions.write_file['docs/**'] = deny" in refused(
        use(denied, "write_file", path="docs/a.md", content="x")
    )


def test_names_that_are_no_words_stay_on_one_line(workspace: Path) -> None:
    for name in ("a\nb.txt", "esc\x1b[2J.txt", "-rf.txt", "plain.txt", os.fsdecode(b"\xff.txt")):
        (workspace / name).write_text("needle\n")
    ctx = context(workspace)
    listing = use(ctx, "list_files").content
    found = use(ctx, "search_files", pattern="*.txt").content
    matches = use(ctx, "search_code", query="needle").content
    for text in (listing, found, matches):
        assert "\x1b" not in text and r'"esc\u001b[2J.txt"' in text and r'"a\nb.txt"' in text
        assert "-rf.txt" in text and "plain.txt" in text
    assert len(matches.split("\n")) == 6
    assert use(ctx, "read_file", path="a\nb.txt").content.split("\n")[0] == r'["a\nb.txt": lines 1-1 of 1, 7 bytes]'


def test_listing_and_searching(workspace: Path) -> None:
    for name in ("a.py", "src/b.py", "src/deep/c.py", ".git/config", "src/__pycache__/b.pyc", ".subagents/x.py"):
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\nprint('Hello')\n")
    ctx = context(workspace)
    assert use(ctx, "list_files").content == "[.: 3 entries]\na.py\t22 bytes\nout/\nsrc/"
    assert use(ctx, "list_files", path="src", pattern="**/*.py").content == (
        "[src: 2 entries]\nsrc/b.py\t26 bytes\nsrc/deep/c.py\t31 bytes"
    )
    assert use(ctx, "search_files", pattern="*.py").content == (
        "[3 files match *.py in .]\na.py\t22 bytes\nsrc/b.py\t26 bytes\nsrc/deep/c.py\t31 bytes"
    )
    assert use(ctx, "search_code", query="hello", ignore_case=True, glob="b*").content == (
        "[1 matches for 'hello' in ., 1 files searched]\nsrc/b.py:2: print('Hello')"
    )
    assert (
        "src/deep/c.py:1: # src/deep/c.py" in use(ctx, "search_code", query=r"c\.py$", regex=True, path="src").content
    )
    assert "[0 matches" in use(ctx, "search_code", query="c.py$").content  # plain text, not a pattern
    for name, arguments, part in (
        ("search_code", {"query": "(", "regex": True}, "not valid"),
        ("search_code", {"query": "a", "path": "no"}, "does not exist"),
        ("search_files", {"pattern": "../*"}, "without '..'"), ("list_files", {"pattern": "/etc/*"}, "relative"),
        ("list_files", {"path": "a.py"}, "read it with read_file"), ("list_files", {"path": ".."}, "outside"),
        ("search_files", {"pattern": "*", "path": "a.py"}, "not a directory"), ("search_code", {"query": ""}, "query"),
    ):  # fmt: skip
        assert part in refused(use(ctx, name, **arguments))
    assert ctx.stats.searches == 4  # refused arguments are no searches


def test_results_are_limited_and_say_so(workspace: Path) -> None:
    for number in range(1001):
        (workspace / f"{number}.txt").write_text("needle")
    ctx = context(workspace)
    assert use(ctx, "list_files").content.endswith("[2 more entries: narrow the path or the pattern]")
    assert use(ctx, "search_files", pattern="*.txt").content.endswith("[801 more files: narrow the pattern]")
    assert use(ctx, "search_code", query="needle").content.count("needle") == 201
    assert "There are more matches" in use(ctx, "search_code", query="needle").content


def test_a_catastrophic_pattern_is_cut_off(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "a.txt").write_text("a" * 40 + "b")
    monkeypatch.setattr("easyagent.tools.builtin.search.SEARCH_SECONDS", 0.7)
    result = use(context(workspace), "search_code", query="(a+)+$", regex=True)
    assert "took more than" in refused(result)
    assert "[1 matches" in use(context(workspace), "search_code", query="a+b$", regex=True).content
