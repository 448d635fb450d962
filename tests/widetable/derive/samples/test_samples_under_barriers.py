"""Samples of tables under barriers: named writers say how far their streams are."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import widetable as wt
from tests.widetable.derive.samples.sample_model import watermark

START = datetime(2026, 1, 1)
SCHEMA = {"id": "BIGINT", "exposed_at": "TIMESTAMP(3)", "label": "INT"}
OPTIONS = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "changelog-producer": "lookup",
    "widetable.barrier-interval": "1 s",
}


def millis(minute: int) -> int:
    return int((START + timedelta(minutes=minute) - datetime(1970, 1, 1)).total_seconds() * 1000)


def test_a_writer_of_a_table_under_barriers_says_its_watermark(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    table = catalog.create_table("db.t", SCHEMA, primary_key=["id"], options=OPTIONS)
    exposures = catalog.writer("db.t", "exposures", ["exposed_at"])
    clicks = catalog.writer("db.t", "clicks", ["label"])
    rows = [{"id": id, "exposed_at": START} for id in (1, 2)]
    exposures.write(rows, 1, watermark=millis(0))
    clicks.write([{"id": 1, "label": 1}], 1, watermark=millis(5))

    def given() -> list[tuple[int, int]]:
        follower = table.follow_samples(
            "trainer",
            ["exposed_at"],
            on="exposed_at",
            wait="30 min",
            eager=["label"],
            defaults={"label": 0},
            timeout=0,
        )
        return [(row["id"], row["label"]) for batch in follower for row in batch.to_pylist()]

    assert given() == [(1, 1)]
    exposures.write([], 2, watermark=millis(31))
    assert given() == []  # the clicks may be behind
    assert clicks.write([], 2, watermark=millis(31)).committed
    assert given() == [(2, 0)]


def test_what_a_writer_says_without_rows_changes_no_barrier(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    table = catalog.create_table("db.t", SCHEMA, primary_key=["id"], options=OPTIONS)
    writer = catalog.writer("db.t", "w")
    writer.write([{"id": 1}], 1)
    writer.complete()
    frontier = writer.frontier
    for said in ({"watermark": watermark(1)}, {"properties": {"note": "x"}}):
        before = table.snapshots()[-1].id
        assert writer.write([], **said).committed
        assert table.snapshots()[-1].id == before + 1
        assert writer.frontier == frontier
    assert table.snapshots()[-1].properties["note"] == "x"
    assert not writer.write([]).committed
    assert table.audit().ok
    writer.write([{"id": 2}], 2)
    writer.complete()
    assert table.scan().to_arrow().num_rows == 2
