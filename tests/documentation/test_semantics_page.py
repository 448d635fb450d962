"""Each case of docs/semantics.md is what a table does: its row, merged when read and compacted, and its changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.programs.pages import ROOT

PAGE = (ROOT / "docs/semantics.md").read_text("utf-8")
COLUMNS = {"id": "BIGINT", "a": "INT", "b": "INT", "g": "BIGINT", "h": "BIGINT"}
LOOKUP = {"changelog-producer": "lookup"}
CODE = re.compile(r"`([^`]*)`")


class Case(NamedTuple):
    """id: its place and name. row: None where it is refused; changes: as on the page."""

    id: str
    options: dict[str, str]
    records: list[str]
    row: list[str] | None
    changes: list[str]


def cases() -> list[Case]:
    """Of all tables but the last, each with the options above it."""
    found: list[Case] = []
    options: dict[str, str] = {}
    for paragraph in PAGE.partition("## Changelogs")[0].split("\n\n"):
        if paragraph.startswith("Options: "):
            sentence = re.split(r"\.( |\n|$)", paragraph)[0]
            options = dict(option.split(" = ") for option in CODE.findall(sentence))
        elif paragraph.startswith("| case |"):
            for line in paragraph.splitlines()[2:]:
                name, records, row, changes = (cell.strip() for cell in line[1:-1].split("|"))
                kept = None if row == "refused" else CODE.findall(row)
                id = f"{len(found) + 1}: {name}"
                found.append(Case(id, options, CODE.findall(records), kept, CODE.findall(changes)))
    return found


def producers() -> list[tuple[str, list[str]]]:
    rows = PAGE.partition("| `changelog-producer` |")[2].split("\n\n")[0].splitlines()[2:]
    return [(CODE.findall(row)[0], CODE.findall(row)[1:]) for row in rows]


def record(text: str) -> pa.Table:
    """One row of the columns that are named."""
    words = text.split()
    kind = words[0] if words[0] in ("-D", "-U") else "+I"
    pairs = [word.split("=") for word in words if "=" in word]
    values: dict[str, Any] = {"id": 1, "_row_kind": kind}
    values |= {name: None if value == "null" else int(value) for name, value in pairs}
    arrow = {"a": pa.int32(), "b": pa.int32(), "_row_kind": pa.string()}
    return pa.table({n: pa.array([v], arrow.get(n, pa.int64())) for n, v in values.items()})


def shown(row: dict[str, Any]) -> str:
    kind = [row["_row_kind"]] if "_row_kind" in row else []
    values = [f"{n}={row[n]}" for n in ("a", "b", "g", "h") if row[n] is not None]
    return " ".join([*kind, *(values or ["nulls"])])


def rows(table: wt.Table) -> list[str]:
    return [shown(row) for row in table.scan().to_arrow().to_pylist()]


def rows_after(table: wt.Table, text: str) -> list[str]:
    table.write(record(text))
    return rows(table)


def changes(table: wt.Table) -> list[str]:
    last = table.snapshots()[-1].id
    return [shown(row) for row in table.changes(0, last).to_pylist()]


def made(folder: Path, options: dict[str, str]) -> wt.Table:
    return wt.Catalog(folder).create_table("db.t", COLUMNS, primary_key=["id"], options=options)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_a_case_is_what_the_page_says(case: Case, tmp_path: Path) -> None:
    table = made(tmp_path, LOOKUP | case.options)
    *first, last = case.records
    for text in first:
        table.write(record(text))
    if case.row is None:
        with pytest.raises(wt.InvalidError):
            rows_after(table, last)
        return
    assert (rows_after(table, last), changes(table)) == (case.row, case.changes)
    table.compact(full=True)
    assert (rows(table), changes(table)) == (case.row, case.changes)


@pytest.mark.parametrize(
    "case", [case for case in cases() if case.row is not None], ids=lambda case: case.id
)
def test_the_row_is_the_same_where_reads_alone_merge_it(case: Case, tmp_path: Path) -> None:
    table = made(tmp_path, case.options | {"write-only": "true"})
    for text in case.records:
        table.write(record(text))
    assert rows(table) == case.row


@pytest.mark.parametrize(("producer", "said"), producers())
def test_a_producer_keeps_what_the_page_says(
    producer: str, said: list[str], tmp_path: Path
) -> None:
    options = {"merge-engine": "partial-update", "changelog-producer": producer}
    table = made(tmp_path, options)
    for text in ("a=1", "b=2"):
        table.write(record(text))
    table.compact(full=True)
    assert changes(table) == said


def test_the_page_has_cases_of_every_engine() -> None:
    engines = {case.options["merge-engine"] for case in cases()}
    assert engines == {"deduplicate", "partial-update", "aggregation", "first-row"}
    assert len(cases()) > 30
    assert [producer for producer, _ in producers()] == [
        "none",
        "input",
        "lookup",
        "full-compaction",
    ]
