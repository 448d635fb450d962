"""How long tables and jobs take from barrier to barrier: reckoned from times, and found in the snapshots of tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import widetable as wt
from tests.support.tables.derived_job import Job as DerivedJob
from tests.support.tables.derived_job import sink_table, source_table
from widetable.commit.barriers.barrier_state import ROOT
from widetable.commit.barriers.writer_registration import DERIVED, RUNNING
from widetable.errors import DamagedError, NotFoundError
from widetable.topology.delays import BarrierTimes, JobCommit, delays_of

T = 10_000
LAYERS = [["x"], ["y"], ["z"]]


def job(name: str, sources: tuple[str, ...], *sinks: str) -> wt.Job:
    kind = DERIVED if sources else ROOT
    return wt.Job(name, kind, RUNNING, sources, tuple(wt.JobSink(s, None) for s in sinks), "run")


def times(
    written: int, changes: int | None = None, **commits: tuple[int | None, int]
) -> BarrierTimes:
    """At T, in milliseconds after it. commits: begin and end of each job."""
    known = {} if changes is None else {T: T + changes}
    return BarrierTimes(
        {T: T + written},
        known,
        {
            (name, T): JobCommit(None if begin is None else T + begin, T + end)
            for name, (begin, end) in commits.items()
        },
    )


Q, R = job("q", ("x",), "y"), job("r", ("y",), "z")


def test_case_19_delays_of_tables_and_the_slowest_job() -> None:
    found = delays_of(
        {
            "x": times(400, 900),
            "y": times(2_500, 2_500, q=(1_000, 2_500)),
            "z": times(6_600, 6_600, r=(2_600, 6_600)),
        },
        [R, Q, job("clicks", (), "x")],
        LAYERS,
        [T],
    )
    assert found.tables == (
        wt.TableDelay(T, "x", 400, 900, (), None),
        wt.TableDelay(T, "y", 2_500, 2_500, ("q",), "q"),
        wt.TableDelay(T, "z", 6_600, 6_600, ("q", "r"), "r"),
    )
    assert found.jobs == (
        wt.JobDelay(T, "q", "x", T + 1_000, T + 2_500, 100, 1_500, 1_600),
        wt.JobDelay(T, "r", "y", T + 2_600, T + 6_600, 100, 4_000, 4_100),
    )


def test_the_path_of_a_table_is_that_of_the_last_source_and_the_last_job() -> None:
    """Tables: x -> early -> y1, x -> late -> y2; both -> joins -> z, and x -> beside -> z."""
    found = delays_of(
        {
            "x": times(100, 100),
            "y1": times(300, 300, early=(200, 300)),
            "y2": times(900, 900, late=(400, 900)),
            "z": times(1_000, 1_000, joins=(900, 1_000), beside=(100, 200)),
        },
        [
            job("joins", ("y1", "y2"), "z"),
            job("beside", ("x",), "z"),
            job("early", ("x",), "y1"),
            job("late", ("x",), "y2"),
        ],
        [["x"], ["y1", "y2"], ["z"]],
        [T],
    )
    assert found.tables[-1] == wt.TableDelay(T, "z", 1_000, 1_000, ("late", "joins"), "late")
    shares = {delay.job: delay.share_millis for delay in found.jobs}
    assert shares == {"early": 200, "late": 800, "beside": 100, "joins": 100}
    assert [delay.job for delay in found.jobs] == ["early", "late", "beside", "joins"]


def test_a_job_of_two_sinks_ends_with_the_second() -> None:
    both = job("both", ("x",), "y", "z")
    lead = {"x": times(100, 100), "y": times(400, 400, both=(200, 400))}
    done = delays_of({**lead, "z": times(700, 700, both=(300, 700))}, [both], LAYERS, [T])
    assert done.jobs == (wt.JobDelay(T, "both", "x", T + 200, T + 700, 100, 500, 600),)
    begun = delays_of({**lead, "z": times(700, 700)}, [both], LAYERS, [T])
    assert begun.jobs == ()
    assert [table.path for table in begun.tables] == [(), (), ()]


def test_what_is_not_known_is_left_out() -> None:
    unsaid = delays_of({"x": times(1, 5), "y": times(9, 9, q=(None, 9))}, [Q], LAYERS, [T])
    assert unsaid.jobs == (wt.JobDelay(T, "q", "x", None, T + 9, None, None, 4),)
    assert unsaid.tables[1].slowest_job == "q"
    no_changes = delays_of({"x": times(1), "y": times(9, 9, q=(6, 9))}, [Q], LAYERS, [T])
    assert no_changes.jobs == (wt.JobDelay(T, "q", None, T + 6, T + 9, None, 3, None),)
    assert no_changes.tables[0].changes_delay_millis is None
    assert (no_changes.tables[1].path, no_changes.tables[1].slowest_job) == (("q",), None)
    assert delays_of({"x": times(1)}, [Q], LAYERS, [2 * T]) == wt.Delays((), ())


def set_times(table: wt.Table, snapshot_id: int, after_millis: int, begin: str | None) -> None:
    """As if the snapshot had been published so long after T, of a batch that was planned then."""
    file = Path(table.path) / "snapshot" / f"snapshot-{snapshot_id}"
    body = json.loads(file.read_bytes())
    body["timeMillis"] = T + after_millis
    if begin is not None:
        body["properties"]["widetable.barrier-begin"] = begin
    file.write_text(json.dumps(body))


@pytest.fixture
def chain(tmp_path: Path) -> wt.Catalog:
    """Tables: x -> q -> y -> r -> z at the barriers T and 2 T, with the times of case 19 at T."""
    catalog = wt.Catalog(tmp_path)
    options = {"bucket": "1", "widetable.fsync": "false", "widetable.barrier-interval": "10 s"}
    for name, producer in (("db.x", "lookup"), ("db.y", "none"), ("db.z", "input")):
        catalog.create_table(
            name,
            {"id": "BIGINT", "v": "BIGINT"},
            primary_key=["id"],
            options={**options, "changelog-producer": producer},
        )
    topology = catalog.topology()
    for name, source, sink in (("q", "db.x", "db.y"), ("r", "db.y", "db.z")):
        topology.register(name, sources=[source], sinks={sink: None})
        topology.running(name)
    for table, name in (("db.x", "clicks"), ("db.y", "q"), ("db.z", "r")):
        writer = catalog.writer(table, name)
        for barrier in (T, 2 * T):
            writer.write({"id": [1], "v": [barrier]}, barrier=barrier, complete=True)
    # 1 joins; of x 2 is the append, 3 the compaction with its changes, then the same at 2 T.
    said = {
        ("db.x", 2): (400, None),
        ("db.x", 3): (900, None),
        ("db.y", 2): (2_500, f"{T + 1_000}"),
        ("db.z", 2): (6_600, f"{T + 2_600}"),
    }
    for (name, snapshot_id), (after, begin) in said.items():
        set_times(catalog.table(name), snapshot_id, after, begin)
    return wt.Catalog(tmp_path)


def test_case_19_in_tables(chain: wt.Catalog) -> None:
    found = chain.topology().delays(T)
    assert found.tables == (
        wt.TableDelay(T, "db.x", 400, 900, (), None),
        wt.TableDelay(T, "db.y", 2_500, 2_500, ("q",), "q"),
        wt.TableDelay(T, "db.z", 6_600, 6_600, ("q", "r"), "r"),
    )
    assert [(delay.wait_millis, delay.cost_millis) for delay in found.jobs] == [
        (100, 1_500),
        (100, 4_000),
    ]
    tables, jobs = found.tables_to_arrow().to_pylist(), found.jobs_to_arrow().to_pylist()
    assert [row["written_delay_millis"] for row in tables] == [400, 2_500, 6_600]
    assert (tables[2]["path"], tables[2]["slowest_job"]) == (["q", "r"], "r")
    assert [(row["job"], row["share_millis"]) for row in jobs] == [("q", 1_600), ("r", 4_100)]
    assert jobs[0]["begin_time"].timestamp() == 11.0


def test_barriers_of_snapshots_that_are_kept_have_delays(chain: wt.Catalog) -> None:
    topology = chain.topology()
    every = topology.delays()
    assert [(row.barrier, row.table) for row in every.tables] == [
        (barrier, table) for barrier in (T, 2 * T) for table in ("db.x", "db.y", "db.z")
    ]
    assert every.tables[:3] == topology.delays(T).tables
    assert topology.delays(limit=2) == every
    newest = topology.delays(limit=1)
    assert (newest.tables, newest.jobs) == (every.tables[3:], every.jobs[2:])
    assert topology.delays(limit=0) == wt.Delays((), ())
    with pytest.raises(NotFoundError, match="expected 20000"):
        topology.delays(3 * T)
    for id in (1, 2):
        (Path(chain.table("db.y").path) / "snapshot" / f"snapshot-{id}").unlink()
    (Path(chain.table("db.y").path) / "snapshot" / "EARLIEST").write_text("3")
    assert [row.table for row in topology.delays(T).tables] == ["db.x", "db.z"]
    assert [row.barrier for row in topology.delays().tables if row.table == "db.y"] == []


def test_barriers_without_rows_have_delays(chain: wt.Catalog) -> None:
    for table, job in (("db.x", "clicks"), ("db.y", "q"), ("db.z", "r")):
        writer = chain.writer(table, job)
        for barrier in (3 * T, 4 * T):
            writer.complete(barrier)
    topology = chain.topology()
    every, third = topology.delays(), topology.delays(3 * T)
    assert [row.table for row in third.tables] == ["db.x", "db.y", "db.z"]
    assert [row.job for row in third.jobs] == ["q", "r"]
    for barrier in (T, 2 * T, 3 * T, 4 * T):
        one = topology.delays(barrier)
        assert one.tables == tuple(row for row in every.tables if row.barrier == barrier)
        assert one.jobs == tuple(row for row in every.jobs if row.barrier == barrier)


def test_a_job_says_when_its_batch_was_planned(tmp_path: Path) -> None:
    source = source_table(tmp_path, "source")
    job_of_source = DerivedJob(
        "counts", {"source": source}, sink_table(tmp_path, "sink", ["source"])
    )
    catalog = wt.Catalog(tmp_path)
    catalog.topology().register("counts", sources=["d.source"], sinks={"d.sink": None})
    catalog.topology().running("counts")
    writer = catalog.writer("d.source", "clicks")
    for barrier in (10, 20):
        writer.write({"id": [1], "v": [1]}, barrier=barrier, complete=True)
        assert job_of_source.run() == [barrier]
    (first, second) = catalog.topology().delays().jobs
    # It says that it was planned at its barrier.
    assert (first.begin_time_millis, second.begin_time_millis) == (10, 20)
    assert (second.last_source, second.cost_millis) == ("d.source", second.end_time_millis - 20)


def test_a_time_that_is_no_number_is_damage(chain: wt.Catalog) -> None:
    set_times(chain.table("db.y"), 2, 2_500, "soon")
    with pytest.raises(DamagedError, match="barrier-begin"):
        chain.topology().delays(T)
