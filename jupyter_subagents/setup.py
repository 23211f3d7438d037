"""`%agent setup`: ask for address, key and model, try a tool call, save."""

from __future__ import annotations

import getpass
import json
import os
import tomllib
from pathlib import Path

from IPython.core.error import StdinNotImplementedError, UsageError

from easyagent import EasyAgentError, resolve_config
from easyagent.config import OPENAI_BASE_URL, user_config_path
from jupyter_subagents import doctor
from jupyter_subagents.notebook import Notebook


def run(notebook: Notebook) -> Path:
    """Ask, test and save with mode 0600; returns the file. Raises UsageError where nobody can answer or a test fails."""
    try:
        base_url = input(f"Endpoint address [{OPENAI_BASE_URL}]: ").strip() or OPENAI_BASE_URL
        api_key = getpass.getpass("Key (empty for none): ").strip()
        model = input("Model (empty: the only one the endpoint lists): ").strip()
    except (StdinNotImplementedError, EOFError):
        raise UsageError("%agent setup asks questions, and nobody can answer here; edit the settings file.") from None
    values = {"base_url": base_url, "api_key": api_key, "model": model}
    chosen = {name: value for name, value in values.items() if value}
    try:
        config = resolve_config(chosen, environ={}, config_file=Path(os.devnull))
        settings = notebook.runtime.call(notebook.runtime.endpoints.settings(config))
        called = notebook.runtime.call(doctor.calls_tools(settings))
    except EasyAgentError as error:
        raise UsageError(f"%agent setup: nothing was saved: {error}") from None
    if not called:
        print(f"{settings.name} answered, but did not call a tool when asked to: agents may not work with it.")
    return save({**chosen, "model": settings.name})


def save(values: dict[str, str], path: Path | None = None) -> Path:
    """Merge values into the user's settings file, readable by the user alone."""
    file = path or user_config_path()
    file.parent.mkdir(parents=True, exist_ok=True)
    known = tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    kept = {name: value for name, value in known.items() if name not in ("base_url", "api_key", "model")}
    lines = [f"{name} = {json.dumps(value)}" for name, value in sorted({**kept, **values}.items())]
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    temporary.replace(file)
    return file
