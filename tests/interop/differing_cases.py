"""Tables about which two clients say different things, worked out by hand: the reasons why random tables leave these
out. test_pypaimon_differs asks pypaimon's native engine, test_java_faults asks Java.

A case is the options of a table with a key `k` and columns g, h, v, s INT, its records, a commit each, and both rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

import widetable as wt

COLUMNS: Final = ("g", "h", "v")
Row = dict[str, Any]


class Case(NamedTuple):
    """Records: kind, g, h, v; the rows likewise, None for no row."""

    options: dict[str, str]
    records: list[tuple[str, int | None, int | None, int | None]]
    ours: tuple[int | None, ...] | None
    theirs: tuple[int | None, ...] | None


CASES: Final = {
    # A retraction sets the sequence, which the engine clears as protected.
    "a group that protects its own sequence": Case(
        {"fields.g.sequence-group": "v,g"},
        [("+I", 1, None, 1), ("-D", 5, None, 1)],
        (5, None, None),
        (None, None, None),
    ),
    # The row that comes back has the removal's sequence where its own is null.
    "a row that follows a removal in the order of its sequence": Case(
        {"sequence.field": "g,h", "partial-update.remove-record-on-delete": "true"},
        [("-D", 1, 7, 1), ("+I", 2, None, 2)],
        (2, None, 2),
        (2, 7, 2),
    ),
    # The same without a removal, where the retraction comes first in the order.
    "a row that a retraction comes before in the order of its sequence": Case(
        {"sequence.field": "g,h", "fields.s.sequence-group": "v"},
        [("+I", 1, None, None), ("-U", None, 7, None)],
        (1, None, None),
        (1, 7, None),
    ),
    # As in Java (decision 0002); here it stays away until the next add.
    "a removed row that is retracted once more": Case(
        {
            "fields.g.sequence-group": "v",
            "partial-update.remove-record-on-sequence-group": "g",
        },
        [("+I", 1, None, 1), ("-D", 2, None, None), ("-U", None, None, None)],
        None,
        (2, None, None),
    ),
    # As in Java: the row that comes back begins with the removal's values of functions (semantics U6).
    "a removed row that comes back, with a function in its group": Case(
        {
            "fields.g.sequence-group": "v",
            "fields.v.aggregate-function": "last_value",
            "partial-update.remove-record-on-sequence-group": "g",
        },
        [("-D", 0, None, 5), ("+I", None, None, 7)],
        (0, None, None),
        (0, None, 5),
    ),
    # As in Java: a row begins with the values of a -U that comes first (semantics U6, decision 0001).
    "a row whose first record is a -U that removes nothing": Case(
        {"partial-update.remove-record-on-delete": "true"},
        [("-U", None, None, 5), ("+I", None, None, None)],
        (None, None, None),
        (None, None, 5),
    ),
    # As in Java before it compacts (semantics 6.4; test_java_faults): a late null is the first value, unless another
    # late record came before it to a null. Here it always is, as Java has it where each record was compacted.
    "the first value of a group after late records": Case(
        {
            "fields.g.sequence-group": "v",
            "fields.v.aggregate-function": "first_non_null_value",
        },
        [("+I", 5, None, None), ("+I", 4, None, 1), ("+I", 3, None, None)],
        (5, None, None),
        (5, None, 1),
    ),
    # As in Java: it is merged with nothing there; here functions take it back from nothing (decision 0031).
    "a retraction alone for its key": Case(
        {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
        [("-D", None, None, 5)],
        (None, None, -5),
        None,
    ),
    # As in Java: its function is last_value, which a retraction clears; here it is what orders the records.
    "a column that orders records after a retraction": Case(
        {"merge-engine": "aggregation", "sequence.field": "g"},
        [("+I", 1, None, 1), ("-D", 2, None, 1)],
        (2, None, None),
        (None, None, None),
    ),
    # As in Java, until it is compacted.
    "level 0 of first-row": Case({"merge-engine": "first-row"}, [("+I", 1, 2, 3)], (1, 2, 3), None),
    "level 0 beside deletion vectors": Case(
        {"merge-engine": "deduplicate", "deletion-vectors.enabled": "true"},
        [("+I", 1, 2, 3)],
        (1, 2, 3),
        None,
    ),
}
# Java says what we say.
OF_PYPAIMON_ALONE: Final = ("a group that protects its own sequence",)


def table_of(folder: Path, case: Case, *more: pa.Field) -> wt.Table:
    """The table with its records; each of the columns beside is 7."""
    key = pa.field("k", pa.int32(), nullable=False)
    schema = pa.schema([key, *((column, pa.int32()) for column in (*COLUMNS, "s")), *more])
    options = {
        "merge-engine": "partial-update",
        "bucket": "1",
        "write-only": "true",
        "widetable.fsync": "false",
        **case.options,
    }
    table = wt.Catalog(str(folder)).create_table("db.t", schema, primary_key=["k"], options=options)
    for kind, *values in case.records:
        row = {"_row_kind": kind, "k": 1, **dict(zip(COLUMNS, values, strict=True)), "s": None}
        row |= {field.name: 7 for field in more}
        table.write(pa.Table.from_pylist([row], schema.append(pa.field("_row_kind", pa.string()))))
    return table


def without_a_value(folder: Path) -> wt.Table:
    """A NOT NULL column that a retraction clears."""
    case = Case({"merge-engine": "aggregation"}, [("+I", 1, 1, 1), ("-D", 1, 1, 1)], None, None)
    return table_of(folder, case, pa.field("needed", pa.int32(), nullable=False))


def chosen(rows: list[Row]) -> list[Row]:
    return [{name: row[name] for name in ("k", *COLUMNS)} for row in rows]


def rows_of(values: tuple[int | None, ...] | None) -> list[Row]:
    return [] if values is None else [{"k": 1, **dict(zip(COLUMNS, values, strict=True))}]
