"""The repository tells the truth by machine: sizes, import directions, public names, data that stands twice."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import easyagent
from easyagent.agent_registry import AgentRegistry
from easyagent.builtin_agents import BUILTIN_AGENTS
from easyagent.prompts import load
from easyagent.strings import strings

ROOT = Path(__file__).parents[2]
MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 50
SOURCES = sorted([*ROOT.glob("easyagent/**/*.py"), *ROOT.glob("jupyter_subagents/**/*.py")])


def _long_functions(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > MAX_FUNCTION_LINES
    ]


def test_there_are_sources_to_check() -> None:
    assert len(SOURCES) > 40


def test_files_hold_one_idea() -> None:
    counts = {path.relative_to(ROOT): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path: lines for path, lines in counts.items() if lines > MAX_FILE_LINES} == {}


def test_functions_fit_on_a_page() -> None:
    assert [entry for path in SOURCES for entry in _long_functions(path)] == []


def test_imports_point_one_way() -> None:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run([*command, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kept, 0 broken" in done.stdout


@pytest.mark.parametrize("module", [easyagent, easyagent.models])
def test_public_names_are_sorted_and_there(module: object) -> None:
    names = module.__all__  # type: ignore[attr-defined]
    assert names == sorted(names, key=lambda name: (not name.isupper(), name))  # constants first
    assert all(hasattr(module, name) for name in names)


def test_importing_easyagent_loads_no_openai() -> None:
    code = (
        "import sys, easyagent, easyagent.batch.worker\n"
        "print([name for name in ('openai', 'httpx2', 'IPython') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    done = subprocess.run(
        [sys.executable, "-c", code.replace("easyagent.batch.worker", "openai")], capture_output=True, text=True
    )
    assert "openai" in done.stdout  # the check sees it where it is loaded


def test_the_presets_equal_the_built_in_agents() -> None:
    registry = AgentRegistry()
    registry.load_from_config("easyagent/subagents/default.json")
    assert registry.list_subagents() == sorted(BUILTIN_AGENTS, key=lambda agent: agent.name)


def test_both_languages_have_the_same_texts() -> None:
    assert set(strings("zh")) == set(strings("en"))
    for folder in ("", "tools"):
        names = {
            language: {path.name for path in (ROOT / "easyagent" / "prompts" / language / folder).glob("*.md")}
            for language in ("zh", "en")
        }
        assert names["zh"] == names["en"] != set()
    assert "{agent_id}" in load("first_message", "zh")
