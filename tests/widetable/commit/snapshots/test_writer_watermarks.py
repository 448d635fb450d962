"""The watermark of each writer, carried from snapshot to snapshot, also past those of other clients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from widetable.commit.snapshots.writer_watermarks import (
    MANY_WRITERS,
    known_watermarks,
    next_watermarks,
    writer_watermarks,
)


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    catalog = wt.Catalog(str(tmp_path))
    return catalog.create_table("db.t", {"id": "BIGINT", "v": "BIGINT"}, primary_key=["id"])


def reached(table: wt.Table) -> dict[str, int]:
    committer = table._committer
    return writer_watermarks(committer.snapshots.latest(), committer.last_commits.load)


def edit(table: wt.Table, id: int, **changes: Any) -> None:
    """Make a snapshot one of a client that knows none of our properties."""
    path = Path(table.path) / "snapshot" / f"snapshot-{id}"
    body = json.loads(path.read_text())
    body.pop("properties")
    path.write_text(json.dumps({**body, "writerVersion": "theirs", **changes}))


def test_each_writer_has_the_highest_watermark_that_it_committed(table: wt.Table) -> None:
    table.write([{"id": 1, "v": 1}], "clicks", 1, watermark=100)
    table.write([{"id": 1, "v": 2}], "orders", 1, watermark=50)
    table.write([{"id": 2, "v": 2}], "clicks", 2, watermark=90)
    table.write([{"id": 3, "v": 3}], watermark=70)
    table.write([{"id": 4, "v": 3}], watermark=60)
    table.write([{"id": 5, "v": 3}])
    assert reached(table) == {"clicks": 100, "orders": 50, "": 70}
    assert table.snapshots()[-1].watermark == 100


def test_a_table_without_watermarks_records_none(table: wt.Table) -> None:
    table.write([{"id": 1, "v": 1}], "clicks", 1)
    assert reached(table) == {}
    assert "widetable.watermarks" not in table.snapshots()[-1].properties


def test_a_watermark_is_committed_without_rows_and_once(table: wt.Table) -> None:
    table.write([{"id": 1, "v": 1}], "clicks", 1, watermark=100)
    done = table.write([], "clicks", 2, watermark=200)
    assert (done.committed, done.snapshot_id) == (True, 2)
    assert not table.write([], "clicks", 2, watermark=200).committed
    assert reached(table) == {"clicks": 200}
    assert table.scan().to_arrow().num_rows == 1


def test_compactions_and_rollbacks_keep_them(table: wt.Table) -> None:
    table.write([{"id": 1, "v": 1}], "clicks", 1, watermark=100)
    table.write([{"id": 1, "v": 2}], "clicks", 2, watermark=200)
    table.compact(full=True)
    table.rollback(snapshot_id=1)
    assert reached(table) == {"clicks": 200}


def test_snapshots_of_other_clients_are_passed(tmp_path: Path, table: wt.Table) -> None:
    table.write([{"id": 1, "v": 1}], "clicks", 1, watermark=100)
    table.write([{"id": 2, "v": 1}], "theirs", 7, watermark=300)
    edit(table, 2)
    table.write([{"id": 3, "v": 1}], "theirs", 8)
    edit(table, 3, watermark=300)
    fresh = wt.Table.open(table.path)
    assert reached(fresh) == {"clicks": 100, "theirs": 300}
    fresh.write([{"id": 4, "v": 1}], "clicks", 2, watermark=150)
    assert reached(fresh) == {"clicks": 150, "theirs": 300}


def test_of_many_writers_those_stay_that_the_table_remembers() -> None:
    before = {f"w{number}": number for number in range(MANY_WRITERS)}
    assert json.loads(next_watermarks(before, "w1", 5, [])["widetable.watermarks"])["w1"] == 5
    kept = json.loads(next_watermarks(before, "new", 7, ["w3"])["widetable.watermarks"])
    assert kept == {"w3": 3, "new": 7}


@pytest.mark.parametrize("text", ["[]", "{", '{"a": "b"}', '{"a": true}'])
def test_a_damaged_property_is_named(table: wt.Table, text: str) -> None:
    table.write([{"id": 1, "v": 1}], "clicks", 1, watermark=100)
    path = Path(table.path) / "snapshot" / "snapshot-1"
    body = json.loads(path.read_text())
    body["properties"]["widetable.watermarks"] = text
    path.write_text(json.dumps(body))
    with pytest.raises(wt.DamagedError, match=r"property 'widetable\.watermarks' of snapshot 1"):
        reached(wt.Table.open(table.path))


def test_what_other_clients_said_before_an_expired_snapshot_is_not_known(table: wt.Table) -> None:
    for number, millis in enumerate((100, 400, 500), 1):
        table.write([{"id": number, "v": 1}], f"w{number}", number, watermark=millis)
    for id in (1, 2, 3):
        edit(table, id)
    store = wt.Table.open(table.path)._committer
    load = store.last_commits.load
    newest = store.snapshots.latest()
    assert known_watermarks(newest, load) == ({"w1": 100, "w2": 400, "w3": 500}, True)
    (Path(table.path) / "snapshot" / "snapshot-1").unlink()
    fresh = wt.Table.open(table.path)._committer
    reached, are_all = known_watermarks(fresh.snapshots.latest(), fresh.last_commits.load)
    assert (reached, are_all) == ({"w2": 400, "w3": 500}, False)
