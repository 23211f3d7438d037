"""`%agent doctor`: what is set up, what is not, and what to do about it."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

from easyagent import EasyAgentError, open_model
from easyagent.chat import Messages
from easyagent.config import without_password
from easyagent.models import ModelSettings
from easyagent.plain_text import one_line
from easyagent.processes import is_alive
from easyagent.sandbox import enforcement
from easyagent.subagents import RunStore
from jupyter_subagents.front_end import kind_of
from jupyter_subagents.notebook import Notebook

_PROBE = {
    "type": "function",
    "function": {
        "name": "report_number",
        "description": "Report a number.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    },
}


async def calls_tools(settings: ModelSettings) -> bool:
    """Whether the model calls a tool when asked to. Raises ModelError where it does not answer."""
    model = open_model(settings)
    question = {"role": "user", "content": "Call the tool report_number with number 7. Do not answer in words."}
    try:
        reply = await model.complete(
            Messages([question]), [_PROBE], on_text=lambda text: None, on_retry=lambda reason, wait: None
        )
    finally:
        await model.aclose()
    return any(call.name == "report_number" for call in reply.tool_calls)


def examine(notebook: Notebook) -> Iterator[str]:
    """One line a finding; each that needs something says what."""
    yield from _endpoint(notebook)
    yield from _kernel(notebook)
    yield from _orphans(notebook.workspace)


def _endpoint(notebook: Notebook) -> Iterator[str]:
    config = notebook.config()
    if config.is_demo:
        yield "endpoint    none set: the embedded demo model answers (rules, not a language model)"
        yield "            -> run %agent setup, or set OPENAI_API_KEY / OPENAI_BASE_URL, for a real one"
    else:
        yield f"endpoint    {without_password(config.base_url)} (from {config.sources.get('base_url', 'default')})"
    key = f"set (from {config.sources['api_key']})" if config.api_key else "none"
    yield f"key         {key}"
    try:
        settings = notebook.runtime.call(notebook.runtime.endpoints.settings(config))
        source = "the embedded demo" if config.is_demo else f"from {config.sources.get('model', 'the endpoint')}"
        yield f"model       {settings.name} ({source})"
        if config.is_demo:
            return
        if notebook.runtime.call(calls_tools(settings)):
            yield "tool calls  yes"
        else:
            yield "tool calls  NO: the model answered in words -> choose a model that calls tools"
    except EasyAgentError as error:
        yield f"model       NOT USABLE: {error}"


def _kernel(notebook: Notebook) -> Iterator[str]:
    kind = kind_of(notebook.shell)
    yield f"front end   {kind}"
    kernel = getattr(notebook.shell, "kernel", None)
    if kernel is not None:
        version = importlib.metadata.version("ipykernel")
        subshells = bool(getattr(kernel, "_supports_kernel_subshells", False))
        mend = "" if subshells else " -> Stop on a card waits for the running cell; update ipykernel to 7 or later"
        yield f"ipykernel   {version}, subshells {'yes' if subshells else 'no'}{mend}"
    shown = any(output.attached for session in notebook.sessions.values() for output in session.outputs)
    yield f"live cards  {'shown' if shown else 'not seen yet'} (ipywidgets, anywidget needed where JupyterLab runs)"
    note = notebook.runtime.launcher.note
    yield f"sub-agents  {note or 'start as the platform can best'}"
    held = enforcement()
    if held.confined:
        yield f"sandbox     {held.reason}: commands write only in their agent's directories, without network"
    else:
        yield f"sandbox     NONE: {held.reason} -> commands run only with --permissions auto, and then with your rights"


def _orphans(workspace: Path) -> Iterator[str]:
    """Runs without an end whose owner is gone."""
    store = RunStore(workspace)
    lost = []
    for run_id in store.run_ids():
        job = store.job(run_id)
        if job is None or store.end(run_id) is not None or job.owner_pid is None:
            continue
        if not is_alive(job.owner_pid, job.owner_started):
            lost.append(f"{job.agent_id} ({one_line(job.summary)})")
    yield f"earlier     {len(lost)} runs were cut by the end of their kernel" + (
        f": {', '.join(lost[:5])}" if lost else ""
    )
