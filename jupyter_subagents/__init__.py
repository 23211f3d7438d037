"""Background sub-agents for Jupyter: `%load_ext jupyter_subagents`, then `%%agent` cells.

`agents` are the sub-agents of the current conversation as Python objects.
"""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from jupyter_subagents.api import agents
from jupyter_subagents.magics import AgentMagics, add_await
from jupyter_subagents.notebook import get_notebook
from jupyter_subagents.waiting import one_sentence

__version__ = "0.1.0"

__all__ = ["agents", "load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register the magics. Loading again changes nothing. Raises UsageError where the working directory is unusable."""
    with one_sentence():
        get_notebook()
    shell.register_magics(AgentMagics)
    if add_await not in shell.input_transformers_post:
        shell.input_transformers_post.append(add_await)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """End all agents and take the magics away."""
    notebook = get_notebook()
    for label in list(notebook.sessions):
        notebook.reset(label)
    if add_await in shell.input_transformers_post:
        shell.input_transformers_post.remove(add_await)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("agent", None)
