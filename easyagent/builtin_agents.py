"""The three built-in kinds of sub-agent; `subagents/default.json` says the same as data."""

from easyagent.models import AgentDefinition

GENERAL_AGENT = AgentDefinition(
    name="general",
    description="通用型 Sub-Agent，执行复杂的多步骤任务",
    mode="subagent",
    denied_tools=["task"],
    max_iterations=20,
)

EXPLORE_AGENT = AgentDefinition(
    name="explore",
    description="探索型 Sub-Agent，快速查找文件和代码",
    mode="subagent",
    allowed_tools=["read_file", "list_files", "search_code", "search_files"],
    denied_tools=["write_file", "edit_file", "execute_bash", "task"],
    max_iterations=15,
)

ANALYST_AGENT = AgentDefinition(
    name="analyst",
    description="分析型 Sub-Agent，深度分析和报告生成",
    mode="subagent",
    allowed_tools=["read_file", "list_files", "search_code", "web_search", "fetch_url"],
    denied_tools=["task", "write_file", "edit_file"],
    max_iterations=25,
    temperature=0.3,
)

BUILTIN_AGENTS = (GENERAL_AGENT, EXPLORE_AGENT, ANALYST_AGENT)
