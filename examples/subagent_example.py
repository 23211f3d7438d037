"""A main agent that starts sub-agents by itself, and a sub-agent of one's own.

    python examples/subagent_example.py ["task"]

Without OPENAI_API_KEY or OPENAI_BASE_URL the embedded demo model answers: rules, not a language model.
"""

import asyncio
import sys

from easyagent import AgentDefinition, AgentRunner, get_agent_registry, resolve_config

# A kind of sub-agent of one's own; the main agent may now start it by name.
custom = AgentDefinition(
    name="table-reader",
    description="Reads tables and reports their rows, columns and missing values",
    mode="subagent",
    allowed_tools=["read_file", "list_files", "write_file"],
)
get_agent_registry().register(custom)


async def main(task: str) -> None:
    runner = AgentRunner(config=resolve_config())
    async for event in runner.run(task=task):
        if event.type == "agent_created":
            print(f"started sub-agent {event.agent_id}: {event.data['summary']}")
        elif event.type == "agent_ended":
            print(f"sub-agent {event.agent_id} {event.data['end']['status']}: {event.data['end']['result_summary']}")
        elif event.type == "conclusion":
            print(event.data["content"])


if __name__ == "__main__":
    asyncio.run(
        main(sys.argv[1] if len(sys.argv) > 1 else "Profile notebooks/data/plots.csv and notebooks/data/stations.csv")
    )
