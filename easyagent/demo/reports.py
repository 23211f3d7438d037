"""What the demo measured in a file, and how it says so in a report and in a summary."""

from __future__ import annotations

import csv
from dataclasses import dataclass

from easyagent.demo.documents import Document, JsonValue, measure_document, measure_json, occurrences
from easyagent.demo.phrases import Phrases
from easyagent.demo.tables import Column, Table, measure_table
from easyagent.demo.tool_output import FileText

_TABLES = ("csv", "tsv", "tab")
_MARKDOWN = ("md", "markdown")
_MEAN_FORMAT = ".6g"


@dataclass(frozen=True, slots=True)
class Finding:
    """One file with its measures; `problem` is the sentence why there are none."""

    source: FileText
    measures: Table | Document | JsonValue | None = None
    problem: str | None = None

    @property
    def path(self) -> str:
        return self.source.path


def can_be_counted(source: FileText) -> bool:
    """True for a file that was read to its end, and for the head of one that was not where a head can be counted."""
    return source.next_line is None or (source.lines > 0 and not source.path.lower().endswith(".json"))


def find(source: FileText, phrases: Phrases) -> Finding:
    """Measure a file by its suffix."""
    if source.problem is not None:
        return Finding(source, problem=phrases.problems.get(source.problem, source.problem))
    suffix = source.path.rpartition(".")[2].lower()
    try:
        if suffix in _TABLES:
            return Finding(source, measure_table(source.text, suffix))
        if suffix == "json":
            return Finding(source, measure_json(source.text))
    except csv.Error as error:
        return Finding(source, problem=phrases.problems["not_table"].format(detail=error))
    except (ValueError, RecursionError) as error:
        return Finding(source, problem=phrases.problems["not_json"].format(detail=error))
    return Finding(source, measure_document(source.text, source.lines, markdown=suffix in _MARKDOWN))


def figures(finding: Finding, phrases: Phrases) -> str:
    """The key figures of a file in half a line."""
    measures, source = finding.measures, finding.source
    path = source.path
    if source.next_line is not None:
        path = phrases.summary_head.format(path=path, lines=source.lines, total=source.total_lines)
    if isinstance(measures, Table):
        return phrases.summary_table.format(
            path=path, rows=measures.rows, columns=len(measures.columns), missing=measures.missing
        )
    if isinstance(measures, Document):
        return phrases.summary_text.format(
            path=path, lines=measures.lines, words=measures.words, headings=len(measures.headings)
        )
    if isinstance(measures, JsonValue):
        size = "" if measures.size is None else f" {measures.size}"
        return phrases.summary_json.format(path=path, kind=phrases.json_kinds[measures.kind], size=size)
    return f"{path}: {finding.problem}"


def file_report(finding: Finding, terms: tuple[str, ...], phrases: Phrases) -> str:
    """The Markdown report on one file."""
    source, measures = finding.source, finding.measures
    parts = [phrases.report_title.format(path=f"`{source.path}`"), phrases.demo]
    if measures is None:
        return _joined([*parts, phrases.not_read.format(problem=finding.problem)])
    if source.next_line is not None:
        parts.append(phrases.report_head.format(lines=source.lines, total=source.total_lines))
    parts.append(phrases.report_source.format(lines=source.lines, pages=source.pages, size=source.size_bytes))
    if isinstance(measures, Table):
        parts += _table_parts(measures, phrases)
    elif isinstance(measures, Document):
        parts += _document_parts(measures, phrases)
    else:
        parts += _json_parts(measures, phrases)
    parts += [phrases.term_facts.format(term=_cell(term), count=occurrences(source.text, term)) for term in terms]
    return _joined(parts)


def _table_parts(table: Table, phrases: Phrases) -> list[str]:
    facts = phrases.table_facts.format(rows=table.rows, columns=len(table.columns), missing=table.missing)
    lines = [phrases.table_head, *(_column_line(column) for column in table.columns)]
    return [facts, "\n".join(lines), phrases.table_note.format(uneven=table.uneven_rows)]


def _column_line(column: Column) -> str:
    mean = "" if column.mean is None else format(column.mean, _MEAN_FORMAT)
    common = "" if column.most_frequent is None else f"{column.most_frequent} ({column.frequency})"
    cells = [
        column.name,
        column.missing,
        column.distinct,
        column.least or "",
        mean,
        column.most or "",
        common,
    ]
    return "| " + " | ".join(_cell(str(cell)) for cell in cells) + " |"


def _document_parts(document: Document, phrases: Phrases) -> list[str]:
    parts = [
        phrases.text_facts.format(
            lines=document.lines,
            empty=document.empty_lines,
            words=document.words,
            headings=len(document.headings),
        )
    ]
    if document.headings:
        parts.append(phrases.headings)
        parts.append("\n".join(f"{'  ' * (level - 1)}- {text}" for level, text in document.headings))
    if document.terms:
        parts.append(phrases.terms)
        parts.append("\n".join(f"- {term}: {count}" for term, count in document.terms))
    return parts


def _json_parts(value: JsonValue, phrases: Phrases) -> list[str]:
    size = "-" if value.size is None else value.size
    parts = [phrases.json_facts.format(kind=phrases.json_kinds[value.kind], size=size)]
    if value.names:
        names = phrases.list_separator.join(f"`{_cell(name)}`" for name in value.names)
        parts.append(phrases.json_names.format(names=names))
    return parts


def index_report(findings: list[tuple[Finding, str]], phrases: Phrases) -> str:
    """The report that names the reports on several files. Each finding comes with its report's file name."""
    lines = [phrases.index_head]
    lines += [f"| {_cell(figures(f, phrases))} | {_cell(name)} |" for f, name in findings]
    return _joined([phrases.index_title, phrases.demo, "\n".join(lines)])


def tool_output(title: str, output: str) -> str:
    """What a tool returned, quoted under a title as it came."""
    fence = "```"
    while fence in output:
        fence += "`"
    return f"\n{title}\n\n{fence}text\n{output}\n{fence}\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _joined(parts: list[str]) -> str:
    return "\n\n".join(parts) + "\n"
