"""Ranges in SQL and over Arrow hold the same keys, and together each key once."""

from __future__ import annotations

import random
import uuid
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cdc.source.conftest import Database
from widetable import InvalidError
from widetable_cdc.source.chunk_range import LIMITS, ChunkRange, KeyKind, kind_of, numbers_of
from widetable_cdc.values.source_type import SourceType

_TYPES = {
    KeyKind.INTEGER: ("int8", pa.int64()),
    KeyKind.UUID: ("uuid", pa.large_string()),
    KeyKind.DATE: ("date", pa.date32()),
    KeyKind.TIMESTAMP: ("timestamp", pa.timestamp("us")),
    KeyKind.TIMESTAMPTZ: ("timestamptz", pa.timestamp("us", tz="UTC")),
}
# Keys in SQL, from hostile places of each type.
_KEYS = {
    KeyKind.INTEGER: "SELECT x FROM unnest(ARRAY[-9223372036854775808, -1, 0, 1, 9223372036854775807]) AS x",
    KeyKind.UUID: "SELECT x::uuid FROM unnest(ARRAY["
    "'00000000-0000-0000-0000-000000000000', '7fffffff-ffff-ffff-ffff-ffffffffffff', "
    "'80000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff']) AS x",
    KeyKind.DATE: "SELECT x::date FROM unnest(ARRAY['0001-01-01', '1969-12-31', '2026-02-28', '9999-12-31']) AS x",
    KeyKind.TIMESTAMP: "SELECT x::timestamp FROM unnest(ARRAY["
    "'0001-01-01', '1969-12-31 23:59:59.999999', '9999-12-31 23:59:59.999999']) AS x",
    KeyKind.TIMESTAMPTZ: "SELECT x::timestamptz FROM unnest(ARRAY["
    "'0001-01-02 00:00+09', '1970-01-01 08:59:59.999999+09', '9999-12-31 23:00+00']) AS x",
}


def _arrow(values: list[Any], kind: KeyKind) -> pa.Array:
    return pa.array([str(v) if kind is KeyKind.UUID else v for v in values], _TYPES[kind][1])


@pytest.mark.parametrize("kind", KeyKind)
def test_the_server_and_arrow_agree_on_every_range(
    kind: KeyKind, database: Database, rng: random.Random
) -> None:
    name = _TYPES[kind][0]
    database.execute(
        f'CREATE TABLE t ("k""ey" {name} PRIMARY KEY)',
        f"INSERT INTO t {_KEYS[kind]}",
        "INSERT INTO t SELECT gen_random_uuid() FROM generate_series(1, 40)"
        if kind is KeyKind.UUID
        else f"INSERT INTO t SELECT ({_random_key(kind)})::{name} FROM generate_series(1, 40) g "
        "ON CONFLICT DO NOTHING",
    )
    database.execute(f"ALTER DATABASE {database.name} SET timezone = 'UTC'")
    values = [row[0] for row in database.execute('SELECT "k""ey" FROM t ORDER BY 1')]
    numbers = numbers_of(_arrow(values, kind), kind)
    assert (np.diff(numbers.astype(object)) > 0).all()
    low, high = LIMITS[kind]
    bounds = sorted({rng.randint(low, high) for _ in range(5)} | {int(numbers[9]), low, high})
    total = 0
    for begin, end in pairwise([None, *bounds, None]):
        key_range = ChunkRange('k"ey', kind, begin, end)
        found = database.execute(f'SELECT "k""ey" FROM t WHERE {key_range.predicate} ORDER BY 1')
        mask = key_range.holds(numbers)
        assert [row[0] for row in found] == [v for v, m in zip(values, mask, strict=True) if m]
        total += len(found)
    assert total == len(values)


def _random_key(kind: KeyKind) -> str:
    if kind is KeyKind.INTEGER:
        return "((random() - 0.5) * 9e18)::int8"
    moment = "timestamp '0002-01-01' + random() * 9990 * 365 * interval '1 day'"
    return f"({moment}) AT TIME ZONE 'UTC'" if kind is KeyKind.TIMESTAMPTZ else moment


@given(st.lists(st.uuids(), min_size=1))
def test_uuids_are_cut_by_their_upper_bits(ids: list[uuid.UUID]) -> None:
    texts = [str(each).upper() if each.int % 2 else str(each) for each in ids]
    for kind in (pa.string(), pa.large_string()):
        numbers = numbers_of(pa.array(["", *texts], kind)[1:], KeyKind.UUID)
        assert numbers.tolist() == [(each.int >> 64) - 2**63 for each in ids]


def test_infinite_keys_lie_in_the_open_ranges(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (d date, m timestamp)",
        "INSERT INTO t VALUES ('infinity', 'infinity'), ('-infinity', '-infinity'), "
        "('0044-03-15 BC', '0044-03-15 BC'), ('12026-01-01', '12026-01-01')",
    )
    for column, kind in (("d", KeyKind.DATE), ("m", KeyKind.TIMESTAMP)):
        low, high = LIMITS[kind]
        counts = [
            database.execute(f"SELECT count(*) FROM t WHERE {each.predicate}")[0][0]
            for each in (
                ChunkRange(column, kind, None, low),
                ChunkRange(column, kind, low, high),
                ChunkRange(column, kind, high, None),
            )
        ]
        assert counts == [2, 0, 2]


def test_narrower_columns_of_targets_have_the_same_numbers() -> None:
    assert numbers_of(pa.array([-3, 7], pa.int16()), KeyKind.INTEGER).tolist() == [-3, 7]
    millis = pa.array([1_500, -1], pa.timestamp("ms"))
    assert numbers_of(millis, KeyKind.TIMESTAMP).tolist() == [1_500_000, -1_000]


def test_a_whole_table_is_a_range_too() -> None:
    assert ChunkRange().predicate == "true"
    assert ChunkRange("id", KeyKind.INTEGER).predicate == "true"


def test_types_whose_order_is_not_ours_have_no_kind() -> None:
    assert kind_of(SourceType(23, "int4")) is KeyKind.INTEGER
    assert kind_of(SourceType(25, "text")) is None
    assert kind_of(SourceType(1700, "numeric")) is None


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        (pa.array([1, None]), KeyKind.INTEGER),
        (pa.array(["a"]), KeyKind.INTEGER),
        (pa.array(["7f"]), KeyKind.UUID),
        (pa.array([1]), KeyKind.UUID),
        (pa.array([1]), KeyKind.DATE),
    ],
)
def test_other_columns_are_refused(keys: pa.Array, kind: KeyKind) -> None:
    with pytest.raises(InvalidError, match="keys of a chunk"):
        numbers_of(keys, kind)
