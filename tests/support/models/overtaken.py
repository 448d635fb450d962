"""Writers that were overtaken, and the shapes of table in which that once changed rows.

A begins, B is committed, A is committed. The rows must be those of B and then A, whoever compacted what in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

import widetable as wt
from widetable.write.commit_message import CommitMessage

SCHEMA: Final = pa.schema(
    [
        ("k", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.int64()),
        ("s", pa.int64()),
        ("t", pa.string()),
    ]
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Shape:
    """expected: the row of key 1 without what is null in it; None for no row. base: what is there before both."""

    options: Mapping[str, str]
    late: Row
    overtaking: Row
    expected: Row | None
    base: Row | None = None


PARTIAL: Final = {"merge-engine": "partial-update"}
GROUP: Final = PARTIAL | {"fields.s.sequence-group": "a"}
SHAPES: Final = {
    "deduplicate, a delete": Shape({}, {"a": 1}, {"_row_kind": "-D"}, {"a": 1}),
    "deduplicate, upserts": Shape({}, {"a": 1}, {"a": 2}, {"a": 1}),
    "deduplicate, equal sequence.field": Shape(
        {"sequence.field": "s"}, {"a": 1, "s": 1}, {"a": 2, "s": 1}, {"a": 1, "s": 1}
    ),
    "partial-update, one column": Shape(PARTIAL, {"a": 1}, {"a": 2}, {"a": 1}),
    "partial-update, a column of each and one of both": Shape(
        PARTIAL, {"a": 1, "b": 1}, {"b": 2, "s": 2}, {"a": 1, "b": 1, "s": 2}
    ),
    "partial-update, a removal": Shape(
        PARTIAL | {"partial-update.remove-record-on-delete": "true"},
        {"a": 1},
        {"_row_kind": "-D"},
        {"a": 1},
        {"a": 0, "b": 0},
    ),
    "first-row": Shape({"merge-engine": "first-row"}, {"a": 1}, {"a": 2}, {"a": 2}),
    "aggregation, listagg": Shape(
        {"merge-engine": "aggregation", "fields.t.aggregate-function": "listagg"},
        {"t": "A"},
        {"t": "B"},
        {"t": "B,A"},
    ),
    "aggregation, first_value": Shape(
        {
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "first_value",
            "changelog-producer": "lookup",
        },
        {"a": 1},
        {"a": 2},
        {"a": 2},
    ),
    "a sequence group, equal sequences": Shape(
        GROUP | {"changelog-producer": "lookup"},
        {"s": 1, "a": 1},
        {"s": 1, "a": 2},
        {"s": 1, "a": 1},
    ),
    "a sequence group with a sum, a retraction first": Shape(
        GROUP | {"fields.a.aggregate-function": "sum"},
        {"b": 1},
        {"s": 1, "a": 5, "_row_kind": "-D"},
        {"b": 1, "s": 1},
    ),
}


@dataclass
class Overtaken:
    """A shape, played: `play` gives the table. between: called after B's commit, with the table."""

    shape: Shape
    catalog: wt.Catalog
    between: Callable[[wt.Table], None] = lambda table: None
    options: Mapping[str, str] = field(default_factory=dict)

    def play(self, name: str = "db.t") -> wt.Table:
        table = self.begin(name)
        table.commit_append(self.late)
        return table

    def begin(self, name: str = "db.t") -> wt.Table:
        """Up to A's commit, whose messages are `late`."""
        options = {**self.shape.options, **self.options}
        table = self.catalog.create_table(name, SCHEMA, primary_key=["k"], options=options)
        if self.shape.base is not None:
            table.write(rows(self.shape.base))
        self.late = written(table, rows(self.shape.late))
        table.write(rows(self.shape.overtaking))
        self.between(table)
        return table

    def expected(self) -> list[Row]:
        if self.shape.expected is None:
            return []
        return [dict.fromkeys(SCHEMA.names) | {"k": 1} | self.shape.expected]


def rows(values: Row, key: int = 1) -> pa.Table:
    """One record of a key."""
    row = {"k": key, **values}
    types = {name: SCHEMA.field(name).type for name in row if name in SCHEMA.names}
    return pa.table({name: pa.array([row[name]], types.get(name, pa.string())) for name in row})


def written(table: wt.Table, data: pa.Table) -> Sequence[CommitMessage]:
    """The messages of a writer that has its numbers and its files, and no commit yet."""
    with table.new_writer(data.column_names) as writer:
        writer.write(data)
        return writer.finish()
