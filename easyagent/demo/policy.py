"""decide: one chat-completions request in, one reply out. Pure and without memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from easyagent.demo.main_agent import decide_main_agent
from easyagent.demo.phrases import PHRASES
from easyagent.demo.sub_agent import decide_sub_agent
from easyagent.openai_server import ChatReply, ChatRequest
from easyagent.prompts import detect_language


def decide(request: Mapping[str, Any]) -> ChatReply:
    """The demo model's reply to a request's JSON body, from its messages and tools alone.

    A request that offers `create_sub_agent` comes from a main agent, one that offers `finish_task`
    from a sub-agent; any other is answered in words. The same request always has the same reply.
    """
    chat = ChatRequest(dict(request))
    tools = frozenset(chat.tool_names)
    if "create_sub_agent" in tools:
        return decide_main_agent(chat.messages)
    if "finish_task" in tools:
        return decide_sub_agent(chat.messages, tools)
    phrases = PHRASES[detect_language(chat.last_text)]
    return ChatReply(f"{phrases.demo}\n\n{phrases.what_i_am}")
