"""The demo as a sub-agent: list, read to the end, search, run, write, finish. One step at each request."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from easyagent.demo.documents import occurrences
from easyagent.demo.phrases import PHRASES, Phrases
from easyagent.demo.reports import Finding, can_be_counted, figures, file_report, find, index_report, tool_output
from easyagent.demo.targets import CALLS_PER_REPLY, calls_to_make, listing_calls, targets
from easyagent.demo.tool_output import file_text, pages_to_read
from easyagent.demo.transcript import (
    Assignment,
    Exchange,
    assignment_of,
    exchanges_of,
    instructions_of,
    told_to_finish,
)
from easyagent.demo.wish import Wish, read_wish
from easyagent.openai_server import ChatReply, ToolCallReply
from easyagent.prompts import detect_language

_GOAL = re.compile(
    r"^(?:Goal: |目标：)(.*?)(?=^(?:Requirements|Deliverables|Scope|要求|交付内容|工作范围)[:：]|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SUMMARY_CHARACTERS = 200
_FAILED_SUMMARY_CHARACTERS = 300
_PROBLEM_CHARACTERS = 120
_OUTPUT_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class _Work:
    """All that the messages say about the task and how far it is."""

    assignment: Assignment
    text: str
    """The part of the task that says what to do, and the instructions that came later."""
    wish: Wish
    unknown_instructions: tuple[str, ...]
    exchanges: list[Exchange]
    tools: frozenset[str]
    phrases: Phrases
    hurried: bool
    """True where nothing but finishing is wanted any more."""

    def made(self, name: str, key: str, value: str) -> Exchange | None:
        """The call of a tool with this argument, if it was made."""
        return next((e for e in self.exchanges if e.name == name and e.arguments.get(key) == value), None)


def decide_sub_agent(messages: Sequence[Mapping[str, Any]], tools: frozenset[str]) -> ChatReply:
    """The next step of a sub-agent's task: the tool calls to make now."""
    work = _work(messages, tools)
    if not work.wish.covered:
        return _finish_not_understood(work)
    missing = [tool for tool in _needed_tools(work) if tool not in tools]
    if missing and not work.hurried:
        return _finish(work, [], [work.phrases.no_tool.format(tool=tool) for tool in missing])
    calls = () if work.hurried else _list(work) or _read(work) or _search(work) or _run(work)
    if calls:
        return ChatReply(tool_calls=calls)
    findings, problems = _findings(work)
    calls = _write(work, findings)
    return ChatReply(tool_calls=calls) if calls else _finish(work, findings, problems)


def _work(messages: Sequence[Mapping[str, Any]], tools: frozenset[str]) -> _Work:
    assignment = assignment_of(messages)
    goal = _GOAL.search(assignment.task)
    text = goal[1].strip() if goal else assignment.task
    wish, unknown = read_wish(text), []
    for instruction in instructions_of(messages):
        added = read_wish(instruction)
        if added.covered:
            wish, text = wish.and_also(added), f"{text}\n{instruction}"
        elif "finish_task" not in instruction:
            unknown.append(instruction)
    return _Work(
        assignment=assignment,
        text=text,
        wish=wish,
        unknown_instructions=tuple(unknown),
        exchanges=exchanges_of(messages),
        tools=tools,
        phrases=PHRASES[detect_language(assignment.task)],
        hurried=tools <= {"finish_task"} or told_to_finish(messages),
    )


def _needed_tools(work: _Work) -> list[str]:
    needed = ["read_file"] if work.wish.has_targets else []
    needed += ["list_files"] if listing_calls(work.wish) else []
    return needed + (["run_command"] if work.wish.command else [])


def _list(work: _Work) -> tuple[ToolCallReply, ...]:
    return calls_to_make(listing_calls(work.wish), work.exchanges)


def _files(work: _Work) -> tuple[str, ...]:
    own = work.assignment.directory.rstrip("/")
    files = targets(work.wish, work.text, work.exchanges).files
    return tuple(file for file in files if not (own and file.startswith(own + "/")))


