"""Runs and conversations of kernels that are gone: their ends recorded, and found again to go on with.

What the main agent has not been told is not kept in a list of its own, which could be lost or told twice: a run is
untold where its end is recorded and no message of its conversation's log tells it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from easyagent.models import KERNEL_GONE, AgentExit, MessageAdded, MessagesReplaced, Started, SubAgentEnd, SubAgentJob
from easyagent.models.conversation import ConversationRecord
from easyagent.processes import is_alive, kill_tree, start_time, wait_gone
from easyagent.subagents.ending import record_end, utc_now
from easyagent.subagents.store import RunStore

LAST_SECONDS = 10.0
"""How long the processes of a kernel that is gone may take to end by themselves."""


def jobs(store: RunStore) -> Iterator[SubAgentJob]:
    """The jobs of all runs, oldest first."""
    for run_id in store.run_ids():
        job = store.job(run_id)
        if job is not None:
            yield job


def is_lost(store: RunStore, job: SubAgentJob) -> bool:
    """True where a run has no recorded end and its kernel is gone: nobody is left to record one."""
    owner = job.owner_pid is not None and is_alive(job.owner_pid, job.owner_started)
    return not owner and store.end(job.sub_conversation_id) is None


def record_lost(store: RunStore, job: SubAgentJob) -> SubAgentEnd:
    """Record the end of a lost run, once nothing of it lives. Blocks while its processes end. Raises OSError."""
    events = store.events(job.sub_conversation_id)
    started = next((event for event in events if isinstance(event, Started)), None)
    if started is not None and is_alive(started.pid, started.began) and not wait_gone(started.pid, LAST_SECONDS):
        kill_tree(started.pid)
    runtime = int(events[-1].time - events[0].time) if events else 0
    return record_end(store, job, AgentExit(stop=KERNEL_GONE, runtime_seconds=runtime))


def record_all_lost(store: RunStore) -> None:
    """Record the end of every lost run of a workspace, so that all of them are shown as what they are."""
    for job in jobs(store):
        if is_lost(store, job):
            record_lost(store, job)


def conversations(store: RunStore, notebook: str) -> list[ConversationRecord]:
    """The conversations of a notebook, the one last opened first."""
    found = [store.conversation(conversation_id) for conversation_id in store.conversation_ids()]
    return [record for record in reversed(found) if record is not None and record.notebook == notebook]


def owned(conversation_id: str, label: str, notebook: str, earlier: ConversationRecord | None) -> ConversationRecord:
    """The record of a conversation that this process holds from now on."""
    owner = {"owner_pid": os.getpid(), "owner_began": start_time(os.getpid())}
    if earlier is not None:
        return earlier.model_copy(update=owner)
    values = {"id": conversation_id, "label": label, "notebook": notebook, "created_at": utc_now(), **owner}
    return ConversationRecord.model_validate(values)


def runs_of(store: RunStore, conversation_id: str) -> list[tuple[SubAgentJob, SubAgentEnd]]:
    """The ended runs of a conversation, oldest first; of runs that one went on with, only the last."""
    own = [job for job in jobs(store) if job.conversation_id == conversation_id]
    resumed = {job.resumes for job in own}
    return [
        (job, end)
        for job in own
        if job.sub_conversation_id not in resumed and (end := store.end(job.sub_conversation_id)) is not None
    ]


def told(events: Iterable[object]) -> set[str]:
    """The runs whose ends the messages of a conversation tell."""
    kinds = (MessageAdded, MessagesReplaced)
    return {run_id for event in events if isinstance(event, kinds) for run_id in event.told}
