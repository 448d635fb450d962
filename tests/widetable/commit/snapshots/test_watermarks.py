"""Watermarks of tables into which clients commit that write none, or Java's smallest long."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import widetable as wt
from tests.support.tables.dated_snapshots import DatedTable, dated_table
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.snapshots.watermarks import first_at_watermark
from widetable.format.snapshot import Snapshot
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

NONE = -(2**63)
WATERMARKS = {"tag.automatic-creation": "watermark", "sink.watermark-time-zone": "UTC"}
DAY = datetime(2024, 3, 9)


def at_hour(day: int, hour: int) -> int:
    return int(datetime(2024, 3, day, hour, tzinfo=timezone.utc).timestamp() * 1000)


def says(table: DatedTable, watermark: int | None) -> None:
    """One more snapshot, of another client."""
    table.add(DAY, watermark=NONE)
    path = Path(table.table.path, f"snapshot/snapshot-{table.snapshots}")
    body = json.loads(path.read_text())
    body.pop("watermark")
    body["writerVersion"] = "paimon-rust"
    path.write_text(json.dumps(body | ({} if watermark is None else {"watermark": watermark})))


@pytest.mark.parametrize(
    ("watermarks", "expected"),
    [
        ([10, None, 20, None, 30, None], {5: 1, 10: 1, 11: 3, 20: 3, 30: 5, 31: None}),
        ([None, 10, None, None, 20], {10: 2, 11: 5, 20: 5, 21: None}),
        ([NONE, 10, NONE, NONE, 20, NONE], {-5: 2, 10: 2, 11: 5, 21: None}),
        ([None, NONE], {0: None, NONE: None}),
        ([None, None, None, 7], {7: 4}),
    ],
)
def test_a_scan_passes_snapshots_without_a_watermark(
    tmp_path: Path, watermarks: list[int | None], expected: dict[int, int | None]
) -> None:
    table = dated_table(tmp_path, {})
    for watermark in watermarks:
        says(table, watermark)
    for asked, id in expected.items():
        if id is None:
            with pytest.raises(wt.NotFoundError, match="no snapshot with a watermark"):
                table.table.scan(watermark=asked)
        else:
            assert table.table.scan(watermark=asked).snapshot_id == id


@given(st.lists(st.none() | st.integers(0, 5), max_size=12), st.integers(-1, 40))
def test_the_search_finds_the_first_that_says_it(rises: list[int | None], watermark: int) -> None:
    said, now = dict[int, int | None](), 0
    for id, rise in enumerate(rises, 3):
        now += rise or 0
        said[id] = None if rise is None else now

    def load(id: int) -> Snapshot:
        return Snapshot(
            id=id,
            schema_id=0,
            base_manifest_list="",
            delta_manifest_list="",
            commit_user="",
            commit_identifier=0,
            commit_kind="APPEND",
            time_millis=0,
            total_record_count=0,
            delta_record_count=0,
            watermark=said[id],
        )

    expected = next((i for i, one in said.items() if one is not None and one >= watermark), None)
    assert first_at_watermark(3, 2 + len(said), watermark, load) == expected


@pytest.mark.parametrize("none", [None, NONE])
def test_tags_by_watermark_are_made_before_snapshots_expire(
    tmp_path: Path, none: int | None
) -> None:
    table = dated_table(tmp_path, WATERMARKS)
    for watermark in (none, at_hour(9, 10), none, at_hour(10, 1), none, none):
        says(table, watermark)
    table.table.expire_snapshots(1, 1)
    assert {name: tag.id for name, tag in table.table.tags().items()} == {
        "2024-03-08": 2,
        "2024-03-09": 4,
    }


def test_a_watermark_at_the_end_of_all_times_keeps_no_tag_away(tmp_path: Path) -> None:
    table = dated_table(tmp_path, WATERMARKS)
    for watermark in (at_hour(9, 10), 2**63 - 1):
        says(table, watermark)
    table.table.maintain(once=True)
    assert list(table.table.tags()) == ["2024-03-08"]


@pytest.mark.parametrize("none", [None, NONE])
def test_our_commits_carry_the_watermark_over_snapshots_without_one(
    tmp_path: Path, none: int | None
) -> None:
    table = dated_table(tmp_path, {})
    for watermark in (30, none, none):
        says(table, watermark)
    table.table.write({"k": [9], "v": [9]})
    store = SnapshotStore(LocalFileIO(), TablePaths(table.table.path))
    assert store.load(4).watermark == 30
    with pytest.raises(wt.NotFoundError):
        table.table.scan(watermark=31)
