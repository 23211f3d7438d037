"""`python -m jupyter_subagents.execute NOTEBOOK`: run a notebook headless and tell in the terminal how it goes.

Progress while it runs, then what came back and where the reports are. The notebook file stays as it is
unless `--save` names where the executed copy goes.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.reader import NotJSONError
from nbformat.validator import ValidationError

from easyagent.models import SubAgentEnd, SubAgentJob
from easyagent.subagents import RunStore
from jupyter_subagents.card_view import duration_text

_CLOCK = re.compile(r"\s*\d+:\d\d")


class ProgressClient(NotebookClient):
    """Prints each cell's first line and what it gives: output as it comes, and of a display that is rewritten what
    is new in its text.

    Of such a display clocks are left out, and a last line, which may still be streaming, is printed once
    another follows it or the cell has ended.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # The kernel's warnings are for who administers it, not for who watches a notebook run.
        super().__init__(*arguments, extra_arguments=["--log-level=ERROR"], **options)
        self._seen: set[str] = set()
        self._held = ""
        self._last = ""

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        content = msg["content"]
        match msg["msg_type"]:
            case "display_data" | "update_display_data" if "display_id" in content.get("transient", {}):
                self._print_new(content["data"].get("text/plain", ""))
            case "display_data" | "execute_result":
                self._print(content["data"].get("text/plain", "").splitlines())
            case "stream":
                *lines, self._held = (self._held + content["text"]).split("\n")
                self._print(lines)
            case "execute_input":
                first = content["code"].split("\n", 1)[0]
                print(f"[{content['execution_count']}] {first}", flush=True)
            case "status" if content["execution_state"] == "idle":
                self._print([text for text in (self._held, self._last) if text])
                self._held = self._last = ""
        return super().process_message(msg, cell, cell_index)

    def _print_new(self, text: str) -> None:
        *lines, last = text.splitlines()[1:] or [""]
        self._print([line for line in lines if self._is_new(line)])
        self._last = last if self._is_new(last) else ""
        self._seen.update(lines)

    def _is_new(self, line: str) -> bool:
        return bool(line.strip()) and line not in self._seen and not _CLOCK.match(line)

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            print(f"    {line}".rstrip(), flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Execute one notebook; the exit code is 1 where a cell failed."""
    parser = argparse.ArgumentParser(prog="python -m jupyter_subagents.execute", description="Run a notebook headless.")
    parser.add_argument("notebook", type=Path)
    parser.add_argument("--save", type=Path, help="where to write the executed copy")
    options = parser.parse_args(arguments)
    folder = options.notebook.resolve().parent
    try:
        notebook = _read(options.notebook, options.save)
    except ValueError as error:
        print(f"{error}.", file=sys.stderr)
        return 2
    before = set(RunStore(folder).run_ids())
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


def _read(path: Path, save: Path | None) -> Any:
    """The notebook. Raises ValueError with one sentence where it cannot be read, or its copy not be written."""
    if save is not None and not save.resolve().parent.is_dir():
        raise ValueError(f"There is no directory {save.parent} for the executed copy")
    try:
        return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    except (NotJSONError, UnicodeDecodeError, ValidationError, AttributeError, KeyError):
        raise ValueError(f"{path} is not a notebook") from None


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
