"""Records that a real Debezium wrote of a real PostgreSQL (tests/fixtures/debezium) give the rows of that source."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timezone
from decimal import Decimal
from hashlib import md5, sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable_cdc import DebeziumResult, apply_debezium

ROOT = Path(__file__).resolve().parents[3]
BIG = "".join(md5(str(i).encode()).hexdigest() for i in range(1, 71))
T = {"id": "INT", "name": "STRING", "big": "STRING", "extra": "INT"}


def records_of(file: str, table: str) -> pa.Table:
    lines = (ROOT / f"tests/fixtures/debezium/{file}.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    chosen = [each for each in records if each["topic"] == f"shop.public.{table}"]
    return pa.table(
        {
            "key": pa.array([each["key"] for each in chosen], pa.string()),
            "value": pa.array([each["value"] for each in chosen], pa.string()),
        }
    )


def applied(catalog: wt.Catalog, name: str, records: pa.Table) -> DebeziumResult:
    result = apply_debezium(catalog, name, records, commit_user="c", key=["id"])
    assert result.bad == 0
    return result


def rows_of(catalog: wt.Catalog, name: str) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in catalog.table(name).scan().to_arrow().to_pylist()}


@pytest.fixture
def catalog(tmp_path: Path) -> wt.Catalog:
    return wt.Catalog(str(tmp_path / "wh"))


def place_of(records: pa.Table, text: str) -> int:
    """The first record whose value has a text."""
    values = records["value"].to_pylist()
    return next(at for at, value in enumerate(values) if value and text in value)


@pytest.mark.parametrize("file", ["schema", "plain"])
@pytest.mark.parametrize("cut", [1, 3, 4])
def test_a_big_value_follows_its_row_to_another_key(
    catalog: wt.Catalog, file: str, cut: int
) -> None:
    """Its update, and the change of its key, which is a delete, a tombstone and an insert, do not carry it."""
    if file == "plain":
        catalog.create_table("db.t", T, primary_key=["id"])
    records = records_of(file, "t")
    moved = place_of(records, '"id":30')
    applied(catalog, "db.t", records.slice(0, cut))
    applied(catalog, "db.t", records.slice(cut, moved + 1 - cut))
    rows = rows_of(catalog, "db.t")
    assert sorted(rows) == [1, 2, 30]
    assert (rows[30]["name"], rows[30]["big"]) == ("x", BIG)
    applied(catalog, "db.t", records.slice(moved + 1))
    assert rows_of(catalog, "db.t") == {9: {"id": 9, "name": "nine", "big": "b", "extra": 7}}


@pytest.mark.parametrize("file", ["schema", "plain"])
def test_an_insert_in_the_batch_behind_its_delete_has_the_values_of_the_old_key(
    catalog: wt.Catalog, file: str
) -> None:
    """The snapshot before the delete has them, as the delete was the only change of its key in its batch."""
    if file == "plain":
        catalog.create_table("db.t", T, primary_key=["id"])
    records = records_of(file, "t")
    gone, moved = place_of(records, '"op":"d"'), place_of(records, '"id":30')
    applied(catalog, "db.t", records.slice(0, gone))
    applied(catalog, "db.t", records.slice(gone, moved - gone))
    assert sorted(rows_of(catalog, "db.t")) == [1, 2]
    applied(catalog, "db.t", records.slice(moved, 1))
    rows = rows_of(catalog, "db.t")
    assert sorted(rows) == [1, 2, 30]
    assert rows[30]["big"] == BIG


def test_an_insert_whose_old_row_no_snapshot_has_is_parked(catalog: wt.Catalog) -> None:
    """Its delete was in the batch that also changed the row, so an older snapshot may have an older value."""
    records = records_of("schema", "t")
    moved = place_of(records, '"id":30')
    applied(catalog, "db.t", records.slice(0, moved))
    result = apply_debezium(catalog, "db.t", records.slice(moved, 1), commit_user="c")
    assert result.bad == 1
    assert sorted(rows_of(catalog, "db.t")) == [1, 2]


@pytest.mark.parametrize("file", ["schema", "plain"])
def test_replica_identity_full(catalog: wt.Catalog, file: str) -> None:
    if file == "plain":
        catalog.create_table("db.f", T, primary_key=["id"])
    applied(catalog, "db.f", records_of(file, "f"))
    (row,) = rows_of(catalog, "db.f").values()
    assert (row["id"], row["name"], row["big"]) == (30, "x", BIG)


EXPECTED = {
    "i2": 1,
    "i4": 2,
    "i8": 9007199254740993,
    "f4": 1.5,
    "f8": 0.1,
    "b": True,
    "n10": Decimal("12.30"),
    "n": "1" + "0" * 30,
    "n50": "123456789012345678901234567890123456789012.345",
    "c5": "ab   ",
    "s": 'héllo " \\ q',
    "j": '{"a": 1}',
    "jb": '{"a": 1}',
    "u": "11111111-2222-3333-4444-555555555555",
    "d": date(2026, 1, 2),
    "t3": time(3, 4, 5, 678000),
    "t6": "03:04:05.678901",
    "tz": "01:04:05Z",
    "ts3": datetime(2026, 1, 2, 3, 4, 5, 679000),
    "ts": datetime(2026, 1, 2, 3, 4, 5, 678901),
    "tstz": datetime(2026, 1, 2, 1, 4, 5, 678901, timezone.utc),
    "iv": 93_600_000_000,
    "by": b"\x00\xff",
    "bt": True,
    "b12": "000000000101",
    "ia": [1, 2, None],
    "ta": ["a", None, "q"],
    "ba": [9007199254740993],
    "ua": ["11111111-2222-3333-4444-555555555555"],
    "fa": [0.5, 1e300],
    "na": [Decimal("1.50")],
    "m": "12.50",
    "ip": "10.0.0.1",
    "h": "y",
}
# With decimals as texts, bytes as hex, and times of milliseconds.
TEXTS = {
    "n10": "12.30",
    "t6": time(3, 4, 5, 678000),
    "ts": datetime(2026, 1, 2, 3, 4, 5, 678000),
    "by": "00ff",
    "na": ["1.50"],
}
BIG_VALUES = {
    "s": BIG,
    "by": b"".join(sha256(str(i).encode()).digest() for i in range(1, 71)),
    "ia": [i * 1000 for i in range(1, 601)],
    "ta": [md5(str(i).encode()).hexdigest() for i in range(1, 61)],
    "ba": [i * 10**12 for i in range(1, 301)],
    "n": "".join(str(i % 10) for i in range(1, 121)),
    "h": "z",
}


@pytest.mark.parametrize(("file", "texts"), [("schema", {}), ("text", TEXTS)])
@pytest.mark.parametrize("is_cut", [False, True])
def test_values_of_each_type_are_those_of_the_source(
    catalog: wt.Catalog, file: str, texts: dict[str, Any], is_cut: bool
) -> None:
    records = records_of(file, "v")
    step = 1 if is_cut else len(records)
    for at in range(0, len(records), step):
        applied(catalog, "db.v", records.slice(at, step))
    rows = rows_of(catalog, "db.v")
    expected = {**EXPECTED, **texts}
    assert {name: rows[1][name] for name in expected} == expected
    big = {**BIG_VALUES, "by": BIG_VALUES["by"].hex()} if texts else BIG_VALUES  # type: ignore[attr-defined]
    assert {name: rows[2][name] for name in big} == big
    assert json.loads(rows[2]["jb"]) == [md5(str(i).encode()).hexdigest() for i in range(1, 71)]
    uuids = [md5(str(i).encode()).hexdigest() for i in range(1, 111)]
    assert [text.replace("-", "") for text in rows[2]["ua"]] == uuids
