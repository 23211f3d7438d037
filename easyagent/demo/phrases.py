"""All sentences of the demo model, in both languages. `{}` fields are filled with str.format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from easyagent.prompts import Language


@dataclass(frozen=True, slots=True)
class Phrases:
    """The sentences in one language."""

    demo: str
    what_i_am: str
    not_understood: str
    task_not_understood: str
    instruction_not_understood: str
    nothing_found: str
    not_listed: str
    list_cut: str
    grouped: str
    ids_used_up: str
    goal: str
    goal_search: str
    goal_item: str
    goal_rest: str
    summarise: str
    search: str
    and_more: str
    started: str
    started_head: str
    later: str
    waiting: str
    came_back: str
    all_back: str
    closing_head: str
    not_started: str
    none_started: str
    ends: dict[str, str]
    no_tool: str
    problems: dict[str, str]
    not_covered: str
    out_of_time: str
    done: str
    done_with_problems: str
    report_at: str
    write_failed: str
    summary_table: str
    summary_text: str
    summary_json: str
    summary_term: str
    summary_command: str
    summary_more: str
    separator: str
    list_separator: str
    report_title: str
    report_source: str
    report_head: str
    summary_head: str
    table_facts: str
    table_head: str
    table_note: str
    text_facts: str
    headings: str
    terms: str
    json_facts: str
    json_names: str
    json_kinds: dict[str, str]
    term_facts: str
    search_output: str
    command_output: str
    index_title: str
    index_head: str
    not_read: str


_EN = Phrases(
    demo="*Demo model (rules, not a language model).*",
    what_i_am=(
        "I am the demo model of easyagent: fixed rules, not a language model. Inside a conversation "
        "with tools I start sub-agents that count tables and texts. For anything else, set up a real model."
    ),
    not_understood=(
        "I am a demo model and did not understand this prompt; nothing was started. I can have tables "
        "and texts counted and searched. Prompts that I understand:\n\n"
        "- `Summarise the data files in this folder.`\n"
        '- `Search notes/*.md for "drought" and report what you find.`'
    ),
    task_not_understood=(
        "I am a demo model and did not understand this task, so nothing was done and no file was made: {task}"
    ),
    instruction_not_understood="did not understand the additional instruction “{text}”",
    nothing_found="I found no file to work on: no {what} in the workspace. Nothing was started.",
    not_listed="I could not list `{path}`: {problem}",
    list_cut="The list of files was cut: {count} entries are not in it and were left out.",
    grouped="These are {count} files, and at most {limit} sub-agents run at once: {agents} share them.",
    ids_used_up="The agent ids 1 to 99 are used up in this conversation; {count} parts were not started.",
    goal="Goal: read and summarise {files}.",
    goal_search="Goal: search {files} for {terms}, and summarise them.",
    goal_item="Goal: {item}",
    goal_rest=(
        "Requirements: read each file to its end with read_file; every number in the report must come from "
        "what was read.\nDeliverables: a Markdown report in the deliverables directory.\n"
        "Scope: only what the goal names."
    ),
    summarise="Summarise {files}",
    search="Search {files}",
    and_more="{first} and {count} more",
    started="Background sub-agents started: {count}",
    started_head="| Sub-agent | Task | Deliverables directory |\n|---|---|---|",
    later="starts when one of the others has come back",
    waiting="I go on when their notices arrive.",
    came_back="{done} of {count} have come back: sub-agent {which}. I wait for the others.",
    all_back="All have come back: {completed} of {count} completed their task.",
    closing_head="| Sub-agent | Task | Status | Result | Where the report is |\n|---|---|---|---|---|",
    not_started="not started",
    none_started="No sub-agent was started.",
    ends={
        "completed": "completed",
        "failed": "failed",
        "timeout": "timed out",
        "terminated": "terminated",
        "interrupted": "interrupted",
    },
    no_tool="the tool {tool} is not among my tools",
    problems={
        "no_result": "the tool gave no result",
        "pages_do_not_join": "the pages that were read do not join",
        "page_not_whole": "a page of it did not arrive whole, so it was not counted",
        "line_cut": "a line of it is too long to arrive whole, so it was not counted",
        "shorter_than_file": "the text that arrived is shorter than the file, so it was not counted",
        "not_json": "it is not valid JSON ({detail})",
        "not_table": "it cannot be read as a table ({detail})",
        "not_named": "none of the workspace's files is named in the task",
        "no_match": "no data file found",
    },
    not_covered="my rules do not cover: {words}",
    out_of_time="told to finish before all was read",
    done="Demo model, done: {files}.",
    done_with_problems="Demo model: not completed. {problems}.",
    report_at="Report: {path}",
    write_failed="writing {path} failed: {problem}",
    summary_table="{path} (rows {rows}, columns {columns}, missing values {missing})",
    summary_text="{path} (lines {lines}, words {words}, headings {headings})",
    summary_json="{path} (JSON {kind}{size})",
    summary_term="“{term}” occurs {count} ×",
    summary_command="ran `{command}`",
    summary_more="{count} more in the report",
    separator="; ",
    list_separator=", ",
    report_title="# Report on {path}",
    report_source="Counted from what read_file returned: lines {lines}, calls {pages}, bytes {size}.",
    report_head="**Incomplete: only the first {lines} of {total} lines were read; the numbers count these alone.**",
    summary_head="{path}, only lines 1-{lines} of {total}",
    table_facts="- Rows (without the header): {rows}\n- Columns: {columns}\n- Missing values: {missing}",
    table_head=("| Column | Missing | Distinct | Min | Mean | Max | Most frequent |\n|---|---|---|---|---|---|---|"),
    table_note=(
        "The first row is taken as the header. Missing: empty cells, NA, N/A, NaN, null, None. "
        "Rows with another number of cells than the header: {uneven}."
    ),
    text_facts="- Lines: {lines} (empty: {empty})\n- Words: {words}\n- Headings: {headings}",
    headings="## Headings",
    terms="## Most frequent terms\n\nStop words are left out.",
    json_facts="- Top-level type: {kind}\n- Size: {size}",
    json_names="- Keys: {names}",
    json_kinds={
        "object": "object",
        "array": "array",
        "boolean": "boolean",
        "number": "number",
        "string": "string",
        "null": "null",
    },
    term_facts="- Occurrences of “{term}”: {count}",
    search_output="## What search_code returned for “{term}”",
    command_output="## What `{command}` returned",
    index_title="# Report",
    index_head="| File and figures | Report |\n|---|---|",
    not_read="not counted: {problem}",
)

_ZH = Phrases(
    demo="*演示模型（规则程序，不是语言模型）。*",
    what_i_am=(
        "我是 easyagent 的演示模型：固定规则，不是语言模型。在带有工具的对话中，"
        "我会启动子智能体来统计表格和文本。其他任务请配置真实的模型。"
    ),
    not_understood=(
        "我是演示模型，没有理解这条提示，没有启动任何子智能体。我能安排表格和文本的统计与搜索。我能理解的提示例如：\n\n"
        "- `汇总当前文件夹中的数据文件。`\n"
        "- `在 notes/*.md 中搜索“干旱”并报告结果。`"
    ),
    task_not_understood="我是演示模型，没有理解这项任务，因此没有执行任何操作，也没有生成任何文件。任务原文：{task}",
    instruction_not_understood="没有理解补充指示“{text}”",
    nothing_found="没有找到可以处理的文件：工作区中没有 {what}。没有启动任何子智能体。",
    not_listed="无法列出 `{path}`：{problem}",
    list_cut="文件列表被截断：有 {count} 项不在其中，未处理。",
    grouped="共有 {count} 个文件，而最多同时运行 {limit} 个子智能体，因此由 {agents} 个子智能体分担。",
    ids_used_up="本对话的智能体编号 1 到 99 已用完，有 {count} 份工作没有启动。",
    goal="目标：阅读并汇总 {files}。",
    goal_search="目标：在 {files} 中搜索{terms}，并汇总这些文件。",
    goal_item="目标：{item}",
    goal_rest=(
        "要求：用 read_file 把每个文件读到末尾；报告中的每个数字都必须来自读到的内容。\n"
        "交付内容：交付目录中的 Markdown 报告。\n工作范围：仅限目标中写明的内容。"
    ),
    summarise="汇总 {files}",
    search="搜索 {files}",
    and_more="{first} 和另外 {count} 个文件",
    started="已启动 {count} 个后台子智能体：",
    started_head="| 子智能体 | 任务 | 交付目录 |\n|---|---|---|",
    later="等其他子智能体返回后启动",
    waiting="收到它们的通知后我会继续。",
    came_back="{count} 个子智能体中已有 {done} 个返回：{which}。我在等待其余的。",
    all_back="全部 {count} 个子智能体都已返回，其中 {completed} 个完成了任务。",
    closing_head="| 子智能体 | 任务 | 状态 | 结果 | 报告位置 |\n|---|---|---|---|---|",
    not_started="未启动",
    none_started="没有启动任何子智能体。",
    ends={
        "completed": "已完成",
        "failed": "已失败",
        "timeout": "已超时",
        "terminated": "已被终止",
        "interrupted": "已中断",
    },
    no_tool="我的工具中没有 {tool}",
    problems={
        "no_result": "工具没有返回结果",
        "pages_do_not_join": "读到的各页不能连续拼接",
        "page_not_whole": "有一页内容不完整，因此没有统计",
        "line_cut": "有一行太长，没有完整返回，因此没有统计",
        "shorter_than_file": "读到的内容比文件短，因此没有统计",
        "not_json": "不是有效的 JSON（{detail}）",
        "not_table": "无法作为表格读取（{detail}）",
        "not_named": "任务中没有写明工作区里的任何文件",
        "no_match": "没有找到数据文件",
    },
    not_covered="我的规则不包括：{words}",
    out_of_time="在全部读完之前被要求结束",
    done="演示模型，已完成：{files}。",
    done_with_problems="演示模型：任务未完成。{problems}。",
    report_at="报告：{path}",
    write_failed="写入 {path} 失败：{problem}",
    summary_table="{path}（{rows} 行，{columns} 列，{missing} 个缺失值）",
    summary_text="{path}（{lines} 行，{words} 词，{headings} 个标题）",
    summary_json="{path}（JSON {kind}{size}）",
    summary_term="“{term}”出现 {count} 次",
    summary_command="运行了 `{command}`",
    summary_more="另有 {count} 项见报告",
    separator="；",
    list_separator="、",
    report_title="# {path} 的报告",
    report_source="统计自 read_file 返回的内容：{lines} 行，{pages} 次调用，{size} 字节。",
    report_head="**不完整：共 {total} 行，只读取了前 {lines} 行；所有数字仅针对这些行。**",
    summary_head="{path}，仅第 1-{lines} 行（共 {total} 行）",
    table_facts="- 行数（不含表头）：{rows}\n- 列数：{columns}\n- 缺失值：{missing}",
    table_head=("| 列 | 缺失值 | 不同值 | 最小值 | 平均值 | 最大值 | 最常见的值 |\n|---|---|---|---|---|---|---|"),
    table_note=("第一行视为表头。缺失值：空单元格、NA、N/A、NaN、null、None。单元格数与表头不同的行数：{uneven}。"),
    text_facts="- 行数：{lines}（空行：{empty}）\n- 词数（每个汉字计一词）：{words}\n- 标题：{headings}",
    headings="## 标题",
    terms="## 最常见的词\n\n已去除停用词；汉字按相邻两字统计。",
    json_facts="- 顶层类型：{kind}\n- 大小：{size}",
    json_names="- 键：{names}",
    json_kinds={
        "object": "对象",
        "array": "数组",
        "boolean": "布尔值",
        "number": "数字",
        "string": "字符串",
        "null": "空值",
    },
    term_facts="- “{term}”出现次数：{count}",
    search_output="## search_code 对“{term}”的返回",
    command_output="## `{command}` 的返回",
    index_title="# 报告",
    index_head="| 文件与数字 | 报告 |\n|---|---|",
    not_read="没有统计：{problem}",
)

PHRASES: Final[dict[Language, Phrases]] = {"en": _EN, "zh": _ZH}
