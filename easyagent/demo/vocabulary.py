"""The words by which the demo reads a prompt, as regular expressions, English and Chinese."""

from __future__ import annotations

import re
from typing import Final

from easyagent.demo.words import HAN

TABLE_SUFFIXES: Final = ("csv", "tsv")
TEXT_SUFFIXES: Final = ("md", "txt")
DATA_SUFFIXES: Final = (*TABLE_SUFFIXES, *TEXT_SUFFIXES, "json")

_CODE_SUFFIXES = ("py", "r", "jl", "ipynb", "html", "xml", "yaml", "yml", "toml", "ini", "tex", "bib")
_OTHER_SUFFIXES = ("tab", "markdown", "rst", "log", "pdf", "xlsx", "xls", "docx", "parquet", "jsonl", "dat")
FILE_SUFFIXES: Final = frozenset((*DATA_SUFFIXES, *_CODE_SUFFIXES, *_OTHER_SUFFIXES))
"""A name that ends in one of these is a file where a text names it; unknown kinds are read as text."""


def _pattern(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives), re.IGNORECASE)


URL: Final = _pattern(r"https?://\S+")
QUOTED: Final = _pattern(
    r"`([^`\n]+)`", r'"([^"\n]+)"', "“([^”\n]+)”", "「([^」\n]+)」", "《([^》\n]+)》", "‘([^’\n]+)’"
)
PATH_TOKEN: Final = re.compile(rf"(?:[^\W{HAN}]|[./~*?-])+")
NAMED_FOLDER: Final = _pattern(
    r"\b(?:in|of|from|the)\s+([A-Za-z0-9_-]+)\s+(?:folder|directory)\b",
    r"([A-Za-z0-9_-]+)\s*(?:目录|文件夹)",
)
NO_FOLDER: Final = frozenset(
    ("the", "this", "that", "a", "my", "our", "current", "same", "whole", "entire", "notebook")
)

COMMAND: Final = _pattern(
    r"(?:\b(?:run|execute)\b(?:\s+the)?(?:\s+shell)?(?:\s+command)?|(?:运行|执行)(?:命令|指令)?)[:：]?\s*`([^`\n]+)`"
)
SEARCH: Final = _pattern(
    r"\b(?:search\w*|find|look(?:ing)? for|grep|occurrences?|mentions?)\b",
    "搜索|查找|寻找|检索|找出|出现",
)
SEARCH_FOR: Final = _pattern(r"\b(?:search|look)\w*\b.*?\bfor\s+(?:the\s+)?(?:words?\s+|terms?\s+)?([\w-]+)")
COVERED: Final = _pattern(
    r"\b(?:summar(?:y|i[sz])\w*|analy[sz]\w*|analysis|describe\w*|description|count\w*|report\w*|read|review\w*)\b",
    r"\b(?:inspect\w*|explor\w+|profil\w+|overview|examin\w+|look (?:at|through|into)|check|how many)\b",
    r"\b(?:statistics|measure|go through|study)\b",
    "总结|汇总|概括|概述|摘要|分析|统计|描述|读取|阅读|查看|检查|报告",
    "浏览|审阅|看看|看一下|研究|整理|多少|几行|计数|清点",
)
NOT_COVERED: Final = _pattern(
    r"\bplot (?=the|a|an|it|them|each|all|every)\b",
    r"\b(?:draw|chart|visuali[sz]e|translate|predict|forecast|regress\w*|correlat\w+|train a|fit a)\b",
    r"\b(?:delete|remove|rename|fix|refactor|rewrite|compare|merge|cluster|download|install|poem|email)\b",
    "绘图|画图|可视化|翻译|预测|回归|相关性|训练|拟合|删除|重命名",
    "修复|重构|改写|比较|对比|合并|聚类|写诗|下载|安装",
)
TABLES: Final = _pattern(r"\b(?:tables?|spreadsheets?|csvs?|tsvs?)\b", "数据表|表格")
TEXTS: Final = _pattern(r"\b(?:texts?|notes?|documents?|markdown)\b", "文本|笔记|文档")
DATA: Final = _pattern(r"\b(?:data|datasets?)\b", "数据")
FILES: Final = _pattern(r"\b(?:files?|folder|directory|workspace)\b", "文件|目录|工作区")
GLUE: Final = _pattern(r"\b(?:and|please|then)\b", r"[\s,;:.、，。；：和与及请#*()（）\"'`“”「」《》-]+")
"""What may stand between files that a text only names."""
