"""`python -m jupyter_subagents.execute`: what a terminal shows of a notebook that runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

CELLS = [
    "%load_ext jupyter_subagents",
    "%%agent\nProfile these files:\n1. t.csv",
    "%agent",
    "for number in range(3):\n    print('loop', number)\nprint('no newline', end='')",
    "{'a': 'value ' * 40}",
]


def execute(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    home = {name: str(folder / "home") for name in ("HOME", "IPYTHONDIR", "XDG_CONFIG_HOME")}
    environment = {**os.environ, **home, "EASYAGENT_DEMO_PACE": "0", "OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    command = [sys.executable, "-m", "jupyter_subagents.execute", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def write(path: Path, *cells: str) -> None:
    code = [nbformat.v4.new_code_cell(source) for source in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=code), path)


def test_all_output_is_shown_and_nothing_is_cut(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,\n")
    write(tmp_path / "n.ipynb", *CELLS)
    done = execute(tmp_path, "n.ipynb")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert lines[0] == "[1] %load_ext jupyter_subagents"
    after = lines[lines.index("[3] %agent") :]
    assert any(line.startswith("1  ") and "t.csv" in line and "completed" in line for line in after), after
    assert [line for line in after if line.startswith(("loop", "no newline"))] == [*(f"loop {n}" for n in range(3)),
                                                                                 "no newline"]  # fmt: skip
    assert "{'a': '" + "value " * 40 + "'}" in after
    [row] = [line for line in lines if line.startswith("| 1 |") and "rows 2" in line]
    assert row.endswith("| sub_agent_results/agent_1 |") and len(row) > 160
    assert "(rows 2, columns 2, missing values 1)" in done.stdout.partition("What came back:")[2]


def test_a_cell_that_fails_is_told(tmp_path: Path) -> None:
    write(tmp_path / "n.ipynb", "print('before')", "1 / 0", "print('after')")
    done = execute(tmp_path, "n.ipynb")
    assert (done.returncode, done.stderr) == (1, "A cell failed: division by zero\n")
    assert "before" in done.stdout and "after" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope.ipynb"], "nope.ipynb cannot be read: No such file or directory."),
        (["."], ". cannot be read: Is a directory."),
        (["text.ipynb"], "text.ipynb is not a notebook."),
        (["other.ipynb"], "other.ipynb is not a notebook."),
        (["good.ipynb", "--save", "no/where.ipynb"], "There is no directory no for the executed copy."),
    ],
)
def test_what_is_no_notebook_is_one_sentence(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "text.ipynb").write_text("hello")
    (tmp_path / "other.ipynb").write_text('{"a": 1}')
    write(tmp_path / "good.ipynb", "print('ran')")
    done = execute(tmp_path, *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said + "\n")
    assert execute(tmp_path, "good.ipynb").returncode == 0
