"""Reads a request's messages: prompts, tool calls with their results, notices. Pure, nothing is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from easyagent.openai_server.replies import message_text

# The heads of easyagent/prompts/{en,zh}/notice_{system,user}.md, with the words for each kind of end.
_HEAD = re.compile(
    r"^(?:Sub-agent (?P<en>\d+) \((?P<en_summary>.*)\) "
    r"(?P<en_end>has completed(?: its task)?|has failed|has timed out|was terminated|was interrupted)\."
    r"|子智能体 ?(?P<zh>\d+) \((?P<zh_summary>.*)\) "
    r"(?P<zh_end>已完成(?:任务)?|已失败|已超时|已被终止|已中断)。) *$",
    re.MULTILINE,
)
_ENDS = {
    "has failed": "failed",
    "has timed out": "timeout",
    "was terminated": "terminated",
    "was interrupted": "interrupted",
    "已失败": "failed",
    "已超时": "timeout",
    "已被终止": "terminated",
    "已中断": "interrupted",
}
_DIRECTORY = re.compile(r"^(?:Deliverables directory: |交付目录：)(.*)$", re.MULTILINE)
_RESULT = re.compile(r"^(?:Result summary: |结果摘要：)", re.MULTILINE)
# The heads of easyagent/prompts/{en,zh}/{first_message,reminder}.md.
_TASK = re.compile(
    r"^(?:\[Task summary\]|【任务摘要】)\n(?P<summary>.*?)\n+(?:\[Task details\]|【任务详情】)\n"
    r"(?P<task>.*)\n+(?:\[Deliverables directory\]|【交付目录】)\n(?P<directory>[^\n]*)\n",
    re.MULTILINE | re.DOTALL,
)
_REMINDERS = (
    "If you have completed the task, please call the finish_task",
    "如果你已经完成了任务，请调用 finish_task",
)
_STEERING = ("(Additional instruction, takes precedence)", "（补充指示，优先于原任务）")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A tool call with its result; `result` is None where none came."""

    name: str
    arguments: Mapping[str, Any]
    result: str | None

    @property
    def failed(self) -> bool:
        return self.result is None or self.result.startswith("Error: ")


@dataclass(frozen=True, slots=True)
class Notice:
    """How a sub-agent ended, as its notice says it. `end` is a SubAgentStatus value."""

    agent_id: int
    summary: str
    end: str
    result: str
    directory: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of the user and what the main agent did for it."""

    text: str
    position: int
    exchanges: list[Exchange] = field(default_factory=list)
    answered: bool = False
    """True where the main agent has already answered it in words."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A sub-agent's first user message, taken apart."""

    summary: str
    task: str
    directory: str


def exchanges_of(messages: Sequence[Mapping[str, Any]]) -> list[Exchange]:
    """All tool calls with their results, in order of the calls."""
    results = {m.get("tool_call_id"): message_text(m) for m in messages if m.get("role") == "tool"}
    return [
        Exchange(*_name_and_arguments(call), results.get(call.get("id")))
        for message in messages
        for call in message.get("tool_calls") or []
    ]


def _name_and_arguments(call: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    function = call.get("function") or {}
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except ValueError:
        arguments = {}
    return str(function.get("name", "")), arguments if isinstance(arguments, dict) else {}


def prompts_of(messages: Sequence[Mapping[str, Any]]) -> list[Prompt]:
    """The user's own prompts (no notices), each with the tool calls up to the next one."""
    starts = [index for index, message in enumerate(messages) if _is_prompt(message)]
    prompts = []
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        part = messages[start + 1 : end]
        answered = any(m.get("role") == "assistant" and not m.get("tool_calls") for m in part)
        prompts.append(Prompt(message_text(messages[start]), start, exchanges_of(part), answered))
    return prompts


def _is_prompt(message: Mapping[str, Any]) -> bool:
    if message.get("role") != "user":
        return False
    text = message_text(message)
    return not _HEAD.match(text) and not text.startswith(_REMINDERS)


def notices_of(message: Mapping[str, Any]) -> Iterator[Notice]:
    """The notices in a message: a system or user message, or text appended to a tool's result."""
    if message.get("role") == "assistant":
        return
    text = message_text(message)
    heads = list(_HEAD.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=False):
        yield _notice(head, text[head.end() : end])


def _notice(head: re.Match[str], body: str) -> Notice:
    words = head["en_end"] or head["zh_end"]
    directories = list(_DIRECTORY.finditer(body))
    directory = directories[-1] if directories else None
    result = _RESULT.search(body)
    if result is not None:
        text = body[result.end() :]
        directory = next((d for d in directories if d.start() < result.start()), directory)
    elif directory is not None:
        text = body[: directory.start()] + body[directory.end() :]
    else:
        text = body
    return Notice(
        agent_id=int(head["en"] or head["zh"]),
        summary=head["en_summary"] or head["zh_summary"] or "",
        end=_ENDS.get(words, "completed"),
        result=text.strip(),
        directory=directory[1].strip() if directory else "",
    )


def assignment_of(messages: Sequence[Mapping[str, Any]]) -> Assignment:
    """A sub-agent's task. A first message in another form than ours is taken as the task itself."""
    text = next((message_text(m) for m in messages if m.get("role") == "user"), "")
    found = _TASK.search(text)
    if found is None:
        return Assignment(summary="", task=text, directory="")
    return Assignment(found["summary"].strip(), found["task"].strip(), found["directory"].strip())


def instructions_of(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Instructions sent to a sub-agent while it works, without their opening words."""
    texts = [message_text(message) for message in messages if message.get("role") == "user"]
    return [text.removeprefix(opening).strip() for text in texts for opening in _STEERING if text.startswith(opening)]


def told_to_finish(messages: Sequence[Mapping[str, Any]]) -> bool:
    """True where a message after the task asks for finish_task now: time or turns are nearly used up."""
    first = next((index for index, m in enumerate(messages) if m.get("role") == "user"), len(messages))
    later = [message_text(m) for m in messages[first + 1 :] if m.get("role") in ("user", "system")]
    return any("finish_task" in text and not text.startswith(_REMINDERS) for text in later)
