"""Tables that jobs make of others: in step with all of their sources, exact at the barriers that they came to."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.tables.derived_job import Job, sink_table, source_table
from widetable.errors import ConflictError, NotFoundError
from widetable.operations.barriers.aligned_source import AlignedSource


def rows(scan: wt.TableScan) -> list[dict[str, int]]:
    return sorted(scan.to_arrow().to_pylist(), key=lambda row: row["id"])


def put(writer: wt.BarrierWriter, ids: range, barrier: int) -> None:
    writer.write({"id": list(ids), "v": list(ids)}, barrier=barrier, complete=True)


def test_case_4_a_job_commits_where_its_source_was_cut(tmp_path: Path) -> None:
    table = source_table(tmp_path, "x", write_only="true", changelog_producer="lookup")
    writer = wt.Catalog(tmp_path).writer("d.x", "w")
    for number in range(1, 6):
        writer.write({"id": [1], "v": [number]}, barrier=10 * number, complete=True)
    sink = sink_table(tmp_path, "z", ["x"])
    job = Job("count", {"x": table}, sink)
    assert job.run() == []
    table.compact()
    job.sources["x"]._plans.decide(0, 40)  # it had looked between the two cuts
    assert job.run() == [40, 50]
    assert table.changes(0, 40, mode="barrier")["v"].to_pylist() == [4]
    changes = table.changes(40, 50, mode="barrier")
    assert changes.select(["v", "_row_kind"]).to_pylist() == [
        {"v": 4, "_row_kind": "-U"},
        {"v": 5, "_row_kind": "+U"},
    ]
    assert Job("late", {"x": table}, sink_table(tmp_path, "late", ["x"])).run() == [50]
    with pytest.raises(NotFoundError, match="before the first one of count"):
        sink.scan(barrier=30)
    with wt.Catalog(tmp_path).session(tables=["d.x", "d.z"], as_of=40) as session:
        assert rows(session.table("d.z").scan()) == [{"id": 0, "x": 1}]


def test_case_5_who_is_behind_takes_the_roundest(tmp_path: Path) -> None:
    table, sink = source_table(tmp_path, "x"), sink_table(tmp_path, "z", ["x"])
    writer = wt.Catalog(tmp_path).writer("d.x", "w")
    job = Job("count", {"x": table}, sink)
    put(writer, range(10), 20)
    assert job.run() == [20]
    for barrier in range(30, 80, 10):
        put(writer, range(barrier, barrier + 10), barrier)
    assert job.run() == [40, 60, 70]
    assert [rows(sink.scan(barrier=b))[0]["x"] for b in (20, 40, 60, 70)] == [10, 30, 50, 60]
    for barrier, before in ((30, 20), (50, 40)):
        with pytest.raises(NotFoundError, match=f"count skipped after {before}"):
            sink.scan(barrier=barrier)
    behind = Job("behind", {"z": sink}, sink_table(tmp_path, "y", ["z"]))
    behind.sources["z"]._plans.decide(0, 20)
    assert behind.run() == [20, 40, 60, 70]


def test_case_6_two_sources_end_at_one_barrier(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    tables = {name: source_table(tmp_path, name) for name in "xy"}
    x, y = (catalog.writer(f"d.{name}", "w") for name in "xy")
    sink = sink_table(tmp_path, "z", ["x", "y"])
    put(x, range(1, 101), 10)
    put(x, range(101, 201), 20)
    put(y, range(1, 51), 10)
    put(y, range(51, 101), 20)
    job = Job("count", tables, sink)
    assert job.run() == [20]
    assert rows(sink.scan(barrier=20)) == [{"id": 0, "x": 200, "y": 100}]
    put(x, range(201, 301), 30)
    assert job.run() == []
    put(y, range(101, 111), 30)
    assert job.run() == [30]
    assert rows(sink.scan(barrier=30)) == [{"id": 0, "x": 300, "y": 110}]


def test_case_12_a_new_job_starts_where_all_of_its_sources_are(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    tables = {name: source_table(tmp_path, name) for name in "xy"}
    x, y = (catalog.writer(f"d.{name}", "w") for name in "xy")
    for barrier in range(10, 60, 10):
        put(x, range(barrier), barrier)
    for barrier in range(10, 40, 10):
        put(y, range(barrier), barrier)
    sink = sink_table(tmp_path, "z", ["x", "y"])
    assert Job("count", tables, sink).run() == [30]
    assert rows(sink.scan(barrier=30)) == [{"id": 0, "x": 30, "y": 30}]
    with pytest.raises(NotFoundError, match="before the first one"):
        sink.scan(barrier=20)


def test_a_batch_that_is_in_comes_again_from_what_its_consumer_kept(tmp_path: Path) -> None:
    """Case 7, without Spark: killed behind its commit, with everything expired that may."""
    table, sink = source_table(tmp_path, "x"), sink_table(tmp_path, "z", ["x"])
    writer = wt.Catalog(tmp_path).writer("d.x", "w")
    job = Job("count", {"x": table}, sink)
    put(writer, range(10), 10)
    job.run()
    put(writer, range(10, 30), 20)
    assert job.run_batch(20, dies_before_log=True).committed
    for barrier in range(30, 100, 10):
        put(writer, range(barrier, barrier + 10), barrier)
    table.compact(full=True)
    table.expire_snapshots(1, 1, 0)
    again = job.run_batch(20)
    assert not again.committed
    assert rows(sink.scan(barrier=20)) == [{"id": 0, "x": 30}]
    # What it goes on with is right: nothing was counted twice.
    assert job.next_end() == 80
    job.run()
    assert rows(sink.scan(barrier=90)) == [{"id": 0, "x": 100}]


def test_a_first_batch_that_is_in_comes_again_whole(tmp_path: Path) -> None:
    """Spark asks where a query begins once more when its first batch was not noted as done."""
    table, sink = source_table(tmp_path, "x"), sink_table(tmp_path, "z", ["x"])
    writer = wt.Catalog(tmp_path).writer("d.x", "w")
    put(writer, range(10), 10)
    job = Job("count", {"x": table}, sink)
    assert job.next_end() == 10
    assert job.run_batch(10, dies_before_log=True).committed
    assert not job.run_batch(10).committed
    assert job.counts == {"x": 10}


def test_a_job_with_a_new_checkpoint_goes_on_where_it_was(tmp_path: Path) -> None:
    table, sink = source_table(tmp_path, "x"), sink_table(tmp_path, "z", ["x"])
    writer = wt.Catalog(tmp_path).writer("d.x", "w")
    put(writer, range(10), 10)
    first = Job("count", {"x": table}, sink)
    first.run()
    put(writer, range(10, 20), 20)
    second = Job("count", {"x": table}, sink, run="2")
    assert second.run() == [20]
    assert rows(sink.scan()) == [{"id": 0, "x": 10}], (
        "its state was lost, and only what came since was added"
    )
    put(writer, range(20, 30), 30)
    end = first.next_end()
    assert end == 20  # as planned
    with pytest.raises(ConflictError, match="another process that has taken its name"):
        first.run_batch(end)
    assert second.run() == [30]


def test_random_jobs_meet_at_barriers_and_are_right_there(
    tmp_path: Path, rng: random.Random
) -> None:
    """Two layers, jobs that lag, sources with and without changelogs, compactions and expiry in between."""
    producers = ("none", "lookup")
    tables = {
        name: source_table(tmp_path, name, changelog_producer=rng.choice(producers))
        for name in "xy"
    }
    writers = {name: wt.Catalog(tmp_path).writer(f"d.{name}", "w") for name in "xy"}
    sinks = {
        "p": sink_table(tmp_path, "p", ["x"], **{"changelog-producer": rng.choice(producers)}),
        "q": sink_table(tmp_path, "q", ["x", "y"]),
        "r": sink_table(tmp_path, "r", ["p", "y"]),
    }
    jobs = [
        Job("p", {"x": tables["x"]}, sinks["p"]),
        Job("q", tables, sinks["q"]),
        Job("r", {"p": sinks["p"], "y": tables["y"]}, sinks["r"]),
    ]
    expected: dict[str, dict[int, int]] = {name: {0: 0} for name in "xy"}
    ends = dict.fromkeys("xy", 0)
    seen = 0

    def put_next(name: str, at: int, count: int) -> None:
        have = expected[name][ends[name]]
        put(writers[name], range(have, have + count), at) if count else writers[name].complete(at)
        expected[name][at] = have + count
        ends[name] = at

    def check(session: wt.Session) -> int:
        barrier = session.barrier
        assert barrier is not None
        x, y = (expected[name][barrier] for name in "xy")
        assert session.table("d.x").scan().count() == x
        assert rows(session.table("d.p").scan()) == [{"id": 0, "x": x}]
        assert rows(session.table("d.q").scan()) == [{"id": 0, "x": x, "y": y}]
        return barrier

    for _ in range(60):
        name = rng.choice("xy")
        if rng.random() < 0.6:
            put_next(name, ends[name] + 10, rng.randrange(3))
        job = rng.choice(jobs)
        if rng.random() < 0.5 and (end := job.next_end()) is not None:
            job.run_batch(end)
        if rng.random() < 0.2:
            table = rng.choice([*tables.values(), *sinks.values()])
            table.compact(full=rng.random() < 0.5)
            table.expire_snapshots(1, 1, 0)
        try:
            session = wt.Catalog(tmp_path).session(tables=["d.x", "d.y", "d.p", "d.q"])
        except NotFoundError:  # jobs that lag may have no barrier in common
            continue
        with session:
            barrier = check(session)
            assert barrier >= seen
            seen = barrier
    last = max(ends.values()) + 10
    for name in "xy":
        put_next(name, last, 1)
    for job in jobs:
        job.run()
    with wt.Catalog(tmp_path).session(tables=["d.x", "d.y", "d.p", "d.q"]) as session:
        assert check(session) == last
    for table in (*tables.values(), *sinks.values()):
        assert not table.audit().findings


def test_case_16_expiry_leaves_the_barrier_that_connected_tables_have_in_common(
    tmp_path: Path,
) -> None:
    catalog = wt.Catalog(tmp_path)
    kept = {"widetable.barriers-kept": "0"}
    x = source_table(tmp_path, "x", widetable__barriers_kept="0")
    y, z = (sink_table(tmp_path, name, ["x"], **kept) for name in "yz")
    alone = source_table(tmp_path, "alone", widetable__barriers_kept="0")
    topology = catalog.topology()
    for job, sink in (("q", "d.y"), ("r", "d.z")):
        topology.register(job, sources=["d.x"], sinks={sink: None})
        topology.running(job)
    writers = [catalog.writer(f"d.{name}", "w") for name in ("x", "alone")]
    q, r = Job("q", {"x": x}, y), Job("r", {"x": x}, z)

    def expire() -> None:
        topology.keep()
        for table in (x, y, z, alone):
            table.expire_snapshots(1, 1, 0)

    for barrier in range(10, 110, 10):
        for writer in writers:
            put(writer, range(barrier, barrier + 10), barrier)
        q.run()
        if barrier <= 30:
            r.run()
        expire()
    assert y.scan(barrier=100).count() == 1
    with catalog.session(tables=["d.y", "d.z"]) as session:
        assert session.barrier == 30
        found = [rows(session.table(name).scan()) for name in ("d.y", "d.z")]
        assert found == [[{"id": 0, "x": 30}]] * 2
    assert topology.common_barrier() == 30
    assert [table.common_barrier for table in topology.tables()] == [100, 30, 30, 30]
    with pytest.raises(NotFoundError, match="expired"):
        alone.scan(barrier=30)
    r.run()
    expire()
    with catalog.session(tables=["d.y", "d.z"]) as session:
        assert session.barrier == 100
    with pytest.raises(NotFoundError, match="expired"):
        y.scan(barrier=30)
    for job in ("q", "r"):
        topology.drop(job)
    for table in (x, y, z):
        assert table.consumers() == {}


def test_a_new_job_begins_where_what_comes_next_is_kept(tmp_path: Path) -> None:
    """A barrier without rows can be read as long as those before it; the changes after it may be gone."""
    catalog = wt.Catalog(tmp_path)
    tables = {name: source_table(tmp_path, name, widetable__barriers_kept="0") for name in "xy"}
    x, y = (catalog.writer(f"d.{name}", "w") for name in "xy")
    put(x, range(10), 10)
    x.complete(20)
    for barrier in (10, 20):
        put(y, range(barrier), barrier)
    for barrier in range(30, 60, 10):
        put(x, range(barrier, barrier + 10), barrier)
    tables["x"].compact(full=True)
    tables["x"].expire_snapshots(1, 1, 0)
    job = Job("count", tables, sink_table(tmp_path, "z", ["x", "y"]))
    assert job.run() == []
    for barrier in range(30, 60, 10):
        put(y, range(barrier, barrier + 10), barrier)
    assert job.run() == [50]
    put(x, range(90, 95), 60)
    put(y, range(90, 95), 60)
    assert job.run() == [60]
    assert rows(catalog.table("d.z").scan(barrier=60))[0]["x"] == 45


def test_a_table_without_the_rows_before_is_not_gone_on_with(tmp_path: Path) -> None:
    """It was made again, or the job has it only now: it would never get them."""
    table, sink = source_table(tmp_path, "x"), sink_table(tmp_path, "z", ["x"])
    catalog = wt.Catalog(tmp_path)
    writer = catalog.writer("d.x", "w")
    put(writer, range(10), 10)
    first = Job("count", {"x": table}, sink)
    first.run()
    catalog.drop_table("d.z")
    again = Job("count", {"x": table}, sink_table(tmp_path, "z", ["x"]))
    again.at, again.counts, again.batches = first.at, first.counts, first.batches
    put(writer, range(10, 20), 20)
    with pytest.raises(ConflictError, match="has no earlier ones"):
        again.run_batch(20)
    assert not again.sink.snapshots()


def test_a_job_that_left_comes_back_with_its_checkpoint(tmp_path: Path) -> None:
    table, sink = source_table(tmp_path, "x"), sink_table(tmp_path, "z", ["x"])
    catalog = wt.Catalog(tmp_path)
    writer = catalog.writer("d.x", "w")
    put(writer, range(10), 10)
    first = Job("count", {"x": table}, sink)
    first.run()
    catalog.topology().leave("d.z", "count")
    back = Job("count", {"x": table}, sink)
    back.at, back.counts, back.batches = first.at, first.counts, first.batches
    put(writer, range(10, 20), 20)
    assert back.run() == [20]
    assert rows(sink.scan()) == [{"id": 0, "x": 20}]


def test_a_source_that_the_records_are_not_made_of_is_refused(tmp_path: Path) -> None:
    """With a new checkpoint the job goes on behind its records: rows of the new source before that would be missing."""
    tables = {name: source_table(tmp_path, name) for name in "xy"}
    sink = sink_table(tmp_path, "z", ["x", "y"])
    catalog = wt.Catalog(tmp_path)
    for name in "xy":
        put(catalog.writer(f"d.{name}", "w"), range(10), 10)
    Job("count", {"x": tables["x"]}, sink).run()
    with pytest.raises(ConflictError, match="is no source of"):
        Job("count", {"y": tables["y"], "x": tables["x"]}, sink, run="2").next_end()


def test_a_batch_that_is_not_next_takes_no_job_over(tmp_path: Path) -> None:
    """Of two queries of a job one goes on."""
    table, sink = source_table(tmp_path, "x"), sink_table(tmp_path, "z", ["x"])
    writer = wt.Catalog(tmp_path).writer("d.x", "w")
    put(writer, range(10), 10)
    first, second = (Job("count", {"x": table}, sink, run=run) for run in "12")
    first.run()
    put(writer, range(10, 20), 20)
    end = second.next_end()
    assert end == 20
    assert first.run() == [20]
    with pytest.raises(ConflictError, match="records after barrier 10"):
        second.run_batch(end)
    put(writer, range(20, 30), 30)
    assert first.run() == [30]


def test_a_new_job_reads_rows_from_before_a_column(tmp_path: Path) -> None:
    table, sink = source_table(tmp_path, "x"), sink_table(tmp_path, "z", ["x"])
    catalog = wt.Catalog(tmp_path)
    put(catalog.writer("d.x", "w"), range(10), 10)
    table = catalog.alter_table(
        "d.x", rename_columns={"v": "w"}, add_columns=[pa.field("u", pa.int64())]
    )
    source = AlignedSource("count", table, [table], sink, ["w", "u"])
    assert source.decided(0, None) == 10
    (batches,) = [list(read.to_batches()) for reads in source.reads(0, 10) for read in reads]
    assert [row for batch in batches for row in batch.to_pylist()] == [
        {"w": n, "u": None, "_row_kind": "+I"} for n in range(10)
    ]