def _read(work: _Work) -> tuple[ToolCallReply, ...]:
    """What is missing of the first file that is not read to its end: after its first page, many at a time."""
    for path in _files(work):
        source = file_text(path, work.exchanges)
        if source.next_line is not None:
            return tuple(ToolCallReply("read_file", {"path": path, **page}) for page in pages_to_read(source))
    return ()


def _search(work: _Work) -> tuple[ToolCallReply, ...]:
    if "search_code" not in work.tools:
        return ()
    folders = {posixpath.dirname(file) or "." for file in _files(work)}
    path = folders.pop() if len(folders) == 1 else "."
    wanted = [ToolCallReply("search_code", {"query": term, "path": path}) for term in work.wish.terms]
    return calls_to_make(wanted, work.exchanges)


def _run(work: _Work) -> tuple[ToolCallReply, ...]:
    if work.wish.command is None:
        return ()
    return calls_to_make([ToolCallReply("run_command", {"command": work.wish.command})], work.exchanges)


def _findings(work: _Work) -> tuple[list[Finding], list[str]]:
    """What was measured, and every reason why the task is not completed."""
    phrases, found = work.phrases, targets(work.wish, work.text, work.exchanges)
    problems = [f"{path}: {phrases.problems.get(why, why)}" for path, why in found.problems]
    sources = [file_text(path, work.exchanges) for path in _files(work)]
    findings = [find(source, phrases) for source in sources if can_be_counted(source)]
    if any(source.next_line is not None for source in sources) or (work.hurried and _list(work)):
        problems.append(phrases.out_of_time)
    elif work.wish.has_targets and not sources and not problems:
        problems.append(phrases.problems["not_named" if work.wish.mentions else "no_match"])
    problems += [f"{finding.path}: {_short(finding.problem)}" for finding in findings if finding.problem]
    problems += _other_problems(work)
    return findings, problems


def _other_problems(work: _Work) -> list[str]:
    phrases, problems = work.phrases, []
    command = work.wish.command
    if command is not None:
        made = work.made("run_command", "command", command)
        if made is None:
            problems.append(phrases.out_of_time)
        elif made.failed:
            problems.append(f"`{command}`: {_short(made.result or phrases.problems['no_result'])}")
    if work.wish.not_covered:
        problems.append(phrases.not_covered.format(words=phrases.list_separator.join(work.wish.not_covered)))
    unknown = work.unknown_instructions
    return problems + [phrases.instruction_not_understood.format(text=_short(text)) for text in unknown]


def _reports(work: _Work, findings: list[Finding]) -> dict[str, str]:
    """The report files to write, by name: report.md alone, or with one file for each of several."""
    appendix = _appendix(work)
    if len(findings) == 1:
        return {"report.md": file_report(findings[0], work.wish.terms, work.phrases) + appendix}
    named = list(zip(findings, _report_names(findings), strict=True))
    reports = {name: file_report(finding, work.wish.terms, work.phrases) for finding, name in named}
    return reports | {"report.md": index_report(named, work.phrases) + appendix} if findings or appendix else {}


def _report_names(findings: list[Finding]) -> list[str]:
    taken, names = {"report.md"}, []
    for finding in findings:
        stem, suffix = posixpath.splitext(posixpath.basename(finding.path))
        choices = [
            f"{stem}.md",
            f"{stem}-{suffix[1:]}.md",
            *(f"{stem}-{k}.md" for k in range(2, len(findings) + 3)),
        ]
        name = next(choice for choice in choices if choice not in taken)
        taken.add(name)
        names.append(name)
    return names


