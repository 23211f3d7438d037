"""`python -m jupyter_subagents.execute NOTEBOOK`: run a notebook headless and tell in the terminal how it goes.

Progress while it runs, then what came back and where the reports are. The notebook file stays as it is
unless `--save` names where the executed copy goes.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from easyagent.models import SubAgentEnd, SubAgentJob
from easyagent.subagents import RunStore
from jupyter_subagents.card_view import duration_text

_CLOCK = re.compile(r"\s*\d+:\d\d")


class ProgressClient(NotebookClient):
    """Prints what is new in the text of a cell's display each time it is rewritten.

    Clocks are left out; a last line, which may still be streaming, is printed once another follows it.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._seen: set[str] = set()

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self._print_new(msg["content"]["data"].get("text/plain", ""))
        elif msg["msg_type"] == "execute_input":
            first = msg["content"]["code"].split("\n", 1)[0]
            print(f"[{msg['content']['execution_count']}] {first}", flush=True)
        return super().process_message(msg, cell, cell_index)

    def _print_new(self, text: str) -> None:
        for line in text.splitlines()[1:-1]:
            if line.strip() and line not in self._seen and not _CLOCK.match(line):
                self._seen.add(line)
                print(f"    {line[:160]}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Execute one notebook; the exit code is 1 where a cell failed."""
    parser = argparse.ArgumentParser(prog="python -m jupyter_subagents.execute", description="Run a notebook headless.")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--save", type=Path, help="where to write the executed copy")
    options = parser.parse_args(arguments)
    folder = options.notebook.resolve().parent
    before = set(RunStore(folder).run_ids())
    notebook = nbformat.read(options.notebook, as_version=4)  # type: ignore[no-untyped-call]
    client = ProgressClient(notebook, timeout=None, resources={"metadata": {"path": str(folder)}})
    started, failed = time.monotonic(), None
    try:
        client.execute()
    except CellExecutionError as error:
        failed = error
    if options.save:
        nbformat.write(notebook, options.save)  # type: ignore[no-untyped-call]
    _print_results(folder, before)
    if failed is not None:
        print(f"A cell failed: {failed.evalue}", file=sys.stderr)
        return 1
    print(f"Done in {time.monotonic() - started:.0f} s.")
    return 0


def _print_results(folder: Path, before: set[str]) -> None:
    """The runs that are new since the notebook began."""
    store = RunStore(folder)
    print("\nWhat came back:")
    new = [
        (job, store.end(run_id)) for run_id in store.run_ids() if run_id not in before and (job := store.job(run_id))
    ]
    for job, end in sorted(new, key=lambda entry: entry[0].agent_id):
        print(_result(folder, job, end))


def _result(folder: Path, job: SubAgentJob, end: SubAgentEnd | None) -> str:
    if end is None:
        return f"  {job.agent_id:>3}  {job.summary}: still running"
    shown = _relative(folder / job.deliverables_dir)
    files = "".join(f"\n       {shown}/{file.path}" for file in end.files)
    elapsed = duration_text(end.stats.runtime_seconds)
    return f"  {job.agent_id:>3}  {job.summary}: {end.status} in {elapsed}\n       {end.result_summary}{files}"


def _relative(path: Path) -> str:
    here = Path.cwd().resolve()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


if __name__ == "__main__":
    sys.exit(main())
