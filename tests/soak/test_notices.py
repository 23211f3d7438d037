"""Whenever agents end, in whatever order, the main agent is told of each end once: in its journal and its requests."""

from __future__ import annotations

import asyncio
import os
import random
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from easyagent.journal import summarize
from easyagent.models import AgentEnded, AgentEvent, MessageAdded, MessagesReplaced, RoundEnded
from easyagent.subagents import RunStore
from easyagent.subagents.earlier import told
from easyagent.testing import FakeOpenAI, Gate, call, calls, for_main, for_sub_agent, hang, hostile
from easyagent.testing.bench import ConversationBench, conversation_bench

SEED = os.environ.get("SOAK_SEED", "1")
NOTEBOOK = {"JPY_SESSION_NAME": "study.ipynb", "EASYAGENT_MAX_CONCURRENT": "99"}
GONE_SECONDS = 10
PATIENCE_SECONDS = 120
NOTICE = re.compile(r"Sub-agent (\d+) \(Part \1\) (?:has completed|was interrupted)")
LAST_PROMPT = "Is that all?"


@dataclass
class Scene:
    """A scripted endpoint: a main agent that starts agents 1 to `count`, each of which ends when its gate opens."""

    fake: FakeOpenAI
    count: int
    chance: random.Random
    gates: dict[int, Gate] = field(default_factory=dict)
    hanging: threading.Event = field(default_factory=threading.Event)
    """While set, the main agent's next request is one that never gets an answer."""
    hung: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.main = self.fake.script("main", match=for_main())
        numbers = range(1, self.count + 1)
        self.main.reply(
            calls(
                *(
                    call("create_sub_agent", agent_id=n, summary=f"Part {n}", task="Count.", run_in_background=True)
                    for n in numbers
                )
            )
        )
        for number in numbers:
            gate = self.gates[number] = self.fake.gate()
            script = self.fake.script(f"agent {number}", match=for_sub_agent(number))
            script.reply(calls(call("finish_task", success=True, summary=f"counted part {number}")), gate=gate)
        self._closed = self.chance.sample(list(numbers), self.count)

    def answer(self, request: Any) -> Any:
        """The main agent's replies from here on."""
        if not self.hanging.is_set():
            return "Noted."
        self.hanging.clear()
        self.hung.set()
        return hang()

    def hang_next(self) -> None:
        self.hung.clear()
        self.hanging.set()

    def all_run(self) -> None:
        assert all(gate.reached.wait(PATIENCE_SECONDS) for gate in self.gates.values())

    def open(self, number: int) -> list[int]:
        """Let so many more agents end, in an order of chance; returns them."""
        opened, self._closed = self._closed[:number], self._closed[number:]
        for agent in opened:
            self.gates[agent].open()
        return opened

    @property
    def left(self) -> int:
        return len(self._closed)

    def some(self, most: int) -> int:
        return self.chance.randint(1, max(1, most))


def check_told_once(events: list[AgentEvent], runs: list[str], scene: Scene) -> None:
    """Each end once in the journal, once in the last request, and both are the same conversation."""
    receipts = [run for event in events if isinstance(event, MessageAdded | MessagesReplaced) for run in event.told]
    assert sorted(receipts) == sorted(runs) and len(runs) == scene.count
    last = scene.main.requests[-1]
    assert last.last_text == LAST_PROMPT and last.state == "answered"
    assert Counter(int(number) for number in NOTICE.findall(last.text)) == Counter(range(1, scene.count + 1))
    assert summarize(events).messages[:-1] == last.messages


def test_each_end_is_told_once_whatever_the_main_agent_does(
    tmp_path: Path, times: Callable, reached: Callable, soaking: bool
) -> None:
    chance = random.Random(SEED)
    for number in range(times(3, 20)):
        count = chance.choice([1, 2, 6, 20, 50]) if soaking else 6
        workspace = tmp_path / str(number)
        workspace.mkdir()
        with FakeOpenAI() as fake:
            scene = Scene(fake, count, chance)
            events, runs = asyncio.run(converse(scene, workspace))
            check_told_once(events, runs, scene)
        reached("ends told once, main agent working, idle and interrupted", count)


