"""What tests of agents need: FakeOpenAI, a scripted model server at the outermost border."""

from easyagent.openai_server import BrokenStream, ChatReply, ChatRequest, RawReply, ToolCallReply
from easyagent.testing.fake_openai import (
    FakeOpenAI,
    Gate,
    Hang,
    RecordedRequest,
    Script,
    call,
    calls,
    cut_stream,
    error,
    for_main,
    for_sub_agent,
    hang,
)

__all__ = [
    "BrokenStream",
    "ChatReply",
    "ChatRequest",
    "FakeOpenAI",
    "Gate",
    "Hang",
    "RawReply",
    "RecordedRequest",
    "Script",
    "ToolCallReply",
    "call",
    "calls",
    "cut_stream",
    "error",
    "for_main",
    "for_sub_agent",
    "hang",
]
