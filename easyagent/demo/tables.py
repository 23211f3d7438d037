"""Measures of a table: rows, columns, missing values, ranges. Pure functions of the file's text."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from dataclasses import dataclass

MISSING = ("", "na", "n/a", "nan", "null", "none")
"""Cells that count as missing, in lower case."""

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_DELIMITERS = (",", ";", "\t", "|")
_SNIFFED_ROWS = 20


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `least`, `mean` and `most` are None unless all values present are numbers."""

    name: str
    missing: int
    distinct: int
    least: str | None = None
    """The smallest value, as it is written in the file."""
    mean: float | None = None
    most: str | None = None
    most_frequent: str | None = None
    frequency: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose first row is its header."""

    rows: int
    columns: tuple[Column, ...]
    uneven_rows: int
    """Rows with another number of cells than the header; cells they lack count as missing."""

    @property
    def missing(self) -> int:
        return sum(column.missing for column in self.columns)


def measure_table(text: str, suffix: str) -> Table:
    """Count a table. `suffix` csv or tsv decides the delimiter; in a csv it may also be `;`, tab or `|`.

    Raises:
        csv.Error: the text is no table.
    """
    text = text.removeprefix("\ufeff")
    delimiter = "\t" if suffix in ("tsv", "tab") else _delimiter(text)
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    if not rows:
        return Table(0, (), 0)
    header, body = rows[0], rows[1:]
    cells = [[row[index].strip() if index < len(row) else "" for row in body] for index in range(len(header))]
    columns = tuple(_column(name.strip(), values) for name, values in zip(header, cells, strict=True))
    return Table(len(body), columns, sum(len(row) != len(header) for row in body))


def _delimiter(text: str) -> str:
    """The delimiter that gives the first rows one and the same width, the widest wins; else the comma."""
    best, width = ",", 1
    for delimiter in _DELIMITERS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        widths = {len(row) for row, _ in zip(reader, range(_SNIFFED_ROWS), strict=False) if row}
        if len(widths) == 1 and max(widths) > width:
            best, width = delimiter, max(widths)
    return best


def _column(name: str, values: list[str]) -> Column:
    present = [value for value in values if value.lower() not in MISSING]
    missing, counts = len(values) - len(present), Counter(present)
    if present and all(_NUMBER.fullmatch(value) and math.isfinite(float(value)) for value in present):
        mean = math.fsum(map(float, present)) / len(present)
        return Column(name, missing, len(counts), min(present, key=float), mean, max(present, key=float))
    most_frequent, frequency = min(counts.items(), key=lambda item: (-item[1], item[0]), default=(None, 0))
    return Column(name, missing, len(counts), most_frequent=most_frequent, frequency=frequency)
