"""The demo's numbers, each against a count by other means; and the example data they are shown on."""

from __future__ import annotations

import csv
import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from easyagent.demo.documents import measure_document, measure_json, occurrences
from easyagent.demo.tables import measure_table
from easyagent.demo.words import words_of
from easyagent.prompts import detect_language

DATA = Path(__file__).parents[2] / "notebooks" / "data"
TABLES = sorted([*DATA.glob("*.csv"), *DATA.glob("*.tsv")])
TEXTS = sorted([*DATA.glob("*.md"), *DATA.glob("*.txt")])


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)
def test_a_table_s_measures_are_those_of_its_rows(path: Path) -> None:
    text = path.read_text("utf-8")
    table = measure_table(text, path.suffix[1:])
    delimiter = "\t" if path.suffix == ".tsv" else ","
    rows = list(csv.DictReader(text.splitlines(), delimiter=delimiter))
    assert (table.rows, [column.name for column in table.columns]) == (len(rows), list(rows[0]))
    for column in table.columns:
        values = [row[column.name] for row in rows if row[column.name] not in ("", "NA")]
        assert (column.missing, column.distinct) == (len(rows) - len(values), len(set(values)))
        if column.mean is not None:
            numbers = [float(value) for value in values]
            assert column.mean == pytest.approx(statistics.mean(numbers))
            assert (float(column.least or ""), float(column.most or "")) == (min(numbers), max(numbers))
        else:
            assert column.frequency == max(values.count(value) for value in values)
    assert {column.mean is None for column in table.columns} == {True, False}


@pytest.mark.parametrize(
    ("text", "rows", "columns", "missing"),
    [
        ("", 0, 0, 0),
        ("a,b\n", 0, 2, 0),
        ("a;b\n1,5;2\n3;\n", 2, 2, 1),
        ('a,b\n"x\ny",1\n"p,q",NaN\n', 2, 2, 1),
        ("a,b\r\n1,2\r\n\r\n3\r\n", 2, 2, 1),
        ("a|b|c\n1|2|3\n", 1, 3, 0),
        ("\ufeffa,b\n1,null\n", 1, 2, 1),
        ("only\n1\n2\n", 2, 1, 0),
    ],
)
def test_delimiters_quotes_and_uneven_rows(text: str, rows: int, columns: int, missing: int) -> None:
    table = measure_table(text, "csv")
    assert (table.rows, len(table.columns), table.missing) == (rows, columns, missing)


def test_a_column_with_one_word_in_it_has_no_mean() -> None:
    table = measure_table("a,b,c\n1,2,1e3\n2,two,nan\n3,4,-.5\n", "csv")
    assert [column.mean for column in table.columns] == [2.0, None, 499.75]
    assert (table.columns[2].least, table.columns[2].most, table.columns[2].missing) == ("-.5", "1e3", 1)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_text_s_measures_are_those_of_its_words(path: Path) -> None:
    text = path.read_text("utf-8")
    lines = text.splitlines()
    measures = measure_document("\n".join(lines), len(lines), markdown=path.suffix == ".md")
    headings = [line for line in lines if line.startswith("#")]
    assert (measures.lines, measures.empty_lines) == (len(lines), lines.count(""))
    assert measures.han_characters == sum("\u4e00" <= character <= "\u9fff" for character in text)
    assert len(measures.headings) == len(headings) and measures.terms
    for term, count in measures.terms:
        exact = text.count(term) if measures.han_characters else [w.lower() for w in words_of(text)].count(term)
        assert exact == count > 1


def test_words_are_han_characters_and_runs_of_other_letters() -> None:
    assert words_of("Don't count 3 plots: 干旱 in été_1!") == [
        "Don't",
        "count",
        "3",
        "plots",
        "干",
        "旱",
        "in",
        "été_1",
    ]
    fenced = measure_document("# a\n```\n# no heading\n```\n## b", 5, markdown=True)
    assert fenced.headings == ((1, "a"), (2, "b")) and measure_document("# a", 1, markdown=False).headings == ()


@pytest.mark.parametrize(
    ("value", "kind", "size", "names"),
    [
        ({"a": 1, "b": [1]}, "object", 2, ("a", "b")),
        ([{"a": 1}, {"c": 2}, 3], "array", 3, ("a", "c")),
        ("x", "string", None, ()),
        (True, "boolean", None, ()),
        (None, "null", None, ()),
    ],
)
def test_json(value: object, kind: str, size: int | None, names: tuple[str, ...]) -> None:
    measures = measure_json(json.dumps(value))
    assert (measures.kind, measures.size, measures.names) == (kind, size, names)
    with pytest.raises(ValueError, match=r"Expecting|Extra"):
        measure_json(json.dumps(value) + ",")


def test_occurrences_and_languages() -> None:
    assert occurrences("Drought, drought. No rain.", "drought") == 2
    assert [
        detect_language(text) for text in ("读取 data/long_name_of_a_table.csv", "Read 表.csv please, the table")
    ] == [
        "zh",
        "en",
    ]
    assert detect_language("データを要約してください、表格") == "en" and detect_language("") == "en"


def test_the_example_data_is_what_its_generator_makes(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(DATA / "make_data.py"), str(tmp_path)], check=True, timeout=60)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_bytes() for path in [*TABLES, *TEXTS]}
    assert made == kept and len(kept) == 6 and all(len(data) < 20_000 for data in kept.values())


def test_the_example_data_holds_the_pattern_its_recipe_names() -> None:
    rows = list(csv.DictReader((DATA / "plots.csv").read_text("utf-8").splitlines()))

    def mean(site: str, nitrogen: str) -> float:
        of = [r for r in rows if r["site"] == site and r["nitrogen_kg_ha"] == nitrogen and r["yield_t_ha"]]
        return statistics.mean(float(row["yield_t_ha"]) for row in of)

    gains = {site: mean(site, "120") - mean(site, "0") for site in ("North", "Middle", "South")}
    assert gains["North"] > 1 and gains["Middle"] > 1 and gains["South"] < 0.6
    stations = list(csv.DictReader((DATA / "stations.csv").read_text("utf-8").splitlines()))
    driest = min(stations, key=lambda row: float(row["rain_mm"]))
    assert (driest["station"], driest["month"], driest["rain_mm"]) == ("South", "2024-06", "9.4")


def test_a_long_word_takes_no_time() -> None:
    text = "-" * 200_000
    assert detect_language(text) == "en" and detect_language(text + "表" * 40_000) == "zh"
