"""Literals of other types than their column's: what a filter prunes is never what it keeps."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from tests.support.models.bit_patterns import FLAT, draw_column
from tests.widetable.read.test_filters import bounds_of
from widetable.errors import InvalidError
from widetable.read.filters import parse
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

_OPERATORS = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__")
_LITERALS = (
    *FLAT,
    *(pa.float64(), pa.timestamp("us"), pa.date64(), pa.decimal128(12, 4)) * 12,
    pa.timestamp("us", tz="Europe/Berlin"),
    pa.time64("us"),
    pa.uint64(),
)
_KINDS = (
    *FLAT,
    *(pa.float32(), pa.decimal128(10, 2), pa.decimal128(25, 0), pa.date32()) * 8,
)
_WORDS = ("<", "<=", ">", ">=", "=", "<>", "<=>")


def draw_values(rng: random.Random, kind: pa.DataType) -> pa.Array:
    """Bit patterns, among them some that are near to zero, as in tables of every day."""
    column = draw_column(rng, kind, 12, longest=20)
    try:
        small = pa.array([rng.randint(-300, 300) / rng.choice((1, 10)) for _ in range(8)])
        near = pc.cast(small, kind, safe=False)
    except pa.ArrowException:
        return column
    return pa.concat_arrays([column, near])


def draw_literal(rng: random.Random, values: pa.Array) -> pa.Array:
    """One, of any type that compares with the column; often a value of the column, or near to one."""
    kind = rng.choice(_LITERALS)
    drawn = draw_column(rng, kind, 1, longest=20)
    try:
        taken = values.slice(rng.randrange(len(values)), 1).cast(kind, safe=False)
        if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
            whole = taken.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
            moved = pc.add_checked(
                whole, pa.scalar(rng.choice((0, 0, 1, -1, 1000, 43_200_000)), whole.type)
            )
            taken = moved.cast(kind)
    except pa.ArrowException:
        return drawn
    return rng.choice((drawn, taken, taken, taken))


def draw_expression(rng: random.Random, values: pa.Array) -> pc.Expression:
    drawn = draw_literal(rng, values)
    literal, column = drawn[0], pc.field("c")
    if rng.random() < 0.3:
        found = column.isin(drawn)
    elif rng.random() < 0.2:
        found = getattr(pc.scalar(literal), rng.choice(_OPERATORS))(column)
    else:
        found = getattr(column, rng.choice(_OPERATORS))(literal)
    return ~found if rng.random() < 0.3 else found


def pruned_wrongly(
    values: pa.Array, given: Any, schema: TableSchema, pieces: list[list[int]]
) -> int:
    """How many of the pieces are pruned; raises AssertionError where one has a row that is kept."""
    table = pa.table({"k": pa.array(range(len(values)), pa.int64()), "c": values})
    predicate = parse(given, schema)
    kept = set(table.filter(predicate.expression)["k"].to_pylist())
    pruned = 0
    for piece in pieces:
        rows = table.take(piece)
        if not predicate.may_match(bounds_of(rows, schema)):
            pruned += 1
            assert kept.isdisjoint(piece), (str(given), predicate.tree, str(rows["c"]))
    return pruned


def schema_of(kind: pa.DataType) -> TableSchema:
    fields = [pa.field("k", pa.int64(), False), pa.field("c", kind)]
    return new_schema(pa.schema(fields), primary_key=["k"])


def draw_pieces(rng: random.Random, rows: int) -> list[list[int]]:
    return [[row] for row in range(rows)] + [rng.sample(range(rows), 2) for _ in range(6)]


def test_expressions_prune_no_row_that_arrow_keeps_whatever_the_literals_type(
    rng: random.Random,
) -> None:
    pruned = 0
    for _ in range(700):
        kind = rng.choice(_KINDS)
        values, schema = draw_values(rng, kind), schema_of(kind)
        try:
            pruned += pruned_wrongly(
                values, draw_expression(rng, values), schema, draw_pieces(rng, len(values))
            )
        except (InvalidError, pa.ArrowException):
            continue  # of types that do not compare, or casts that Arrow refuses for a row
    assert pruned > 100


def text_of(literal: pa.Scalar) -> str:
    if not literal.is_valid:
        return "NULL"
    if pa.types.is_binary(literal.type):
        return f"X'{literal.as_buffer().to_pybytes().hex()}'"
    if pa.types.is_string(literal.type) or pa.types.is_temporal(literal.type):
        text = str(literal.cast(pa.string())).replace("\\", "\\\\").replace("'", "''")
        return f"'{text}'"
    return str(literal.as_py())


def test_text_prunes_no_row_that_it_keeps_whatever_the_literals_type(rng: random.Random) -> None:
    pruned = 0
    for _ in range(400):
        kind = rng.choice(_KINDS)
        values, schema = draw_values(rng, kind), schema_of(kind)
        try:
            literal = text_of(draw_literal(rng, values)[0])
            ask = rng.choice((f"c {rng.choice(_WORDS)} {literal}", f"c IN ({literal}, NULL)"))
            given = rng.choice((ask, f"NOT ({ask})"))
            pruned += pruned_wrongly(values, given, schema, draw_pieces(rng, len(values)))
        except (InvalidError, pa.ArrowException, ValueError):
            continue
    assert pruned > 100


_SHOWN = [
    (pa.date32(), [dt.date(2020, 1, 2)], pc.field("c") < dt.datetime(2020, 1, 2, 12)),
    (pa.date32(), [dt.date(2020, 1, 2)], ~(pc.field("c") >= dt.datetime(2020, 1, 2, 12))),
    (pa.float32(), [0.1], pc.field("c") > 0.1),
    (pa.float32(), [0.1], pc.field("c") > Decimal("0.1")),
    (pa.float32(), [float("inf")], pc.field("c") > 1e300),
    (pa.decimal128(10, 2), [Decimal("0.10"), Decimal("0.11")], pc.field("c") < 0.104),
    (pa.decimal128(10, 2), [Decimal("0.10"), Decimal("0.11")], pc.field("c") > 0.106),
    (pa.decimal128(25, 0), [Decimal(2**60 + 1)], pc.field("c") == 2.0**60),
]


_PLACED = [  # no FLOAT is a partition column
    (*shown, place)
    for shown in _SHOWN
    for place in ("key", "partition", "value")
    if place != "partition" or not pa.types.is_floating(shown[0])
]


@pytest.mark.parametrize(
    ("kind", "values", "given", "place"), _PLACED, ids=[str(i) for i in range(len(_PLACED))]
)
def test_a_scan_gives_what_arrow_keeps_where_a_literal_is_no_value_of_its_column(
    tmp_path: Path, kind: pa.DataType, values: list[Any], given: pc.Expression, place: str
) -> None:
    rows = pa.table({"c": pa.array(values, kind), "k": pa.array(range(len(values)), pa.int64())})
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        rows.schema,
        primary_key=["k"] if place == "value" else ["c", "k"],
        partition_by=["c"] if place == "partition" else [],
    )
    table.write(rows)
    expected = rows.filter(given)
    assert expected.num_rows
    assert table.scan(["c", "k"], given).to_arrow().sort_by("k").to_pydict() == expected.to_pydict()


def test_what_equals_a_value_of_the_column_still_prunes() -> None:
    for kind, value, given in (
        (pa.date32(), dt.date(2020, 1, 2), dt.datetime(2020, 1, 3)),
        (pa.float32(), 0.25, 0.5),
        (pa.decimal128(10, 2), Decimal("0.10"), Decimal("0.2")),
        (pa.decimal128(10, 2), Decimal("3.00"), Decimal(4)),
        (pa.int64(), 3, 4.0),
    ):
        assert pruned_wrongly(
            pa.array([value], kind), pc.field("c") >= given, schema_of(kind), [[0]]
        )
