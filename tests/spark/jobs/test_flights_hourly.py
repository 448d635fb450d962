"""What the demo's second layer makes of changes, by Spark: the aggregate of the rows that are left."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from examples.flights.audit import audit_hourly, expected_hourly
from examples.flights.carrier_hourly import READ_COLUMNS, ROW_KIND, hourly_rows
from examples.flights.wide_table import TABLE_SCHEMA

Row = dict[str, Any]
Key = tuple[str, str, int]


def random_row(rng: random.Random, key: Key) -> Row:
    """A row of the wide table; few hours, so that flights move between keys and keys become empty."""
    row: Row = dict.fromkeys(TABLE_SCHEMA.names)
    row["month"], row["carrier"], row["flight"] = key
    row["sched_dep_time"] = rng.choice([None, 815, 859, 900])
    row["dep_seq"] = rng.choice([None, 7])
    row["dep_time"] = rng.choice([None, 901]) if row["dep_seq"] else None
    row["arr_delay"] = rng.choice([None, -3, 0, 40])
    return row


def table_of(rows: list[Row], schema: pa.Schema) -> pa.Table:
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    return pa.Table.from_pylist(rows, schema=nullable)


def test_random_changes_give_the_aggregate_of_the_last_rows(
    spark: SparkSession, rng: random.Random
) -> None:
    live: dict[Key, Row] = {}
    changes: list[Row] = []
    for _ in range(200):
        key = ("2013-01", rng.choice("ABCDEF"), rng.randrange(2))
        before = live.pop(key, None)
        if before is not None:
            is_gone = rng.random() < 0.4
            changes.append({**before, ROW_KIND: "-D" if is_gone else "-U"})
            if is_gone:
                continue
        live[key] = random_row(rng, key)
        changes.append({**live[key], ROW_KIND: "+U" if before else "+I"})
    told = table_of(changes, TABLE_SCHEMA.append(pa.field(ROW_KIND, pa.string())))
    found = hourly_rows(spark.createDataFrame(told.select([*READ_COLUMNS, ROW_KIND]))).toArrow()
    is_gone_now = [kind == "-D" for kind in found[ROW_KIND].to_pylist()]
    assert found.filter(pa.array(is_gone_now))["flights"].to_pylist() == [0] * sum(is_gone_now)
    left = found.filter(pa.array([not gone for gone in is_gone_now])).drop_columns([ROW_KIND])
    expected = expected_hourly(table_of(list(live.values()), TABLE_SCHEMA))
    audit = audit_hourly(left, expected)
    assert audit.difference_count == 0, audit.first_differences
    assert audit.row_count == expected.num_rows
