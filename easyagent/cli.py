"""`easyagent run "task"`: the engine in a terminal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TextIO

from easyagent.agent_registry import get_agent_registry
from easyagent.chat import clean
from easyagent.config import PERMISSION_LEVELS, AgentConfig, resolve_config, working_directory
from easyagent.exceptions import ConfigError, EasyAgentError
from easyagent.models import Conclusion
from easyagent.plain_text import clean_text, is_blank, one_line
from easyagent.progress import describe
from easyagent.prompts import detect_language
from easyagent.runner import AgentRunner


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `easyagent` command; returns the exit code."""
    options = _parser().parse_args(arguments)
    overrides = {"model": options.model, "base_url": options.base_url, "permissions": options.permissions}
    workspace = Path(options.workspace).resolve()
    if not workspace.is_dir():
        print(f"easyagent: there is no directory {options.workspace} to work in.", file=sys.stderr)
        return 2
    try:
        task = _task(options.task)
        config = resolve_config(overrides)
        config = config.model_copy(update={"workspace": workspace})
        return asyncio.run(_run(task, config))
    except EasyAgentError as error:
        _tell(f"easyagent: {one_line(str(error))}")
        return 1
    except KeyboardInterrupt:
        _tell("easyagent: interrupted; all sub-agents were ended.")
        return 130


def _task(text: str) -> str:
    """The task as it was typed: as UTF-8, whatever the locale says. Raises ConfigError."""
    try:
        text = os.fsencode(text).decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError("the task is not UTF-8 text.") from None
    except UnicodeEncodeError:  # it came from Python and holds more than the locale has
        text = clean(text)
    if is_blank(text):
        raise ConfigError("the task is empty; say what the agent should do.")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="easyagent", description="Agents with background sub-agents, in a terminal.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="work on a task to its end")
    run.add_argument("task", help="what the main agent should do")
    run.add_argument("-m", "--model", help="model id")
    run.add_argument("--base-url", help="OpenAI-compatible endpoint; without one the embedded demo model answers")
    run.add_argument("--permissions", choices=PERMISSION_LEVELS, help="who is asked before an action (default: ask)")
    run.add_argument("-C", "--workspace", default=".", help="directory to work in (default: here)")
    return parser


async def _run(task: str, config: AgentConfig) -> int:
    """Progress on stderr, the answer on stdout."""
    registry = get_agent_registry().for_workspace(config.workspace or working_directory())
    language = detect_language(task, config.language)
    code = 1
    async with aclosing(AgentRunner(config=config, registry=registry).run(task)) as events:
        async for event in events:
            line = describe(event, language)
            if line:
                _tell(line)
            if isinstance(event, Conclusion):
                code = 0 if event.success else 1
                if event.content and not _answer(clean_text(event.content)):
                    code = 1
                if not event.success:
                    _tell(f"easyagent: {one_line(event.error or '')}")
    return code


def _answer(text: str) -> bool:
    """Print the answer; False where nobody can have got it."""
    try:
        if sys.stdout is None:
            raise OSError("stdout is closed")
        _write(sys.stdout, text)
    except BrokenPipeError:  # the reader has left, and knows it
        _drop(sys.stdout)
        return False
    except OSError as error:
        _tell(f"easyagent: the answer could not be written: {error.strerror or error}.")
        _drop(sys.stdout)
        return False
    return True


def _tell(line: str) -> None:
    """One line on stderr, where somebody listens there: progress that is lost must not cost the answer."""
    try:
        if sys.stderr is not None:
            _write(sys.stderr, line)
    except OSError:
        _drop(sys.stderr)


def _write(stream: TextIO, text: str) -> None:
    """A line, with what the stream's encoding has not written as escapes."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


def _drop(stream: TextIO | None) -> None:
    """Nothing more can be written there: Python must not try once more when it exits, which would change the code."""
    with contextlib.suppress(OSError, ValueError):
        if stream is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
