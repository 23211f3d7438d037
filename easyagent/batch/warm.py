"""What the host does before its first fork: all that an agent does up to its first reply. What that loads, builds and
caches is shared by all agents.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path

from easyagent.builtin_agents import GENERAL_AGENT
from easyagent.chat import Messages
from easyagent.llm import EndpointModel
from easyagent.openai_client import rehearsal
from easyagent.openai_server import ChatReply, ChatRequest, OpenAIServer
from easyagent.prices import price_usd
from easyagent.prompts import LANGUAGES, system_prompt
from easyagent.tools.toolbox import Toolbox


def warm_up() -> None:
    """Load the client, make one request to a server in this process, build prompts and schemas, and freeze it all."""
    price_usd("gpt-4o", "https://api.openai.com/v1", 1, 1, 0)  # reads the table of prices
    with rehearsal():
        asyncio.run(_one_request())
    assert threading.active_count() == 1, "a thread would be lost in every fork"
    gc.collect()
    gc.freeze()  # the collector would touch, and thereby copy, every page in every child


async def _one_request() -> None:
    async def answer(request: ChatRequest) -> ChatReply:
        return ChatReply("warm")

    server = OpenAIServer(answer, models=["warm"])
    model = EndpointModel(base_url=await server.start(), api_key=None, name="warm", max_retries=0)
    toolbox = Toolbox.for_sub_agent(GENERAL_AGENT)
    try:
        for language in LANGUAGES:
            prompt = system_prompt(
                "sub_agent", tools=toolbox.names, language=language, workspace=Path("/"), definition=GENERAL_AGENT
            )
            messages = Messages([{"role": "system", "content": prompt}])
            await model.complete(
                messages, toolbox.schemas(language), on_text=lambda text: None, on_retry=lambda reason, wait: None
            )
    finally:
        await server.aclose()
