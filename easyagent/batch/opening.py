"""What a sub-agent's conversation begins with: its task, or the conversation of the run it goes on with."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from easyagent.chat import OUTCOME_UNKNOWN, Messages
from easyagent.models import SubAgentJob
from easyagent.prompts import Language, fill, load, system_prompt


def opening_messages(
    job: SubAgentJob, tools: Iterable[str], language: Language, earlier: list[dict[str, Any]]
) -> Messages:
    """The messages before the first reply. `earlier`: those of the run that is resumed, else none."""
    timeout = f"{job.timeout_seconds:g}"
    if earlier:
        messages = Messages(earlier)
        messages.close_calls(OUTCOME_UNKNOWN)
        messages.append({"role": "user", "content": fill(load("resume", language), {"timeout_seconds": timeout})})
        return messages
    prompt = system_prompt(
        "sub_agent", tools=tools, language=language, workspace=Path(job.workspace), definition=job.definition
    )
    return Messages([{"role": "system", "content": prompt}, {"role": "user", "content": _task(job, language, timeout)}])


def _task(job: SubAgentJob, language: Language, timeout: str) -> str:
    values = {
        "agent_id": job.agent_id,
        "summary": job.summary,
        "task": job.task,
        "deliverables_dir": job.deliverables_dir,
        "timeout_seconds": timeout,
    }
    text = fill(load("first_message", language), values)
    if job.output_schema is not None:
        schema = json.dumps(job.output_schema, ensure_ascii=False)
        text += "\n\n" + fill(load("output_schema", language), {"schema": schema})
    return text
