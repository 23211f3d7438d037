"""Test benches: a sub-agent manager or a whole conversation over FakeOpenAI, with all that happens recorded.

with FakeOpenAI() as fake:
    ...                                             # script the replies
    async with conversation_bench(fake, workspace, permissions="edits") as bench:
        ended = await bench.conversation.ask("Count the plots.")
        await bench.until(lambda: bench.of(AgentEnded))
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import SecretStr

from easyagent.agent_registry import AgentRegistry, get_agent_registry
from easyagent.config import AgentConfig
from easyagent.conversation import Conversation
from easyagent.endpoint import open_model
from easyagent.inbox import Notice
from easyagent.models import AgentEvent, ApprovalRequested, ModelSettings
from easyagent.permissions import Access, Grants
from easyagent.setup import Setup
from easyagent.subagents import Launcher, SubAgentCalls, SubAgentManager, open_launcher
from easyagent.subagents.reservations import Scope
from easyagent.testing.fake_openai import FakeOpenAI
from easyagent.tools.base import Answer, ToolContext, ToolResult
from easyagent.tools.toolbox import Toolbox

Event = TypeVar("Event")


@dataclass(slots=True)
class Recorder:
    """Every event in order, and a way to wait for one."""

    events: list[AgentEvent] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, event: AgentEvent) -> None:
        self.events.append(event)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def of(self, kind: type[Event], agent_id: int | None = None) -> list[Event]:
        """The events of a kind, those of one sub-agent where a number is given."""
        return [
            event
            for event in self.events
            if isinstance(event, kind) and (agent_id is None or event.agent_id == agent_id)
        ]

    async def until(self, condition: Callable[[], object], timeout_seconds: float = 30) -> None:
        """Return once the condition holds; asked anew at each event. Raises TimeoutError."""
        async with asyncio.timeout(timeout_seconds):
            while not condition():
                await self._changed.wait()


@dataclass(slots=True)
class ManagerBench(Recorder):
    """A manager without a main agent: calls come from the test, notices are kept."""

    notices: list[Notice] = field(default_factory=list)
    workspace: Path = field(default_factory=Path)
    manager: SubAgentManager = field(init=False)

    async def call(self, name: str, arguments: dict[str, Any] | str) -> dict[str, Any]:
        """One tool call of a main agent, as JSON text in and data out."""
        result = await self.call_tool(name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        data: dict[str, Any] = json.loads(result.content)
        assert result.ok is data["success"]
        return data

    async def call_tool(self, name: str, arguments: str) -> ToolResult:
        context = ToolContext(
            workspace=self.workspace,
            language="en",
            grants=Grants("ask", {}, owns_roots=False),
            subagents=SubAgentCalls(self.manager),
            call_id="call_1",
        )
        return await Toolbox.for_main().call(name, arguments, context)


@dataclass(slots=True)
class ConversationBench(Recorder):
    """A conversation and all its events."""

    conversation: Conversation = field(init=False)


def settings_of(fake: FakeOpenAI, key: str = "bench-key") -> ModelSettings:
    return ModelSettings(base_url=fake.base_url, api_key=SecretStr(key), name="fake-model")


async def deny(request: ApprovalRequested) -> Answer:
    return "deny"


@asynccontextmanager
async def manager_bench(
    fake: FakeOpenAI,
    workspace: Path,
    *,
    registry: AgentRegistry | None = None,
    permissions: str = "ask",
    language: str = "en",
    label: str = "main",
    max_concurrent: int = 5,
    launcher: Launcher | None = None,
) -> AsyncIterator[ManagerBench]:
    """A manager on real sub-agent processes; at the end all are stopped."""
    bench = ManagerBench(workspace=workspace.resolve())
    scope = Scope(
        conversation_id="main_bench",
        label=label,
        workspace=bench.workspace,
        settings=settings_of(fake),
        registry=registry or get_agent_registry(),
        language=language,
        permissions=permissions,
        max_concurrent=max_concurrent,
    )
    launcher = launcher or open_launcher()
    bench.manager = SubAgentManager(scope, emit=bench.take, notify=bench.notices.append, launcher=launcher, ask=deny)
    try:
        yield bench
    finally:
        await bench.manager.stop_all()
        await launcher.aclose()


@asynccontextmanager
async def conversation_bench(
    fake: FakeOpenAI,
    workspace: Path,
    *,
    registry: AgentRegistry | None = None,
    can_ask: bool = False,
    confined: bool = False,
    access: Access | None = None,
    private_paths: tuple[Path, ...] = (),
    **config: Any,
) -> AsyncIterator[ConversationBench]:
    """A conversation on real sub-agent processes; `config` are fields of AgentConfig, the others those of Setup. At
    the end it is closed."""
    bench = ConversationBench()
    setup = Setup(
        config=AgentConfig(base_url=fake.base_url, workspace=workspace, **config),
        settings=settings_of(fake),
        registry=registry or get_agent_registry(),
        can_ask=can_ask,
        confined=confined,
        access=access or Access(),
        private_paths=private_paths,
    )
    bench.conversation = Conversation(
        setup, label="main", workspace=workspace, open_model=open_model, on_event=bench.take
    )
    try:
        yield bench
    finally:
        await bench.conversation.aclose()
