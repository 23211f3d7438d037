"""ConversationRecord: which main conversation a folder of `.subagents/conversations/` holds."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class ConversationRecord(BaseModel):
    """Written as `conversation.json` by the kernel that holds the conversation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    label: str
    notebook: str = ""
    """Which notebook it belongs to: its path, else the kernel's id."""
    created_at: str
    """ISO 8601, UTC."""
    owner_pid: int
    """The kernel that holds it now, or did last."""
    owner_began: float | None = None
    """When that began, as `easyagent.processes.start_time` tells it."""
