"""Jobs over tables: what is refused when one is registered, how long it counts, and what the topology shows."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.programs.command_line import run
from widetable.commit.barriers.writer_registration import PENDING_MILLIS, RUNNING_MILLIS
from widetable.errors import ConflictError, InvalidError, NotFoundError
from widetable.operations.barriers.barrier_writer import BarrierWriter
from widetable.operations.barriers.departed_writer import let_leave
from widetable.operations.barriers.job_writer import JobBatch, JobWriter
from widetable.topology.topology import Topology

OPTIONS = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "widetable.fsync": "false",
    "widetable.barrier-interval": "10 ms",
}


class HandClock:
    """Wall clock that the test turns."""

    def __init__(self) -> None:
        self.millis = 1_000_000

    def now_nanos(self) -> int:
        return self.millis * 1_000_000

    def monotonic_millis(self) -> float:
        return float(self.millis)

    def sleep_millis(self, millis: float) -> None:
        self.millis += int(millis)


def catalog_of(warehouse: Path, *names: str, **options: str) -> wt.Catalog:
    """Tables with the columns id, p, q, v."""
    catalog = wt.Catalog(warehouse)
    columns = dict.fromkeys(("id", "p", "q", "v"), "BIGINT")
    given = OPTIONS | {key.replace("__", "."): value for key, value in options.items()}
    for name in names or ("db.a", "db.b", "db.c"):
        catalog.create_table(name, columns, primary_key=["id"], options=given)
    return catalog


def files_of(warehouse: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in warehouse.rglob("widetable-writer-*")}


def test_case_13_cycles_and_contested_columns_are_refused(tmp_path: Path) -> None:
    topology = catalog_of(tmp_path).topology()
    topology.register("j1", sources=["db.a"], sinks={"db.b": ["p"]})
    topology.register("j2", sources=["db.b"], sinks={"db.c": None})
    before = files_of(tmp_path)
    with pytest.raises(ConflictError, match=r"db\.c -> j3 -> db\.a -> j1 -> db\.b -> j2 -> db\.c"):
        topology.register("j3", sources=["db.c"], sinks={"db.a": None})
    with pytest.raises(ConflictError, match=r"job 'j4'.* job 'j1' writes, too: 'p'"):
        topology.register("j4", sources=["db.a"], sinks={"db.b": ["id", "p"]})
    assert files_of(tmp_path) == before
    topology.register("j5", sources=["db.a"], sinks={"db.b": ["q"]})
    with pytest.raises(ConflictError, match=r"db\.a -> j6 -> db\.a"):
        topology.register("j6", sources=["db.a"], sinks={"db.a": None})
    for job in ("j1", "j2", "j5"):
        topology.running(job)
    sinks = {(table, job.name) for job in topology.jobs() for table in job.tables}
    assert sinks == {("db.b", "j1"), ("db.c", "j2"), ("db.b", "j5")}
    assert topology.layers() == [["db.a"], ["db.b"], ["db.c"]]
    assert topology.downstream("db.a") == ["db.b", "db.c"]
    assert topology.upstream("db.c") == ["db.a", "db.b"]


def test_a_job_is_part_of_the_graph_when_it_runs(tmp_path: Path) -> None:
    topology = catalog_of(tmp_path).topology()
    planned = topology.register("j", sources=["db.a"], sinks={"db.b": None})
    assert (planned.state, topology.downstream("db.a")) == ("pending", [])
    started = topology.running("j")
    assert (started.state, started.kind, started.sources) == ("running", "derived", ("db.a",))
    assert topology.downstream("db.a") == ["db.b"]
    topology.drop("j")
    assert (topology.jobs(), topology.downstream("db.a"), files_of(tmp_path)) == ([], [], {})


@pytest.mark.parametrize(
    ("options", "is_refused"),
    [
        ({}, True),
        ({"fields__v__sequence-group": "p"}, False),
        ({"fields__v__sequence-group": "q"}, True),
        ({"sequence__field": "v"}, False),
        ({"merge-engine": "deduplicate"}, True),
        ({"merge-engine": "deduplicate", "sequence__field": "v"}, False),
    ],
    ids=str,
)
def test_two_jobs_write_a_column_only_where_the_rows_say_what_is_newer(
    tmp_path: Path, options: dict[str, str], is_refused: bool
) -> None:
    topology = catalog_of(tmp_path, "db.t", **options).topology()
    topology.register("one", sinks={"db.t": ["p", "v"]})
    if is_refused:
        with pytest.raises(ConflictError, match=r"'two'.*'one'.*'p'"):
            topology.register("two", sinks={"db.t": ["p", "v"]})
    else:
        topology.register("two", sinks={"db.t": ["p", "v"]})


def test_rows_that_replace_rows_are_never_of_disjoint_columns(tmp_path: Path) -> None:
    topology = catalog_of(tmp_path, "db.t", **{"merge-engine": "deduplicate"}).topology()
    topology.register("one", sinks={"db.t": ["p"]})
    with pytest.raises(ConflictError, match="'p', 'q', 'v'"):
        topology.register("two", sinks={"db.t": ["q"]})


def test_a_registration_runs_out(tmp_path: Path) -> None:
    clock = HandClock()
    topology = Topology(catalog_of(tmp_path), clock, for_others=True)
    topology.register("one", sinks={"db.a": None})
    clock.millis += PENDING_MILLIS - 1
    with pytest.raises(ConflictError, match="'one'"):
        topology.register("two", sinks={"db.a": None})
    topology.running("one")
    clock.millis += RUNNING_MILLIS - 1
    topology.renew("one")
    clock.millis += RUNNING_MILLIS - 1
    assert [job.name for job in topology.jobs()] == ["one"]
    clock.millis += 1
    assert topology.jobs() == []
    topology.register("two", sinks={"db.a": None})
    with pytest.raises(ConflictError, match="'two'"):
        topology.renew("one")
    with pytest.raises(ConflictError, match="'two'"):
        topology.running("one")
    topology.register("two", sinks={"db.b": None})
    assert topology.renew("one").name == "one"


def test_a_writer_is_a_running_root_with_its_columns(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    writer = catalog.writer("db.a", "crm", ["p"])
    (job,) = catalog.topology().jobs()
    assert (job.name, job.kind, job.state, job.sources) == ("crm", "root", "running", ())
    assert job.sinks == (wt.JobSink("db.a", ("p",)),)
    snapshots = catalog.table("db.a").snapshots()
    with pytest.raises(ConflictError, match=r"'other'.*'crm'.*'p'"):
        catalog.writer("db.a", "other")
    assert catalog.table("db.a").snapshots() == snapshots
    again = catalog.writer("db.a", "crm", ["p", "q"])
    with pytest.raises(ConflictError, match="taken its name"):
        writer.write({"id": [1], "p": [1]})
    again.leave()
    assert (files_of(tmp_path), catalog.topology().jobs()) == ({}, [])
    again.write({"id": [1], "p": [1]})
    assert [job.name for job in catalog.topology().jobs()] == ["crm"]


def test_a_writer_of_a_registered_job_leaves_its_sources_as_they_are(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    topology = catalog.topology()
    topology.register("j", sources=["db.a"], sinks={"db.b": ["p"], "db.c": None})
    writer = catalog.writer("db.b", "j", ["p"])
    (job,) = topology.jobs()
    assert (job.sources, job.tables, job.state) == (("db.a",), ("db.b", "db.c"), "running")
    writer.leave()


def test_a_writer_that_was_refused_or_could_not_join_leaves_nothing(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    with pytest.raises(NotFoundError, match="nobody"):
        catalog.writer("db.a", "w", ["nobody"])
    assert files_of(tmp_path) == {}


DIES = """
import os, signal, sys
import widetable as wt
writer = wt.Catalog(sys.argv[1]).writer("db.a", "dead", ["p"])
os.kill(os.getpid(), signal.SIGKILL)
"""


def dies(warehouse: Path) -> None:
    command = [sys.executable, "-c", DIES, str(warehouse)]
    subprocess.run(command, check=False, env=os.environ, timeout=120)


def test_a_writer_that_was_killed_holds_its_columns_until_it_is_dropped(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    dies(tmp_path)
    (table,) = [one for one in catalog.topology().tables() if one.table == "db.a"]
    (dead,) = table.writers
    assert (dead.name, dead.alive, dead.is_missing) == ("dead", False, True)
    assert dead.silent_millis in range(600_000)
    with pytest.raises(ConflictError, match="'dead'"):
        catalog.writer("db.a", "w", ["p"])
    catalog.topology().drop("dead")
    writer = catalog.writer("db.a", "w", ["p"])
    writer.write({"id": [1], "p": [1]}, barrier=10, complete=True)
    assert catalog.table("db.a").scan(barrier=10).count() == 1


def test_tables_show_how_far_they_are_and_who_is_missing(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, "db.a", "db.b", "db.z")
    topology = Topology(catalog, HandClock())
    one, two = catalog.writer("db.a", "one", ["p"]), catalog.writer("db.a", "two", ["q"])
    topology.register("j", sources=["db.a"], sinks={"db.b": None})
    topology.running("j")
    made = catalog.writer("db.b", "j")
    one.complete(30)
    two.complete(20)
    made.complete(10)
    a, z, b = topology.tables()
    assert (a.table, a.layer, a.table_type, a.barrier) == ("db.a", 0, "Root", 20)
    assert (a.common_barrier, a.freshness_millis, a.missing) == (10, 999_980, ("two",))
    assert (b.table, b.layer, b.table_type, b.common_barrier) == ("db.b", 1, "Intermediate", 10)
    assert (z.table, z.barrier, z.freshness_millis, z.writers) == ("db.z", None, None, ())
    assert topology.common_barrier() is None
    catalog.drop_table("db.z")
    assert topology.common_barrier() == 10


def test_a_root_that_is_ahead_in_its_lead_is_not_dropped(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    topology = catalog.topology()
    topology.register("two sinks", sinks={"db.a": None, "db.b": None})
    topology.running("two sinks")
    lead, follower = (catalog.writer(name, "two sinks") for name in ("db.a", "db.b"))
    lead.complete(20)
    follower.complete(10)
    with pytest.raises(ConflictError, match=r"db\.a at 20, db\.b at 10"):
        topology.drop("two sinks")
    topology.drop("two sinks", force=True)
    assert topology.jobs() == []


def test_a_job_that_goes_on_in_another_process_is_not_dropped(tmp_path: Path) -> None:
    clock = HandClock()
    topology = Topology(catalog_of(tmp_path), clock, for_others=True)
    topology.register("j", sources=["db.a"], sinks={"db.b": None, "db.c": None})
    topology.running("j")
    before = files_of(tmp_path)
    with pytest.raises(ConflictError, match=r"renews its registration in db\.b"):
        topology.drop("j")
    assert files_of(tmp_path) == before
    clock.millis += RUNNING_MILLIS
    topology.drop("j")
    assert files_of(tmp_path) == {}
    topology.register("j", sinks={"db.b": None})
    topology.running("j")
    topology.drop("j", force=True)
    assert files_of(tmp_path) == {}


def test_a_drop_takes_along_what_ran_out_and_nobody_waits_for(tmp_path: Path) -> None:
    clock = HandClock()
    catalog = catalog_of(tmp_path)
    topology = Topology(catalog, clock, for_others=True)
    topology.register("forgotten", sinks={"db.a": None})
    topology.register("waited for", sinks={"db.b": ["p"], "db.c": ["p"]})
    BarrierWriter(catalog.table("db.b"), "waited for", ["p"])
    clock.millis += PENDING_MILLIS
    topology.register("planned", sinks={"db.b": ["q"]})
    topology.register("ended", sinks={"db.c": ["q"]})
    with pytest.raises(NotFoundError) as error:
        topology.drop("nobody")
    assert error.value.expected == "one of ended, planned, waited for"
    with pytest.raises(NotFoundError) as error:
        topology.renew("nobody")
    assert error.value.expected == "one of ended, planned, waited for"
    topology.drop("ended")
    left = [Path(name).name for name in sorted(files_of(tmp_path))]
    assert [name.removeprefix("widetable-writer-") for name in left] == [
        "planned",
        "waited for",
        "waited for",
    ]


@pytest.mark.parametrize(
    "name", ["a/b", "..", "%41", "x" * 200, "/" * 150, "\N{SNOWMAN}" * 60], ids=ascii
)
def test_every_name_of_a_writer_is_that_of_a_job(tmp_path: Path, name: str) -> None:
    catalog = catalog_of(tmp_path, "db.a")
    writer = catalog.writer("db.a", name)
    assert [job.name for job in catalog.topology().jobs()] == [name]
    assert len(files_of(tmp_path)) == 1
    writer.leave()
    assert files_of(tmp_path) == {}


def test_a_registration_that_cannot_be_read_is_passed_over_and_named(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, "db.a")
    writer = catalog.writer("db.a", "w", ["p"])
    (file,) = tmp_path.rglob("widetable-writer-*")
    file.write_bytes(b'{"job": 7}')
    assert "registration of a job" in run("doctor", catalog.table("db.a").path).stdout
    assert [job.sinks for job in catalog.topology().jobs()] == [(wt.JobSink("db.a", ()),)]
    writer.write({"id": [1], "p": [1]})
    assert catalog.writer("db.a", "w", ["p"]).name == "w"
    assert "registration of a job" not in run("doctor", catalog.table("db.a").path).stdout


@pytest.mark.parametrize(
    "refused",
    [
        lambda topology: topology.register("j", sources=["db.plain"], sinks={"db.a": None}),
        lambda topology: topology.register("j", sinks={"db.plain": None}),
        lambda topology: topology.register("j", sinks={}),
        lambda topology: topology.register("j", sinks={"db.a": ["nobody"]}),
        lambda topology: topology.register("j", sinks={"db.none": None}),
        lambda topology: topology.running("nobody"),
        lambda topology: topology.drop("nobody"),
        lambda topology: topology.downstream("db.plain"),
    ],
    ids=("source", "sink", "no sink", "column", "table", "running", "drop", "downstream"),
)
def test_what_is_not_there_or_under_no_barriers_is_refused(
    tmp_path: Path, refused: Callable[[Topology], object]
) -> None:
    catalog = catalog_of(tmp_path)
    plain = {"widetable.fsync": "false"}
    catalog.create_table("db.plain", {"id": "BIGINT"}, primary_key=["id"], options=plain)
    with pytest.raises((InvalidError, NotFoundError)):
        refused(catalog.topology())
    assert files_of(tmp_path) == {}


@pytest.mark.parametrize("tables", [("db.a", "db.b", "db.y"), ("db.a", "db.a", "db.b")])
def test_tables_that_come_to_other_barriers_are_no_job(
    tmp_path: Path, tables: tuple[str, str, str]
) -> None:
    catalog = catalog_of(tmp_path, "db.a", "db.y")
    catalog_of(tmp_path, "db.b", **{"widetable__barrier-interval": "20 ms"})
    *sources, sink = tables
    for read in (list(dict.fromkeys(sources)), []):
        sinks: dict[str, None] = dict.fromkeys((sink,) if read else ("db.y", "db.b"))
        with pytest.raises(InvalidError, match=r"db\.b with the interval 20 ms"):
            catalog.topology().register("j", sources=read, sinks=sinks)
    assert files_of(tmp_path) == {}


def test_branches_are_no_tables_of_jobs(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path)
    catalog.table("db.a").create_branch("b1")
    branch, topology = "db.a$branch_b1", catalog.topology()
    with pytest.raises(InvalidError, match="a branch"):
        topology.register("j", sources=[branch], sinks={"db.b": None})
    with pytest.raises(InvalidError, match="a branch"):
        topology.register("j", sources=["db.b"], sinks={branch: None})
    assert files_of(tmp_path) == {}


def test_who_was_dropped_and_goes_on_is_registered_again(tmp_path: Path) -> None:
    """With its next commit, whichever that is; unless somebody else has its columns by now."""
    catalog = catalog_of(tmp_path, "db.a")
    elsewhere = (
        "import sys, widetable as wt; wt.Catalog(sys.argv[1]).topology().drop('w', force=True)"
    )
    writer = catalog.writer("db.a", "w", ["p"])
    row = {"id": [1], "p": [1]}
    commits: list[Callable[[], wt.CommitResult]] = [
        lambda: writer.write(row, barrier=20),
        lambda: writer.complete(30),
        lambda: writer.write(row, barrier=40, complete=True),
    ]
    for commit in commits:
        subprocess.run([sys.executable, "-c", elsewhere, str(tmp_path)], check=True)
        assert catalog.topology().jobs() == []
        assert commit().committed
        (job,) = catalog.topology().jobs()
        assert (job.name, job.sinks) == ("w", (wt.JobSink("db.a", ("p",)),))
    assert writer.frontier == 40
    subprocess.run([sys.executable, "-c", elsewhere, str(tmp_path)], check=True)
    other = catalog.writer("db.a", "other", ["p"])
    for commit in commits:
        with pytest.raises(ConflictError, match="that job 'other' writes, too: 'p'"):
            commit()
    assert [job.name for job in catalog.topology().jobs()] == ["other"]
    assert other.write(row, barrier=50, complete=True).committed
    assert catalog.table("db.a").audit().findings == ()
    other.leave()
    assert writer.write(row, barrier=60, complete=True).committed
    writer.leave()
    assert catalog.topology().jobs() == []
    assert writer.write(row, barrier=70, complete=True).committed


def test_a_job_that_was_dropped_and_goes_on_is_registered_again(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, "db.a")
    table = catalog.table("db.a")
    told: list[tuple[object, ...]] = []
    job = JobWriter(table, "j", "1", ["p"], lambda *said: told.append(said))
    for number, end in enumerate((10, 20)):
        job.commit([], JobBatch(number, 0, None, (end - 10, end)))
    assert len(told) == 1
    let_leave(table, "j")
    job.commit([], JobBatch(2, 0, None, (20, 30)))
    member = job.member
    assert member is not None
    assert (len(told), member.kind, member.at, member.frontier) == (2, "derived", 30, 30)
    root = JobWriter(table, "r", "2", ["q"], lambda *said: told.append(said))
    root.commit([], JobBatch(0, 50))
    let_leave(table, "r")
    assert root.complete(60).committed
    assert [name for name, *_ in told] == ["j", "j", "r", "r"]


def test_a_writer_of_all_columns_writes_those_that_were_added(tmp_path: Path) -> None:
    catalog = catalog_of(tmp_path, "db.a")
    of_all = catalog.writer("db.a", "all")
    catalog.alter_table("db.a", add_columns=pa.schema([("n", pa.int64())]))
    of_all.write({"id": [1], "n": [5]}, barrier=10, complete=True)
    catalog.alter_table("db.a", rename_columns={"n": "m"}, drop_columns=["v"])
    of_all.write({"id": [1], "m": [6]}, barrier=20, complete=True)
    assert catalog.table("db.a").scan(["m"], barrier=20).to_arrow()["m"].to_pylist() == [6]
    of_all.leave()
    of_p = catalog.writer("db.a", "some", ["p"])
    with pytest.raises(InvalidError, match="a column of another writer"):
        of_p.write({"id": [1], "m": [7]}, barrier=30)
