"""Ranges by a sample: about as many rows in each, and every row in one, for the keys that tables have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cdc.source.conftest import Database
from widetable_cdc.source.chunk_range import KeyKind
from widetable_cdc.source.key_bounds import bounds_of, key_ranges
from widetable_cdc.source.source_table import SourceColumn, SourceTable
from widetable_cdc.values.source_type import SourceType

_ROWS = 20_000


def _table(database: Database, type_name: str) -> SourceTable:
    ((oid, type_oid),) = database.execute(
        f"SELECT 't'::regclass::oid::int8, '{type_name}'::regtype::oid::int8"
    )
    column = SourceColumn("k", 1, SourceType(type_oid, type_name), False)
    return SourceTable(oid, "public", "t", oid, "d", ("k",), (column,))


@pytest.mark.parametrize(
    ("type_name", "key"),
    [
        # lumps at both ends of a wide gap
        ("int8", "CASE WHEN g % 2 = 0 THEN g ELSE g - 5000000000000 END"),
        ("int4", "-g"),
        ("int2", "(g % 20000 - 10000)"),
        ("uuid", "md5(g::text)::uuid"),
        ("date", "date '0200-01-01' + g * 100"),
        ("timestamp", "timestamp '1970-01-01' + (g - 10000) * interval '1.000001 second'"),
        ("timestamptz", "timestamptz '2026-01-01 00:00+00' + g * interval '1 ms'"),
    ],
)
@pytest.mark.parametrize("partitions", [0, 3])
def test_ranges_hold_every_row_once_and_about_as_many(
    type_name: str, key: str, partitions: int, database: Database
) -> None:
    by_hash = "PARTITION BY HASH (k)" if partitions else ""
    database.execute(
        f"CREATE TABLE t (k {type_name} PRIMARY KEY) {by_hash}",
        *(
            f"CREATE TABLE t{n} PARTITION OF t FOR VALUES WITH (MODULUS {partitions}, REMAINDER {n})"
            for n in range(partitions)
        ),
        f"INSERT INTO t SELECT ({key})::{type_name} FROM generate_series(1, {_ROWS}) AS g",
        f"ALTER DATABASE {database.name} SET timezone = 'UTC'",
    )
    ranges = key_ranges(database.dsn, "shop", _table(database, type_name), 2500)
    assert len(ranges) == 8
    counts = [
        database.execute(f"SELECT count(*) FROM t WHERE {each.predicate}")[0][0] for each in ranges
    ]
    assert sum(counts) == _ROWS
    assert max(counts) < 5000


def test_infinite_keys_do_not_harm_the_sample(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (k date PRIMARY KEY)",
        "INSERT INTO t SELECT date '2026-01-01' + g FROM generate_series(1, 1000) AS g",
        "INSERT INTO t VALUES ('infinity'), ('-infinity'), ('4000-01-01 BC')",
    )
    ranges = key_ranges(database.dsn, "shop", _table(database, "date"), 100)
    counts = [
        database.execute(f"SELECT count(*) FROM t WHERE {each.predicate}")[0][0] for each in ranges
    ]
    assert len(ranges) > 5
    assert sum(counts) == 1003


def test_other_keys_and_small_tables_are_one_range(database: Database) -> None:
    database.execute("CREATE TABLE t (k int PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    (whole,) = key_ranges(database.dsn, "shop", _table(database, "int4"), 100)
    assert (whole.kind, whole.low, whole.high) == (KeyKind.INTEGER, None, None)
    database.execute("DROP TABLE t", "CREATE TABLE t (k text PRIMARY KEY)")
    (whole,) = key_ranges(database.dsn, "shop", _table(database, "text"), 1)
    assert whole.kind is None


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50),
    st.floats(0, 1e12),
    st.integers(1, 10**9),
)
def test_bounds_ascend_and_lie_within_the_sample(
    sample: list[int], count: float, rows: int
) -> None:
    bounds = bounds_of(np.array(sample, np.int64), count, rows).tolist()
    assert bounds == sorted(set(bounds))
    assert set(bounds) <= set(sample) - {min(sample, default=0)}
    assert len(bounds) < max(1, count / rows + 1)


def test_a_key_that_fills_most_of_the_table_is_one_range() -> None:
    """The first column of a composite key repeats."""
    sample = np.array([5] * 90 + [7] * 10, np.int64)
    assert bounds_of(sample, 100.0, 10).tolist() == [7]
