"""Rows of one key that cannot be merged cost their own bucket and no other: a sum that overflows, found by a review."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest

import widetable as wt
from widetable.operations.compaction.quarantined_buckets import QUARANTINED_BUCKETS

KEYS = list(range(20))
FITS = {"id": KEYS, "s": [100] * len(KEYS)}
OVERFLOWS = {"id": [1], "s": [100]}
OTHERS = {"id": KEYS[2:], "s": [1] * len(KEYS[2:])}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    QUARANTINED_BUCKETS._reset()


@pytest.fixture(params=["none", "lookup", "full-compaction"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> wt.Table:
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        {"id": "BIGINT", "s": "TINYINT"},
        primary_key=["id"],
        options={
            "bucket": "4",
            "merge-engine": "aggregation",
            "fields.s.aggregate-function": "sum",
            "changelog-producer": request.param,
            "widetable.fsync": "false",
        },
    )
    made.write(FITS)
    assert made.write(OVERFLOWS).committed
    for _ in range(3):
        made.write(OTHERS)
    return made


def waiting(table: wt.Table) -> list[int]:
    """Buckets with files of level 0."""
    found = table.inspect.buckets().to_pylist()
    return [row["bucket"] for row in found if row["level0_files"]]


def test_the_other_buckets_are_compacted_before_it_is_raised(table: wt.Table) -> None:
    for _ in range(2):  # known the second time
        with pytest.raises(wt.InvalidError, match="the key id=1; expected a value of type TINYINT"):
            table.compact(full=True)
        assert len(waiting(table)) == 1
    assert table.lookup([2]).to_pylist() == [{"id": 2, "s": 103}]


def test_a_maintainer_goes_on_and_says_that_it_passes_it_by(table: wt.Table) -> None:
    stop, rounds = threading.Event(), list[wt.MaintenanceResult]()

    def on_round(done: wt.MaintenanceResult) -> None:
        rounds.append(done)
        if len(rounds) == 3:
            stop.set()

    done = table.maintain(interval_millis=0, stop=stop, on_round=on_round)
    assert (done.failures, done.damaged_buckets) == (0, 1)
    table.write(OTHERS)
    with pytest.raises(
        wt.InvalidError, match="id=1"
    ):  # of a single run everything is raised, in the end
        table.maintain(once=True)
    if table.inspect().changelog_producer == "lookup":
        assert len(waiting(table)) == 1
        changes = table.changes(0, table.snapshots()[-1].id)
        of_others = changes.filter(pc.field("id") == 2).to_pylist()
        assert of_others[-1] == {"id": 2, "s": 104, "_row_kind": "+U"}


def test_a_wider_type_mends_it_at_once(tmp_path: Path, table: wt.Table) -> None:
    with pytest.raises(wt.InvalidError):
        table.compact(full=True)
    table = wt.Catalog(str(tmp_path)).alter_table("db.t", change_types={"s": "INT"})
    assert table.compact(full=True).committed
    assert waiting(table) == []
    assert table.lookup([1]).to_pylist() == [{"id": 1, "s": 200}]


def test_a_doctor_that_reads_everything_names_it(table: wt.Table) -> None:
    (finding,) = [one for one in table.doctor(deep=True).findings if one.check == "files"]
    assert "for the key id=1" in finding.found
    assert "bucket 2, which is neither read as a whole nor compacted" in finding.concerned
    assert "widetable alter --type" in finding.action


def test_who_meets_it_names_table_column_and_key_and_the_ways_on(table: wt.Table) -> None:
    for read in (
        lambda: table.scan().to_arrow(),
        lambda: table.lookup([1]),
        lambda: table.compact(full=True),
    ):
        with pytest.raises(wt.InvalidError) as raised:
            read()
        error = raised.value
        assert error.subject == f"column 's', function 'sum' of {table.path}"
        assert error.found.endswith("for the key id=1")
        for way in ("alter --type", "delete --rewrite", "explain", "roll"):
            assert way in error.action


def test_explain_says_which_record_was_too_much_and_whose_it_is(table: wt.Table) -> None:
    """The first record of the key is in a compacted file where commits make the changelog."""
    found = table.explain(1)
    assert found.unmerged is not None
    assert found.unmerged.startswith("cannot be merged from #2 on: column 's', function 'sum'")
    assert [record.commits[0].snapshot_id for record in found.records][-1] > 1
    (column,) = found.columns
    assert (column.value, column.record) == (100, 1)
    assert [(event.record, event.effect, event.why) for event in column.events][1:] == [
        (2, "leaves", "it cannot be merged")
    ]
    assert f"  {found.unmerged}" in str(found).splitlines()
    assert table.explain(2).unmerged is None


def test_a_rewrite_takes_the_key_out_and_the_bucket_goes_on(table: wt.Table) -> None:
    assert table.delete("id = 1", rewrite=True).committed
    assert table.scan().count() == len(KEYS) - 1
    table.compact(full=True)
    assert waiting(table) == []


def test_a_decimal_takes_what_no_integer_holds(tmp_path: Path) -> None:
    catalog = wt.Catalog(str(tmp_path))
    made = catalog.create_table(
        "db.t",
        {"id": "BIGINT", "s": "BIGINT"},
        primary_key=["id"],
        options={
            "bucket": "1",
            "merge-engine": "aggregation",
            "fields.s.aggregate-function": "sum",
            "widetable.fsync": "false",
        },
    )
    for _ in range(2):
        made.write({"id": [1], "s": [2**62]})
    with pytest.raises(wt.InvalidError, match="does not fit"):
        made.scan().to_arrow()
    made = catalog.alter_table("db.t", change_types={"s": "DECIMAL(38, 0)"})
    assert made.scan().to_arrow()["s"].to_pylist() == [2**63]
    made.compact(full=True)
    assert made.lookup([1])["s"].to_pylist() == [2**63]