async def converse(scene: Scene, workspace: Path) -> tuple[list[AgentEvent], list[str]]:
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        conversation_bench(scene.fake, workspace, max_concurrent=99, max_auto_rounds=10_000) as bench,
    ):
        working = scene.fake.gate()
        scene.main.reply(calls(call("list_files")), gate=working).repeat(scene.answer)
        scene.hang_next()
        asking = asyncio.create_task(bench.conversation.ask("Go."))
        assert await asyncio.to_thread(working.reached.wait, PATIENCE_SECONDS)
        await asyncio.to_thread(scene.all_run)
        # Within a model call: some ends are there before its answer, some come with it.
        seen = set(scene.open(scene.some(scene.left // 4)))
        await bench.until(lambda: seen <= ended(bench), PATIENCE_SECONDS)
        scene.open(scene.chance.randint(0, scene.left // 4))
        working.open()
        assert await asyncio.to_thread(scene.hung.wait, PATIENCE_SECONDS)
        await interrupt(bench, scene)
        assert (await asking).interrupted
        while scene.left:  # idle, or in rounds that ends have started
            opened = set(scene.open(scene.some(scene.left // 3)))
            if scene.chance.random() < 0.5:
                await bench.until(lambda opened=opened: opened <= ended(bench), PATIENCE_SECONDS)
            if scene.left and scene.chance.random() < 0.5:
                scene.hang_next()
                scene.open(1)
                assert await asyncio.to_thread(scene.hung.wait, PATIENCE_SECONDS)
                await interrupt(bench, scene)
        await bench.until(lambda: len(ended(bench)) == scene.count, PATIENCE_SECONDS)
        await bench.conversation.settled()
        before = len(scene.main.requests)
        assert (await bench.conversation.ask(LAST_PROMPT)).error is None
        assert len(scene.main.requests) == before + 1  # nothing was left to tell
        assert any(event.interrupted for event in bench.of(RoundEnded))
        store = RunStore(workspace)
        return store.conversation_events(bench.conversation.id), store.run_ids()


async def interrupt(bench: ConversationBench, scene: Scene) -> None:
    """Interrupt a turn while agents end: before it, with it, after it."""
    moments = [lambda: scene.open(scene.chance.randint(0, scene.left // 3)), bench.conversation.interrupt]
    scene.chance.shuffle(moments)
    for moment in moments:
        moment()
        if scene.chance.random() < 0.5:
            known = len(bench.events)
            pending = len(scene.gates) - scene.left - len(ended(bench))
            if pending > 0:
                await bench.until(lambda known=known: len(bench.events) > known, PATIENCE_SECONDS)


def ended(bench: ConversationBench) -> set[int | None]:
    return {event.agent_id for event in bench.of(AgentEnded)}


@pytest.mark.parametrize("doing", ["working", "idle"])
def test_each_end_is_told_once_across_kernels(
    doing: str, start_kernel: Callable, workspace: Path, times: Callable, reached: Callable, soaking: bool
) -> None:
    chance, store = random.Random(f"{SEED} {doing}"), RunStore(workspace)
    for _ in range(times(1, 5)):
        count = chance.choice([3, 6, 20, 50]) if soaking else 6
        earlier = {*store.run_ids(), *store.conversation_ids()}
        with FakeOpenAI() as fake:
            scene = Scene(fake, count, chance)
            cut_off(start_kernel(OPENAI_BASE_URL=fake.base_url, **NOTEBOOK), scene, store, doing)
            runs = [run_id for run_id in store.run_ids() if run_id not in earlier]
            (conversation,) = set(store.conversation_ids()) - earlier
            assert set() < told(store.conversation_events(conversation)) < set(runs)  # the control: some were told

            second = start_kernel(OPENAI_BASE_URL=fake.base_url, **NOTEBOOK)
            scene.hang_next()
            second.begin("%agent resume main", live=True)
            assert scene.hung.wait(PATIENCE_SECONDS)  # what was missed is told, and the answer never comes
            kill(second)

            third = start_kernel(OPENAI_BASE_URL=fake.base_url, **NOTEBOOK)
            before = len(scene.main.requests)
            assert third.run("%agent resume main").status == "ok"
            assert third.run(f"%%agent\n{LAST_PROMPT}").status == "ok"
            assert len(scene.main.requests) == before + 1  # nothing was left to tell
            check_told_once(store.conversation_events(conversation), runs, scene)
            third.close()
        reached(f"ends told once across two kernels' SIGKILL, main agent {doing}", count)


def cut_off(kernel: Any, scene: Scene, store: RunStore, doing: str) -> None:
    """Agents end before the main agent is told, with the kernel's SIGKILL, and by it."""
    earlier = set(store.run_ids())
    working = scene.fake.gate()
    if doing == "working":
        scene.main.reply(calls(call("list_files")), gate=working)
        scene.hang_next()
    scene.main.repeat(scene.answer)
    cell = kernel.begin("%%agent\nGo.", live=True)
    scene.all_run()
    if doing == "idle":
        kernel.wait(cell)
    else:
        assert working.reached.wait(PATIENCE_SECONDS)
    scene.open(scene.some(scene.left // 3))
    await_ends(store, earlier, scene, 0)
    working.open()
    scene.fake.wait_for(lambda: len(scene.main.requests) >= 3)  # it is told of at least one
    scene.open(scene.chance.randint(0, (scene.left - 2) // 2))
    await_ends(store, earlier, scene, 0)  # on disk; in a model call the main agent does not hear of it
    late = scene.open(scene.chance.randint(1, scene.left - 1))
    await_ends(store, earlier, scene, scene.chance.randint(0, len(late)))
    kill(kernel)


def await_ends(store: RunStore, earlier: set[str], scene: Scene, missing: int) -> None:
    """Return once all agents whose gates are open have a recorded end, but for `missing` of them."""
    due = scene.count - scene.left - missing
    hostile.until(lambda: sum(store.end(run) is not None for run in set(store.run_ids()) - earlier) >= due)


def kill(kernel: Any) -> None:
    processes = kernel.processes()
    kernel.kill()
    _, alive = psutil.wait_procs(processes, timeout=GONE_SECONDS)
    assert alive == []