def _appendix(work: _Work) -> str:
    """What other tools than read_file returned, quoted: no number is taken from it."""
    text = ""
    for term in work.wish.terms:
        made = work.made("search_code", "query", term)
        if made is not None:
            title = work.phrases.search_output.format(term=term)
            text += tool_output(title, (made.result or "")[:_OUTPUT_CHARACTERS])
    made = work.made("run_command", "command", work.wish.command) if work.wish.command else None
    if made is not None and not made.failed:
        title = work.phrases.command_output.format(command=work.wish.command)
        text += tool_output(title, (made.result or "")[:_OUTPUT_CHARACTERS])
    return text


def _writes_files(work: _Work) -> bool:
    return "write_file" in work.tools and bool(work.assignment.directory)


def _write(work: _Work, findings: list[Finding]) -> tuple[ToolCallReply, ...]:
    if not _writes_files(work):
        return ()
    directory = work.assignment.directory.rstrip("/")
    return tuple(
        ToolCallReply("write_file", {"path": f"{directory}/{name}", "content": content})
        for name, content in _reports(work, findings).items()
        if work.made("write_file", "path", f"{directory}/{name}") is None
    )[:CALLS_PER_REPLY]


def _finish_not_understood(work: _Work) -> ChatReply:
    summary = work.phrases.task_not_understood.format(task=" ".join(work.text.split()))
    return ChatReply(tool_calls=(ToolCallReply("finish_task", {"success": False, "summary": _cut(summary)}),))


def _finish(work: _Work, findings: list[Finding], problems: list[str]) -> ChatReply:
    arguments: dict[str, Any] = {}
    problems = [*problems, *_write_problems(work)]
    reports = _reports(work, findings)
    if reports and not _writes_files(work):
        arguments["report"] = "\n".join(reports.values())
    arguments |= {"success": not problems, "summary": _summary(work, findings, problems, bool(reports))}
    return ChatReply(tool_calls=(ToolCallReply("finish_task", arguments),))


def _write_problems(work: _Work) -> list[str]:
    failed = [e for e in work.exchanges if e.name == "write_file" and e.failed]
    return [
        work.phrases.write_failed.format(path=e.arguments.get("path"), problem=_short(e.result or "")) for e in failed
    ]


def _summary(work: _Work, findings: list[Finding], problems: list[str], has_report: bool) -> str:
    phrases, directory = work.phrases, work.assignment.directory.rstrip("/")
    end = " " + phrases.report_at.format(path=f"{directory}/report.md") if has_report and directory else ""
    most, start = _SUMMARY_CHARACTERS, ""
    if problems:
        most = _FAILED_SUMMARY_CHARACTERS
        told = phrases.done_with_problems.format(problems=phrases.separator.join(problems))
        start = _cut(told, _SUMMARY_CHARACTERS - len(end)) + " "
    facts = _facts(work, findings)
    for shown in range(len(facts), 0, -1):
        left = [phrases.summary_more.format(count=len(facts) - shown)] if shown < len(facts) else []
        text = phrases.separator.join(facts[:shown] + left)
        whole = (start + text if problems else phrases.done.format(files=text)) + end
        if len(whole) <= most:
            return whole
    return _cut(start.strip() or phrases.done.format(files="…")) + end


def _facts(work: _Work, findings: list[Finding]) -> list[str]:
    """The key figures, one a file, a term and a command. A summary shows each whole or not at all."""
    phrases = work.phrases
    good = [finding for finding in findings if finding.problem is None]
    facts = [figures(finding, phrases) for finding in good]
    for term in work.wish.terms if good else ():
        count = sum(occurrences(finding.source.text, term) for finding in good)
        facts.append(phrases.summary_term.format(term=term, count=count))
    command = work.wish.command
    made = work.made("run_command", "command", command) if command else None
    if made is not None and not made.failed:
        facts.append(phrases.summary_command.format(command=command))
    return facts


def _short(text: str | None) -> str:
    words = " ".join((text or "").removeprefix("Error: ").split())
    return _cut(words.rstrip(".。"), _PROBLEM_CHARACTERS)


def _cut(text: str, characters: int = _SUMMARY_CHARACTERS) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"
