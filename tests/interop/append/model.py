"""A model of an append table with columns of any type: the rows that were written, as a list, and what both clients do.

It knows nothing of files, nor of either client: a step changes the list, and every reader must have the same rows. A
row has its values by the ids of columns, so that columns may get other names and types. Dates and times are numbers, as
`plain_rows.python_rows` gives them.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tests.interop.java.java_values import number_type
from tests.support.models.plain_rows import plain, row_texts
from widetable.schema.type_text import type_from_text
from widetable.schema.types import arrow_type

Row: TypeAlias = dict[int, Any]

_LONG: Final = "b" * 16
# Values that sort apart from their first 16 characters, and such that a cut bound cannot be raised.
_TEXTS: Final = ("", "a", _LONG, _LONG + "a", "b" * 40, "grüße-日本", "\U0010ffff" * 20, "ä\ud7ff")
_BYTES: Final = (b"", b"\x00\xff\x10", b"\xff" * 20, b"\x80" * 17, b"b" * 16)
_DAY: Final = 86_400
VALUES: Final[Mapping[str, Sequence[Any]]] = {
    "BOOLEAN": (True, False),
    "TINYINT": (-128, 127, 0),
    "SMALLINT": (-32768, 32767, 5),
    "INT": (-(2**31), 2**31 - 1, 7, -7),
    "BIGINT": (-(2**63), 2**63 - 1, 7, -7),
    "FLOAT": (1.5, -0.0, 0.0, math.nan, math.inf, -2.5),
    "DOUBLE": (-2.25, 0.0, -0.0, math.nan, -math.inf, 5e-324, 1e300),
    "DECIMAL(9, 2)": (Decimal("1234567.89"), Decimal("-0.01"), Decimal("0.00")),
    "DECIMAL(18, 4)": (Decimal("12345678901234.5678"), Decimal("-1.0000")),
    "DECIMAL(38, 10)": (
        Decimal("-1234567890123456789012345678.0123456789"),
        Decimal("1.0000000000"),
        Decimal("99999999999999999999.5000000000"),
    ),
    "STRING": _TEXTS,
    "VARCHAR(40)": _TEXTS,
    "BYTES": _BYTES,
    "BINARY(4)": (b"\x00\x01\x02\x03", b"abcd", b"\xff\xff\xff\xff"),
    "DATE": (19_782, -1, -719_162, 2_932_896),
    "TIME(3)": (45_296_789, 0, 1000 * _DAY - 1),
    "TIMESTAMP(0)": (1_704_164_645, -2_177_452_800),
    "TIMESTAMP(3)": (1_704_164_645_678, -1000, -1),
    "TIMESTAMP(6)": (1_704_164_645_678_901, 253_402_214_400_000_000, -1),
    "TIMESTAMP(9)": (1_704_164_645_678_901_000, -1_000_000_000 * _DAY),
    "TIMESTAMP_LTZ(3)": (1_704_164_645_678, -1),
    "TIMESTAMP_LTZ(6)": (1_704_164_645_678_901, -1),
    "ARRAY<INT>": ([1, None, 3], []),
    "MAP<STRING, BIGINT>": ([("a", 1), ("b", None)], []),
    "ROW<x INT, y ARRAY<STRING>>": ({"x": 1, "y": ["p", None]}, {"x": None, "y": None}),
    "ARRAY<ROW<m MAP<INT, DECIMAL(10, 2)>>>": (
        [{"m": [(1, Decimal("1.50"))]}, {"m": None}],
        [],
    ),
}
WIDER: Final = {"INT": "BIGINT", "FLOAT": "DOUBLE", "SMALLINT": "INT", "TINYINT": "SMALLINT"}
PARTITIONS: Final[Mapping[str, Sequence[Any]]] = {
    "INT": (None, -5, 7),
    "STRING": (None, "a/b=c %", "日本", "x"),
    "DATE": (None, 19_782, -1),
    "BOOLEAN": (None, True, False),
}
PLACE, NUMBER, TEXT = range(3)
# Types without a file index of a kind, besides nested ones.
_NOT_INDEXED: Final[Mapping[str, tuple[str, ...]]] = {
    "bloom-filter": ("BOOLEAN", "DECIMAL"),
    "bitmap": ("DECIMAL", "FLOAT", "DOUBLE", "BYTES", "BINARY"),
}


@dataclass(frozen=True)
class Column:
    """id: its place in the rows of the model, for good."""

    id: int
    name: str
    type: str

    @property
    def arrow_type(self) -> pa.DataType:
        return arrow_type(type_from_text(self.type))

    def array(self, values: Sequence[Any]) -> pa.Array:
        """The values, as they are written."""
        kind = self.arrow_type
        return pa.array(values, number_type(kind)).cast(kind)


@dataclass(frozen=True)
class Where:
    """A condition on a column: method is one of `equal`, `lessThan`, `greaterOrEqual`, `in`, `isNull`, `startsWith`."""

    method: str
    column: Column
    values: tuple[Any, ...] = ()

    def holds(self, row: Row) -> bool:
        value = row.get(self.column.id)
        if self.method == "isNull" or value is None:
            return self.method == "isNull" and value is None
        if self.method == "startsWith":
            return bool(value.startswith(self.values[0]))
        if self.method in ("equal", "in"):
            return value in self.values
        return bool(_place(value) < _place(self.values[0])) == (self.method == "lessThan")

    @property
    def literals(self) -> list[pa.Scalar]:
        return list(self.column.array(self.values))

    @property
    def ours(self) -> pc.Expression:
        name = pc.field(self.column.name)
        if self.method == "isNull":
            return name.is_null()
        first, *others = self.literals
        if self.method == "lessThan":
            return name < first
        if self.method == "greaterOrEqual":
            return name >= first
        equal = name == first
        for other in others:
            equal = equal | (name == other)
        return equal


def _place(value: Any) -> Any:
    """What orders values: texts by their UTF-8, as all clients do; NaN above all numbers."""
    if isinstance(value, float):
        return math.isnan(value), value
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


@dataclass
class Model:
    """rows: in the order of their commits. appended: those of each append, by snapshot. at: columns and rows by
    snapshot. The first columns are those that say where a row lies.
    """

    rng: random.Random
    columns: list[Column]
    places: Sequence[Any]
    rows: list[Row] = field(default_factory=list)
    appended: dict[int, list[Row]] = field(default_factory=dict)
    at: dict[int, tuple[list[Column], list[Row]]] = field(default_factory=dict)
    next_number: int = 0
    next_id: int = 0

    @classmethod
    def drawn(cls, rng: random.Random, absent: Iterable[str] = ()) -> Model:
        """A table's columns: partition, number, text, and a few of other types. absent: types that are not drawn."""
        kind = rng.choice(list(PARTITIONS))
        columns = [
            Column(0, "p", kind),
            Column(1, "n", "BIGINT NOT NULL"),
            Column(2, "s", "STRING"),
        ]
        types = [name for name in VALUES if name not in {*absent}]
        for id, name in enumerate(rng.sample(types, rng.randint(2, 8)), start=3):
            columns.append(Column(id, f"c{id}", name))
        return cls(rng, columns, PARTITIONS[kind], next_id=len(columns))

    def file_indexes(self) -> dict[str, list[str]]:
        """Columns with a Bloom filter, and with bitmaps."""
        indexed = {}
        for kind, without in _NOT_INDEXED.items():
            able = [
                c.name for c in self.columns if not c.type.startswith(without) and c.type[-1] != ">"
            ]
            indexed[kind] = self.rng.sample(able, self.rng.randint(1, len(able)))
        return indexed

    def drawn_rows(self, chosen: Sequence[Column]) -> list[Row]:
        """New rows with these columns. The number of a row is its own."""
        rows = [self._drawn_row(chosen) for _ in range(self.rng.choice([1, 2, 7, 30]))]
        self.next_number += len(rows)
        return [row | {NUMBER: self.next_number - at} for at, row in enumerate(rows)]

    def _drawn_row(self, chosen: Sequence[Column]) -> Row:
        return {column.id: self.drawn_value(column) for column in chosen}

    def drawn_value(self, column: Column) -> Any:
        rng = self.rng
        if column.id == PLACE:
            return rng.choice(self.places)
        if column.id == TEXT and rng.random() < 0.5:
            return f"t{rng.randrange(5)}"
        return (
            None
            if rng.random() < 0.25
            else rng.choice(VALUES[column.type.removesuffix(" NOT NULL")])
        )

    def some_columns(self) -> list[Column]:
        """Those that say where a row lies, and some of the others."""
        return [c for c in self.columns if c.id <= TEXT or self.rng.random() < 0.7]

    def data(self, rows: Sequence[Row], chosen: Sequence[Column]) -> pa.Table:
        return pa.table({c.name: c.array([row.get(c.id) for row in rows]) for c in chosen})

    def condition(self, methods: Sequence[str]) -> Where:
        """A condition that some row may meet."""
        rng = self.rng
        column = rng.choice([column for column in self.columns if "<" not in column.type])
        method = rng.choice([m for m in methods if _takes(column, m)])
        if method == "isNull":
            return Where(method, column)
        stored = [row[column.id] for row in self.rows if is_literal(row.get(column.id))]
        values: list[Any] = [rng.choice(stored) for _ in range(2)] if stored else []
        if column.id != NUMBER and (not values or rng.random() < 0.2):
            others = self.places if column.id == PLACE else VALUES[column.type]
            values = [rng.choice([value for value in others if is_literal(value)])]
        if method == "startsWith":
            values = [values[0][: rng.randint(1, 17)]]
        elif method != "in":
            values = values[:1]
        return Where(method, column, tuple(values or [1]))

    def texts(self, where: Where | None = None) -> list[str]:
        """The rows as they are compared."""
        return texts(self.columns, [row for row in self.rows if where is None or where.holds(row)])

    def delete(self, where: Where) -> None:
        self.rows = [row for row in self.rows if not where.holds(row)]

    def update(self, where: Where, column: Column, value: Any) -> None:
        self.rows = [row | {column.id: value} if where.holds(row) else row for row in self.rows]

    def note(self, snapshots: Iterable[int], new: Sequence[Row] = ()) -> None:
        """Remember what new snapshots have. new: what the first of them appended."""
        for id in sorted({*snapshots} - self.at.keys()):
            self.at[id] = list(self.columns), list(self.rows)
            if new:
                self.appended[id], new = list(new), ()

    def add_column(self, type: str) -> Column:
        column = Column(self.next_id, f"c{self.next_id}", type)
        self.next_id += 1
        self.columns = [*self.columns, column]
        return column

    def change_column(self, old: Column, new: Column) -> None:
        """new: with another name or type."""
        self.columns = [new if column == old else column for column in self.columns]


def is_literal(value: Any) -> bool:
    """Neither null nor a float that equals others, or nothing."""
    return value is not None and not (isinstance(value, float) and (math.isnan(value) or not value))


def _takes(column: Column, method: str) -> bool:
    """Whether all clients say the same: not where a NaN is above a float, or not, nor where Java takes bytes for signed
    numbers.
    """
    if method == "startsWith":
        return column.type.startswith(("STRING", "VARCHAR"))
    if column.type in ("FLOAT", "DOUBLE"):
        return method != "greaterOrEqual"
    return not column.type.startswith(("BYTES", "BINARY")) or method in ("equal", "in", "isNull")


def texts(columns: Sequence[Column], rows: Iterable[Row]) -> list[str]:
    return row_texts([{c.name: _plain(c, row.get(c.id)) for c in columns} for row in rows])


def _plain(column: Column, value: Any) -> Any:
    """A value as `python_rows` has it: only dates and timestamps are numbers."""
    if column.type.startswith("TIME(") and value is not None:
        (value,) = column.array([value]).to_pylist()
    return plain(value)
