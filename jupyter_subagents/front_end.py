"""What stands on the other side of the kernel: a live front end, a headless run, or a terminal."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any, Literal

from IPython.core.interactiveshell import InteractiveShell

Kind = Literal["live", "headless", "terminal"]


def kind_of(shell: InteractiveShell) -> Kind:
    """Who can see and click: `allow_stdin` of the execute request is false where nobody sits in front (nbclient)."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return "terminal"
    if os.environ.get("EASYAGENT_HEADLESS", "") not in ("", "0"):
        return "headless"
    content = (kernel.get_parent() or {}).get("content", {})
    return "live" if content.get("allow_stdin", True) else "headless"


def awaits(shell: InteractiveShell) -> bool:
    """True where a cell can await: under ipykernel with autoawait on."""
    return getattr(shell, "kernel", None) is not None and bool(shell.autoawait)


class CellDisplay:
    """One display of the cell that runs when this is made; it can be rewritten from any thread, later too."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell, self._count = shell, shell.execution_count
        self._kernel = getattr(shell, "kernel", None)
        self._publisher = shell.display_pub
        self._id = f"subagents-{uuid.uuid4().hex}"
        self._parent = dict(self._kernel.get_parent() or {}) if self._kernel is not None else {}
        self.cell_id: str | None = (self._parent.get("metadata") or {}).get("cellId")

    @property
    def in_its_cell(self) -> bool:
        """True while the cell it was made in still runs: the count goes up when a cell has ended."""
        return bool(self._shell.execution_count == self._count)

    def show(self, data: Mapping[str, Any]) -> None:
        """The first display; in the cell's own thread."""
        self._publisher.publish(dict(data), metadata={}, transient={"display_id": self._id})

    def update(self, data: Mapping[str, Any]) -> None:
        """Rewrite the display under its cell, whichever cell runs now.

        Sent with the cell's own request as parent: in another thread the current parent is the newest cell's.
        """
        if self._kernel is None or self._kernel.session is None:
            return
        content = {"data": dict(data), "metadata": {}, "transient": {"display_id": self._id}}
        self._kernel.session.send(
            self._kernel.iopub_socket,
            "update_display_data",
            content,
            parent=self._parent,
            ident=getattr(self._publisher, "topic", None),
        )
