"""`easyagent run "task"`: the engine in a terminal."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from easyagent.agent_registry import get_agent_registry
from easyagent.config import PERMISSION_LEVELS, AgentConfig, resolve_config
from easyagent.exceptions import EasyAgentError
from easyagent.models import Conclusion
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
        config = resolve_config(overrides)
        config = config.model_copy(update={"workspace": workspace})
        return asyncio.run(_run(options.task, config))
    except EasyAgentError as error:
        print(f"easyagent: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("easyagent: interrupted; all sub-agents were ended.", file=sys.stderr)
        return 130


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
    registry = get_agent_registry().for_workspace(config.workspace or Path.cwd())
    language = detect_language(task, config.language)
    code = 1
    async with aclosing(AgentRunner(config=config, registry=registry).run(task)) as events:
        async for event in events:
            line = describe(event, language)
            if line:
                print(line, file=sys.stderr, flush=True)
            if isinstance(event, Conclusion):
                if event.content:
                    print(_printable(event.content))
                if not event.success:
                    print(f"easyagent: {event.error}", file=sys.stderr)
                code = 0 if event.success else 1
    return code


def _printable(text: str) -> str:
    """Text of a model for a terminal: without control characters, which could move its cursor."""
    return "".join(character for character in text if character.isprintable() or character in "\n\t")


if __name__ == "__main__":
    sys.exit(main())
