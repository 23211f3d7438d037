"""The quickstart as a newcomer meets it: in JupyterLab, with the demo model. Takes the README's picture."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


@pytest.fixture
def kernel_environment() -> dict[str, str]:
    return {"EASYAGENT_DEMO_PACE": "0.6", "OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}


def test_the_quickstart_with_the_demo_model(lab) -> None:
    shutil.copytree(NOTEBOOKS / "data", lab.root / "data")
    notebook = json.loads((NOTEBOOKS / "01_quickstart.ipynb").read_text())
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    (lab.root / "quickstart.ipynb").write_text(json.dumps(notebook))
    code = [index for index, cell in enumerate(notebook["cells"]) if cell["cell_type"] == "code"]
    lab.open("quickstart.ipynb")
    lab.run_cell(code[0])
    lab.run_cell(code[1])
    cards = lab.page.locator("[data-agent-id]")
    cards.nth(2).wait_for()
    cards.nth(1).get_by_text("Reading").first.wait_for()
    cards.nth(0).scroll_into_view_if_needed()
    lab.screenshot("quickstart")
    for index in code[2:]:
        lab.run_cell(index)  # as Run All does: nobody waits for the agents but the cell that says so
    assert "All is done: sub-agents 1, 2, 3 have ended (3 in all)." in lab.cell_text(code[3])
    lab.wait_text(code[1], "All have come back: 3 of 3")
    assert "1 completed | Demo model, done: data/plots.csv (rows 96, columns 8, missing values 4)." in lab.cell_text(
        code[4]
    )
    assert "# Report on `data/plots.csv`" in lab.cell_text(code[5])
    assert "cost unknown" not in lab.cell_text(code[1])
    assert [line for line in lab.console if line.startswith("pageerror")] == []
