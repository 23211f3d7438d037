"""A small OpenAI-compatible chat-completions server: asyncio and the standard library, 127.0.0.1 only.

    server = OpenAIServer(answer, models=["my-model"], token="one-run secret")
    base_url = await server.start()          # "http://127.0.0.1:PORT/v1"
    ...
    await server.aclose()

`answer` is an async callable from `ChatRequest` to `ChatReply` (or, to misbehave on purpose,
`RawReply` or `BrokenStream`). It serves the embedded demo model, `easyagent.testing.FakeOpenAI`, and
a user's own `llm_call` to child processes.
"""

from easyagent.openai_server.replies import (
    Answer,
    BrokenStream,
    ChatReply,
    ChatRequest,
    RawReply,
    Reply,
    ToolCallReply,
    error_reply,
    estimate_tokens,
)
from easyagent.openai_server.server import OpenAIServer

__all__ = [
    "Answer",
    "BrokenStream",
    "ChatReply",
    "ChatRequest",
    "OpenAIServer",
    "RawReply",
    "Reply",
    "ToolCallReply",
    "error_reply",
    "estimate_tokens",
]
