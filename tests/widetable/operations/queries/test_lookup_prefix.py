"""Lookups by leading key columns: the rows that a scan has of them, in the order of the keys that were asked."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.plain_rows import plain, python_rows
from widetable.operations.queries import lookup_view

STRATEGY = "widetable.lookup-strategy"
# Kinds of key columns, and values that are hard to tell apart or lie at the ends of their order.
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 2, 2**63 - 1]),
    "int": (pa.int32(), [-(2**31), -1, 0, 2**31 - 1]),
    "text": (pa.string(), ["", "\0", "\0\0", "\0a", "a", "a\0", "aa", "\U0010ffff"]),
    "bytes": (pa.binary(), [b"", b"\0", b"\xff", b"\xff\xff", b"\xff" * 9]),
    "bool": (pa.bool_(), [False, True]),
    "double": (pa.float64(), [float("-inf"), -0.0, 0.0, 1.5, float("inf"), float("nan")]),
}


@pytest.fixture(autouse=True)
def own_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "caches"))


def create(
    folder: Path, kinds: Sequence[str], prefix: int, strategy: str, *, partitioned: bool
) -> wt.Table:
    fields = [pa.field(f"k{i}", KINDS[kind][0], False) for i, kind in enumerate(kinds)]
    names = [field.name for field in fields]
    parts = [pa.field("p", pa.int32(), False)] if partitioned else []
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema([*parts, *fields, pa.field("a", pa.int64()), pa.field("b", pa.int64())]),
        primary_key=[*(part.name for part in parts), *names],
        partition_by=[part.name for part in parts],
        options={
            "bucket": "2",
            "bucket-key": ",".join(names[: max(prefix, 1)]),
            "merge-engine": "partial-update",
            "partial-update.remove-record-on-delete": "true",
            "widetable.fsync": "false",
            "num-sorted-run.compaction-trigger": "3",
            "target-file-size": "2 kb",
            STRATEGY: strategy,
        },
    )


def text(row: Mapping[str, Any], names: Iterable[str]) -> str:
    """NaN, and the two zeros, are told apart and equal themselves."""
    return repr([plain(row[name]) for name in names])


def drawn(
    rng: random.Random, choices: Mapping[str, Sequence[Any]], names: Sequence[str], count: int
) -> list[dict[str, Any]]:
    return [{name: rng.choice(choices[name]) for name in names} for _ in range(count)]


@pytest.mark.parametrize("strategy", ["scan", "lookup"])
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("piece_bytes", [1, 64 << 20])
def test_all_rows_of_leading_columns_are_found(
    tmp_path: Path,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    partitioned: bool,
    piece_bytes: int,
) -> None:
    monkeypatch.setattr("widetable.format.data_file_writer.ROW_GROUP_ROWS", 5)
    monkeypatch.setattr(lookup_view, "_PIECE_BYTES", piece_bytes)
    for round in range(4):
        kinds = [rng.choice(list(KINDS)) for _ in range(rng.randint(2, 3))]
        width = rng.randint(1, len(kinds))
        table = create(tmp_path / f"{round}", kinds, width, strategy, partitioned=partitioned)
        key, arrow = table.schema.primary_keys, table.arrow_schema
        choices = {f"k{i}": KINDS[kind][1] for i, kind in enumerate(kinds)} | {"p": [1, 2]}
        for commit in range(5):
            rows = enumerate(drawn(rng, choices, key, 25), 100 * commit)
            added = [{**row, rng.choice("ab"): number} for number, row in rows]
            table.write(pa.Table.from_pylist(added, arrow))
            gone = pa.Table.from_pylist(drawn(rng, choices, key, 3), arrow)
            table.write(gone.append_column("_row_kind", pa.array(["-D"] * 3)))
        names = [*table.schema.partition_keys, *(f"k{i}" for i in range(width))]
        asked = [*drawn(rng, choices, names, 30), dict.fromkeys(names)]
        check(table, names, asked)


def check(table: wt.Table, names: Sequence[str], asked: Sequence[Mapping[str, Any]]) -> None:
    """Against a scan of everything, which gives the rows of a bucket in key order."""
    columns = table.arrow_schema.names
    fields = [table.arrow_schema.field(name).with_nullable(True) for name in names]
    given = pa.Table.from_pylist(list(asked), pa.schema(fields))
    scanned = python_rows(table.scan().to_arrow())
    expected = [
        (number, text(row, columns))
        for number, one in enumerate(asked)
        for row in scanned
        if text(row, names) == text(one, names)
    ]
    with table.lookup_session() as session:
        for found in (table.lookup_prefix(given), session.lookup_prefix(given)):
            found.validate(full=True)
            numbers = found["_key_number"].to_pylist()
            rows = python_rows(found.drop_columns(["_key_number"]))
            assert [(n, text(r, columns)) for n, r in zip(numbers, rows, strict=True)] == expected


@pytest.fixture
def orders(tmp_path: Path) -> wt.Table:
    """Users 1 and 2 with two orders each, in buckets by user."""
    schema = pa.schema([("u", pa.int64()), ("o", pa.int32()), ("amount", pa.float64())])
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.orders", schema, primary_key=["u", "o"], options={"bucket": "4", "bucket-key": "u"}
    )
    table.write(pa.table([[1, 2, 1, 2], [2, 1, 1, 2], [12.0, 21.0, 11.0, 22.0]], schema=schema))
    return table


def test_a_key_that_is_asked_twice_gives_its_rows_twice(orders: wt.Table) -> None:
    found = orders.lookup_prefix([2, 9, 1, 2], ["amount"])
    assert found.to_pydict() == {
        "_key_number": [0, 0, 2, 2, 3, 3],
        "amount": [21.0, 22.0, 11.0, 12.0, 21.0, 22.0],
    }
    assert orders.lookup_prefix({"u": [1], "o": [2]}, ["amount"])["amount"].to_pylist() == [12.0]
    assert orders.lookup_prefix([]).num_rows == 0
    assert orders.lookup_prefix([9], []).column_names == ["_key_number"]


def test_more_rows_of_a_key_than_the_limit_are_an_error(orders: wt.Table) -> None:
    assert orders.lookup_prefix([1], limit_per_key=2).num_rows == 2
    with pytest.raises(wt.InvalidError, match=r"2 rows of the key \{'u': 2\}"):
        orders.lookup_prefix([2], limit_per_key=1)
    for wrong in (0, -1, 1.5, True, "1"):
        with pytest.raises(wt.InvalidError, match="limit_per_key"):
            orders.lookup_prefix([1], limit_per_key=wrong)  # type: ignore[arg-type]


def test_an_older_snapshot_has_its_own_rows(orders: wt.Table) -> None:
    first = orders.snapshots()[-1].id
    orders.write(pa.table({"u": [1], "o": pa.array([7], pa.int32()), "amount": [17.0]}))
    assert orders.lookup_prefix([1])["o"].to_pylist() == [1, 2, 7]
    assert orders.lookup_prefix([1], snapshot_id=first)["o"].to_pylist() == [1, 2]


def test_wrong_keys_are_refused(orders: wt.Table, tmp_path: Path) -> None:
    with pytest.raises(wt.InvalidError, match=r"'u'.*without it"):
        orders.lookup_prefix({"o": [1]})
    with pytest.raises(wt.InvalidError, match="'amount'"):
        orders.lookup_prefix({"u": [1], "amount": [1.0]})
    with pytest.raises(wt.InvalidError, match="'u'"):
        orders.lookup_prefix(["one"])
    schema = pa.schema([("u", pa.int64()), ("o", pa.int32()), ("amount", pa.float64())])
    other = wt.Catalog(str(tmp_path)).create_table("db.other", schema, primary_key=["u", "o"])
    with pytest.raises(wt.UnsupportedError, match=r"'o'.*bucket key"):
        other.lookup_prefix([1])
