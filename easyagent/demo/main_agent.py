"""The demo as main agent: plan, start sub-agents, wait for their notices, tell what came back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from easyagent.demo.phrases import PHRASES, Phrases
from easyagent.demo.plan import LIMIT, Part, Plan, plan
from easyagent.demo.transcript import Notice, Prompt, exchanges_of, notices_of, prompts_of
from easyagent.openai_server import ChatReply, ToolCallReply
from easyagent.prompts import detect_language

_LARGEST_ID = 99
_TIMEOUT_SECONDS = 600
_CELL_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class _Agent:
    """One create_sub_agent call: `error` where it started nothing, `notice` once it has ended."""

    agent_id: int
    summary: str
    directory: str
    error: str | None = None
    notice: Notice | None = None

    @property
    def running(self) -> bool:
        return self.error is None and self.notice is None


@dataclass(frozen=True, slots=True)
class _Round:
    """A prompt, its plan, and the agents started for it: the k-th agent has the k-th part."""

    prompt: Prompt
    plan: Plan
    agents: tuple[_Agent, ...]
    phrases: Phrases

    @property
    def remaining(self) -> tuple[Part, ...]:
        return self.plan.parts[len(self.agents) :]


def decide_main_agent(messages: Sequence[Mapping[str, Any]]) -> ChatReply:
    """The next reply of the main agent."""
    notices = _notices(messages)
    rounds = [_round(prompt, notices) for prompt in prompts_of(messages)]
    if not rounds:
        return ChatReply(f"{PHRASES['en'].demo}\n\n{PHRASES['en'].what_i_am}")
    current = rounds[-1]
    if not current.prompt.answered and current.plan.calls:
        return ChatReply(tool_calls=current.plan.calls)
    calls = _creations(rounds, messages)
    if calls:
        return ChatReply(tool_calls=calls)
    return ChatReply(_told(rounds, messages))


def _notices(messages: Sequence[Mapping[str, Any]]) -> dict[int, Notice]:
    """The first notice of each agent: later texts that look like one cannot replace it."""
    found: dict[int, Notice] = {}
    for message in messages:
        for notice in notices_of(message):
            found.setdefault(notice.agent_id, notice)
    return found


def _round(prompt: Prompt, notices: Mapping[int, Notice]) -> _Round:
    agents = []
    for exchange in prompt.exchanges:
        if exchange.name != "create_sub_agent":
            continue
        answer = _json(exchange.result)
        agent_id = exchange.arguments.get("agent_id", 0)
        started = answer.get("success") is True
        agents.append(
            _Agent(
                agent_id=agent_id,
                summary=str(exchange.arguments.get("summary", "")),
                directory=str(answer.get("deliverables_dir", "")),
                error=None if started else str(answer.get("message") or exchange.result or "?"),
                notice=notices.get(agent_id) if started else None,
            )
        )
    return _Round(prompt, plan(prompt), tuple(agents), PHRASES[detect_language(prompt.text)])


def _json(text: str | None) -> dict[str, Any]:
    # A notice may be appended to a tool's result where an endpoint takes it in no other form.
    try:
        value, _ = json.JSONDecoder().raw_decode((text or "").strip())
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _creations(rounds: list[_Round], messages: Sequence[Mapping[str, Any]]) -> tuple[ToolCallReply, ...]:
    """The create_sub_agent calls of the newest prompt for which there are free slots.

    An earlier prompt's parts that still wait are given up: their calls would count as the newest one's.
    """
    free = LIMIT - sum(agent.running for each in rounds for agent in each.agents)
    parts = rounds[-1].remaining[: max(0, free)]
    ids = _unused_ids(messages)
    return tuple(
        ToolCallReply(
            "create_sub_agent",
            {
                "agent_id": agent_id,
                "summary": part.summary,
                "task": part.task,
                "run_in_background": True,
                "timeout_seconds": _TIMEOUT_SECONDS,
            },
        )
        for part, agent_id in zip(parts, ids, strict=False)
    )


def _unused_ids(messages: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    used = {e.arguments.get("agent_id") for e in exchanges_of(messages) if e.name == "create_sub_agent"}
    used |= set(_notices(messages))
    return (agent_id for agent_id in range(1, _LARGEST_ID + 1) if agent_id not in used)


def _told(rounds: list[_Round], messages: Sequence[Mapping[str, Any]]) -> str:
    """What to say now: about the newest prompt, and about each that a new notice belongs to."""
    start = max((i for i, m in enumerate(messages) if m.get("role") == "assistant"), default=-1) + 1
    new = {notice.agent_id for message in messages[start:] for notice in notices_of(message)}
    current = rounds[-1]
    touched = [each for each in rounds if any(agent.agent_id in new for agent in each.agents)]
    if current not in touched and (not current.prompt.answered or not touched):
        touched.append(current)
    texts = [_round_text(each, fresh=each is current and not each.prompt.answered) for each in touched]
    return "\n\n".join([current.phrases.demo, *texts])


def _round_text(each: _Round, *, fresh: bool) -> str:
    phrases, agents = each.phrases, each.agents
    if each.plan.refusal is not None:
        return each.plan.refusal
    back = [agent for agent in agents if agent.notice is not None]
    notes = list(each.plan.notes) if fresh else []
    if each.remaining and not any(agent.running for agent in agents):
        notes.append(phrases.ids_used_up.format(count=len(each.remaining)))
    elif each.remaining or any(agent.running for agent in agents):
        started = [_started_table(each), *notes] if fresh else notes
        if back:
            which = phrases.list_separator.join(str(agent.agent_id) for agent in back)
            count = len(each.plan.parts)
            said = phrases.came_back.format(done=len(back), count=count, which=which)
            return "\n\n".join([*started, said])
        return "\n\n".join([*started, phrases.waiting])
    return "\n\n".join([*notes, _closing_table(each)])


def _started_table(each: _Round) -> str:
    phrases = each.phrases
    started = [agent for agent in each.agents if agent.error is None]
    head = phrases.started.format(count=len(started))
    lines = [f"| {agent.agent_id} | {_cell(agent.summary)} | {_cell(agent.directory)} |" for agent in started]
    failed = [f"- {_cell(agent.summary)}: {_cell(agent.error)}" for agent in each.agents if agent.error]
    later = [f"- {_cell(part.summary)}: {phrases.later}" for part in each.remaining]
    table = "\n".join([phrases.started_head, *lines])
    return "\n\n".join([head, table, *(["\n".join(failed + later)] if failed or later else [])])


def _closing_table(each: _Round) -> str:
    phrases = each.phrases
    told = [agent for agent in each.agents if agent.error is None]
    completed = sum(agent.notice is not None and agent.notice.end == "completed" for agent in told)
    head = phrases.all_back.format(count=len(told), completed=completed) if told else phrases.none_started
    lines = [_closing_line(agent, phrases) for agent in each.agents]
    return "\n\n".join([head, "\n".join([phrases.closing_head, *lines])])


def _closing_line(agent: _Agent, phrases: Phrases) -> str:
    notice = agent.notice
    if notice is None:
        cells = ["-", agent.summary, phrases.not_started, agent.error or "", "-"]
    else:
        cells = [
            str(agent.agent_id),
            notice.summary,
            phrases.ends[notice.end],
            notice.result,
            notice.directory,
        ]
    return "| " + " | ".join(_cell(cell) for cell in cells) + " |"


def _cell(text: str | None) -> str:
    text = " ".join((text or "").split()).replace("|", "\\|")
    return text if len(text) <= _CELL_CHARACTERS else text[: _CELL_CHARACTERS - 1] + "…"
