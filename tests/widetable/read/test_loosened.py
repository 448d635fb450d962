"""A filter for an engine that applies it itself: moments are uncertain by two days, nothing else is."""

from __future__ import annotations

import datetime as dt
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import widetable as wt
from widetable.read.filters import parse
from widetable.read.loosened import loosened
from widetable.schema.table_schema import TableSchema

START = dt.datetime(2024, 1, 1)
HOURS = [*range(-120, 121, 2)]
# {a} is a moment, {b} one of some hours later.
CONDITIONS = [
    "{c} = '{a}'",
    "{c} <> '{a}'",
    "{c} < '{a}' OR {c} > '{b}'",
    "NOT {c} <= '{a}'",
    "NOT ({c} > '{a}' AND NOT {c} >= '{b}')",
    "NOT {c} = '{a}'",
    "NOT {c} <> '{a}'",
    "{c} BETWEEN '{a}' AND '{b}'",
    "NOT {c} BETWEEN '{a}' AND '{b}'",
    "{c} IN ('{a}', '{b}')",
    "NOT {c} IN ('{a}', '{b}', NULL)",
    "{c} <=> '{a}'",
    "({c} >= '{a}') IS TRUE",
    "({c} >= '{a}') IS FALSE",
    "NOT (NOT {c} < '{a}' OR n = 7)",
]


@pytest.fixture
def schema(tmp_path: Path) -> TableSchema:
    fields = [
        ("n", pa.int64()),
        ("zoned", pa.timestamp("us", tz="UTC")),
        ("wall", pa.timestamp("ms")),
    ]
    return (
        wt.Catalog(str(tmp_path)).create_table("db.t", pa.schema(fields), primary_key=["n"]).schema
    )


def rows() -> pa.RecordBatch:
    moments = [None, *(START + dt.timedelta(hours=h) for h in HOURS)]
    return pa.record_batch(
        {
            "n": list(range(len(moments))),
            "zoned": pa.array(moments, pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC")),
            "wall": pa.array(moments, pa.timestamp("ms")),
        }
    )


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("column", ["zoned", "wall"])
def test_what_any_zone_keeps_is_kept(
    schema: TableSchema, column: str, condition: str, rng: random.Random
) -> None:
    """A zone shifts the moments of the text by as much as 18 hours."""
    batch = rows()
    later = rng.choice([0, 6, 30])
    moments = {"a": START, "b": START + dt.timedelta(hours=later)}
    given = parse(condition.format(c=column, **moments), schema)
    kept = set(loosened(given).rows_of(batch)["n"].to_pylist())
    for shift in range(-18, 19, 6):
        shifted = {name: at + dt.timedelta(hours=shift) for name, at in moments.items()}
        there = parse(condition.format(c=column, **shifted), schema).rows_of(batch)
        assert set(there["n"].to_pylist()) <= kept, shift


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("zoned >= '2024-01-03'", "zoned >= '2024-01-01'"),
        ("wall < '2024-01-01'", "wall < '2024-01-03'"),
    ],
)
def test_what_is_far_away_is_left_out(schema: TableSchema, text: str, bound: str) -> None:
    assert loosened(parse(text, schema)).tree == parse(bound, schema).tree


def test_what_has_no_zone_stays_as_it_is(schema: TableSchema) -> None:
    given = parse("n IN (1, 2) OR NOT n > 5 AND zoned IS NULL", schema)
    assert loosened(given).tree == given.tree


def test_what_is_only_computed_leaves_out_nothing(schema: TableSchema) -> None:
    computed = pc.field("n") + 1
    given = parse((computed > 5) & ~(computed > 7) & (pc.field("n") < 9), schema)
    kept = loosened(given).rows_of(rows())["n"].to_pylist()
    assert kept == list(range(9))
