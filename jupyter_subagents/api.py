"""The Python objects: `agents[3].result`, `agents.start(...)`, and the run a cell is bound to."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Generator
from pathlib import Path
from typing import Any

from easyagent.chat import clean
from easyagent.models import RoundEnded, Step, SubAgentEnd, ToolFinished, ToolStarted, Trace
from easyagent.plain_text import is_blank, one_line
from easyagent.subagents import RunStore, SubAgentRun
from easyagent.tools.base import SubAgentRequest
from jupyter_subagents.notebook import Notebook, get_notebook
from jupyter_subagents.options import CellOptions
from jupyter_subagents.outputs import CellOutput
from jupyter_subagents.resume import resume_run
from jupyter_subagents.session import Session


class AgentRun:
    """One sub-agent as a Python object. Its values are of the moment they are read."""

    def __init__(self, notebook: Notebook, run: SubAgentRun) -> None:
        self._notebook, self._run = notebook, run

    @property
    def id(self) -> int:
        return self._run.job.agent_id

    @property
    def status(self) -> str:
        """starting, running, completed, failed, timeout, terminated or interrupted."""
        return str(self._run.status)

    @property
    def cause(self) -> str | None:
        """Why it ended; None while it runs."""
        return str(self._run.end.cause) if self._run.end else None

    @property
    def result(self) -> Any:
        """The structured result where one was asked for, else the result summary; None while it runs."""
        end = self._run.end
        if end is None:
            return None
        return end.result if self._run.job.output_schema is not None else end.result_summary

    @property
    def report(self) -> str | None:
        """The text of report.md in the deliverables directory, or None."""
        path = self._run.deliverables / "report.md"
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None

    @property
    def files(self) -> dict[str, Path]:
        """The files it delivered, by path below its deliverables directory; empty while it runs."""
        end = self._run.end
        return {file.path: self._run.deliverables / file.path for file in end.files} if end else {}

    @property
    def cost(self) -> float | None:
        """US dollars so far; None where the price or the usage is unknown."""
        return (self._run.end.usage if self._run.end else self._run.journal.usage).cost_usd

    @property
    def conversation(self) -> list[dict[str, Any]]:
        """Its messages so far, in chat-completions form."""
        return list(self._run.journal.messages)

    @property
    def trace(self) -> Trace:
        """What it did, call by call."""
        return _trace(self._run, self._notebook.workspace)

    def stop(self) -> AgentRun:
        """Stop it; returns when its whole process tree is dead."""
        self._notebook.runtime.call(self._notebook.current.stop(self.id))
        return self

    def resume(self) -> AgentRun:
        """Go on with it from its journal, under the same number, where it did not come to its end.

        Raises UsageError where it runs or has completed, SubAgentError where it cannot be started.
        """
        return AgentRun(self._notebook, resume_run(self._notebook, self.id))

    def wait(self, timeout: float | None = None) -> AgentRun:
        """Block until it has ended. Raises TimeoutError after `timeout` seconds; it goes on then."""
        self._notebook.runtime.call(_wait_for(self._run), timeout)
        return self

    def __await__(self) -> Generator[Any, None, AgentRun]:
        return self._wait().__await__()

    async def _wait(self) -> AgentRun:
        await asyncio.wrap_future(self._notebook.runtime.submit(_wait_for(self._run)))
        return self

    def __repr__(self) -> str:
        return f"<sub-agent {self.id} {self.status}: {one_line(self._run.job.summary)}>"


class CellRun:
    """What `-o NAME` binds: the run of one `%%agent` cell."""

    def __init__(self, notebook: Notebook, session: Session, output: CellOutput) -> None:
        self._notebook, self._session, self._output = notebook, session, output
        self.future: concurrent.futures.Future[RoundEnded] | None = None

    @property
    def status(self) -> str:
        """idle, running or waiting_for_sub_agents."""
        if self.future is not None and not self.future.done():
            return "running"
        return str(self._output.state.conversation_state)

    @property
    def result(self) -> str | None:
        """The main agent's last answer under this cell: the prompt's, then that of each round its sub-agents' ends
        started. None while the first runs or where it failed."""
        if self.future is None or not self.future.done() or self.future.cancelled() or self.future.exception():
            return None
        return self._output.answer

    @property
    def agents(self) -> list[AgentRun]:
        """The sub-agents this cell started, by number."""
        numbers = {card.agent_id for card in self._output.state.agents}
        return [
            AgentRun(self._notebook, run) for number, run in sorted(self._session.runs.items()) if number in numbers
        ]

    def __await__(self) -> Generator[Any, None, CellRun]:
        return self._wait().__await__()

    async def _wait(self) -> CellRun:
        if self.future is not None:
            await asyncio.wait({asyncio.wrap_future(self.future)})
        await asyncio.wrap_future(self._notebook.runtime.submit(self._session.settled()))
        return self

    def __repr__(self) -> str:
        return f"<conversation {self._session.label} {self.status}, {len(self.agents)} sub-agents>"


class Agents:
    """The sub-agents of the current conversation: `agents[3]`, iteration, `agents.start(...)`."""

    def __getitem__(self, number: int) -> AgentRun:
        """Raises KeyError where the current conversation has no such sub-agent."""
        notebook = get_notebook()
        if number not in notebook.current.runs:
            known = ", ".join(map(str, sorted(notebook.current.runs))) or "none"
            raise KeyError(f"no sub-agent {number} in conversation {notebook.current_label}; known: {known}")
        return AgentRun(notebook, notebook.current.runs[number])

    def __iter__(self) -> Any:
        notebook = get_notebook()
        return iter([AgentRun(notebook, run) for _, run in sorted(notebook.current.runs.items())])

    def __len__(self) -> int:
        return len(get_notebook().current.runs)

    def start(
        self,
        task: str,
        *,
        agent: str = "general",
        summary: str | None = None,
        background: bool = True,
        deliverables_dir: str | None = None,
        timeout_seconds: float = 600,
        output_schema: dict[str, Any] | None = None,
    ) -> AgentRun:
        """Start one sub-agent from Python, numbered from 100, with a card in this cell.

        Waits for its end unless `background`. Raises ValueError for a time limit outside 60-3600 seconds or an
        empty task, UsageError for an unknown type, SubAgentError where it cannot be started.
        """
        if not 60 <= timeout_seconds <= 3600:
            raise ValueError("timeout_seconds must be from 60 to 3600.")
        task = clean(task)
        if is_blank(task):
            raise ValueError("task is empty; say what the sub-agent should do.")
        notebook = get_notebook()
        notebook.check_type(agent)
        prompt = notebook.prompt(task, CellOptions(label=notebook.current_label, settings={}))
        request = SubAgentRequest(
            agent_id=None,
            summary=summary or " ".join(task.split())[:30],
            task=task,
            deliverables_dir=deliverables_dir,
            run_in_background=True,
            timeout_seconds=timeout_seconds,
            subagent_type=agent,
            output_schema=output_schema,
        )
        output = notebook.output(notebook.current_label, task)
        started = notebook.runtime.call(notebook.current.start_agent(prompt, request, output))
        run = AgentRun(notebook, started)
        return run if background else run.wait()

    def __repr__(self) -> str:
        return "\n".join(map(repr, self)) or "<no sub-agents yet>"


agents = Agents()


async def _wait_for(run: SubAgentRun) -> SubAgentEnd | None:
    await run.ended.wait()
    return run.end


def _trace(run: SubAgentRun, workspace: Path) -> Trace:
    steps: dict[str, Step] = {}
    for event in RunStore(workspace).events(run.run_id):
        if isinstance(event, ToolStarted):
            steps[event.call_id] = Step(event.call_id, event.name, event.arguments, started_at=event.time)
        elif isinstance(event, ToolFinished) and event.call_id in steps:
            step = steps[event.call_id]
            step.ended_at, step.ok, step.preview = event.time, event.ok, event.preview
    end = run.end
    return Trace(
        trace_id=run.run_id,
        task=run.job.task,
        status=str(run.status),
        model=end.model if end else run.job.model,
        created_at=run.job.created_at,
        completed_at=end.ended_at if end else None,
        steps=list(steps.values()),
        usage=end.usage if end else run.journal.usage,
        parent_trace_id=run.job.parent_trace_id,
        agent_definition=run.job.definition.name,
        spawned_by_tool=run.job.spawned_by_tool,
    )


__all__ = ["AgentRun", "Agents", "CellRun", "agents"]
