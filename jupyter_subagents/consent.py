"""`%agent allow` and `%agent deny`: the answers to what waits for consent, where no card can be clicked."""

from __future__ import annotations

from IPython.core.error import UsageError

from easyagent.approvals import Decision
from easyagent.models import ApprovalRequested
from easyagent.plain_text import clean_text
from jupyter_subagents.notebook import Notebook
from jupyter_subagents.record_words import question_text

SHOWN_LINES = 40


def pending(notebook: Notebook) -> list[str]:
    """All questions that wait, each in one line, and below it what the call would change."""
    words, said = notebook.words(), []
    for _, request in _questions(notebook):
        said.append(question_text(request.model_dump(), words))
        lines = clean_text(request.detail).splitlines()
        said += [f"    {text}" for text in lines[:SHOWN_LINES]]
        if len(lines) > SHOWN_LINES:
            said.append("    " + words["magic.more_lines"].format(n=len(lines) - SHOWN_LINES))
    return said


def allow(notebook: Notebook, words: list[str]) -> None:
    """`%agent allow N [run]`: this call, or all such calls of the run."""
    decision: Decision = "run" if words[1:] == ["run"] else "once"
    if words[1:] not in ([], ["run"]):
        raise UsageError("%agent allow: say %agent allow N for one call, %agent allow N run for all such of the run.")
    _answer(notebook, words[:1], decision)


def deny(notebook: Notebook, words: list[str]) -> None:
    """`%agent deny N`"""
    _answer(notebook, words, "deny")


def _answer(notebook: Notebook, words: list[str], decision: Decision) -> None:
    names = notebook.words()
    waiting = _questions(notebook)
    if not waiting:
        print(names["magic.no_questions"])
        return
    for label, request in waiting:
        if words == [str(request.number)]:
            conversation = notebook.sessions[label].conversation
            assert conversation is not None
            notebook.runtime.hand_over(conversation.approvals.answer, request.number, decision)
            print(names["magic.denied" if decision == "deny" else "magic.allowed"].format(ids=request.number))
            return
    raise UsageError("%agent: name one that waits:\n" + "\n".join(pending(notebook)))


def _questions(notebook: Notebook) -> list[tuple[str, ApprovalRequested]]:
    """What waits, of the current conversation first."""
    labels = sorted(notebook.sessions, key=lambda label: (label != notebook.current_label, label))
    return [
        (label, request)
        for label in labels
        if (conversation := notebook.sessions[label].conversation) is not None
        for request in conversation.approvals.pending
    ]
