"""Tables that jobs make go back to a barrier together, and are made again from there."""

from __future__ import annotations

import os
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

import widetable as wt
from tests.kill.killing_file_io import DiesAtPublish
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.faults.forked import in_a_child
from tests.support.models.revised_chain import Chain
from tests.support.tables.derived_job import Job, sink_table, source_table
from widetable.errors import ConflictError, InvalidError, NotFoundError, StorageError
from widetable.operations.barriers import session as session_module
from widetable.operations.handle.barrier_scan import barrier_changes, barrier_views
from widetable.operations.handle.open_table import OpenTable
from widetable.read.barrier_view import BarrierViews
from widetable.storage.local import LocalFileIO


def go_back(catalog: wt.Catalog, to: int) -> None:
    catalog.revise("d.y", to=to)


def files_of(table: wt.Table) -> set[str]:
    return set(table.inspect.files()["file_name"].to_pylist())


def all_files(warehouse: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in warehouse.rglob("*") if file.is_file()}


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_case_20_a_table_and_all_that_is_made_of_it_go_back(tmp_path: Path, producer: str) -> None:
    """Without a changelog r counts the records of y, one a barrier."""
    chain, is_kept = Chain(tmp_path, producer), producer == "lookup"
    chain.fill(10, 20, 30, 40, 50)
    at_30, at_50 = [(b, [b // 10, b // 5, 1 if is_kept else b // 10]) for b in (30, 50)]
    assert [chain.seen(barrier) for barrier in (30, 50)] == [at_30, at_50]
    before = all_files(tmp_path)
    planned = chain.catalog.revise("d.y", to=30, dry_run=True)
    assert all_files(tmp_path) == before
    assert (planned.number, planned.jobs) == (None, ("q", "r"))
    assert planned.to_dict()["tables"] == tuple(
        {"table": table, "barrier": 50, "to": 30, "commits": 2, "records": 2}
        for table in ("d.y", "d.z")
    )
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.fail("publish", Fault.BEFORE, "y/snapshot/")
    with pytest.raises(StorageError):
        wt.Catalog(tmp_path, file_io=storage).revise("d.y", to=30)
    assert chain.seen() == at_50  # z has gone back already
    assert chain.versions() == {"d.x": 1, "d.y": 1, "d.z": 1}
    done = chain.catalog.revise("d.y", to=30)
    assert (done.number, done.tables) == (1, planned.tables)
    assert chain.seen() == at_30
    assert chain.versions() == {"d.x": 1, "d.y": 2, "d.z": 2}
    q = chain.resumed("q", 3)
    assert q.run() == [40, 50]
    assert chain.resumed("r", 1 if is_kept else 3).run() == [40, 50]
    assert chain.seen() == (50, [5, 5, 1 if is_kept else 5])
    assert chain.y.scan(barrier=40).to_arrow()["x"].to_pylist() == [4]
    chain.audit()


def test_what_is_made_again_is_what_is_made_from_scratch(tmp_path: Path) -> None:
    revised, fresh = Chain(tmp_path / "a"), Chain(tmp_path / "b")
    revised.fill(10, 20, 30, 40, 50)
    fresh.fill(10, 20, 30, 40, 50, kind=Job)
    assert revised.catalog.revise("d.y", to=None).tables[0].to is None
    assert [table.scan().count() for table in revised.tables] == [5, 0, 0]
    with pytest.raises(NotFoundError, match=r"complete in d\.y"):
        revised.seen()
    assert revised.job("q").run() == [50]
    assert revised.job("r").run() == [50]
    assert revised.seen() == fresh.seen() == (50, [5, 5, 1])
    assert revised.y.changes(0, 50, mode="barrier")["x"].to_pylist() == [5]
    assert revised.versions() == {"d.x": 1, "d.y": 2, "d.z": 2}
    revised.audit()


def test_killed_at_any_write_another_process_goes_on(tmp_path: Path) -> None:
    """Expiry in between takes nothing of what is to come back."""
    made = Chain(tmp_path / "made")
    made.fill(10, 20, 30)
    states, deaths = [], 0
    for number in range(100):
        warehouse = tmp_path / str(number)
        shutil.copytree(made.warehouse, warehouse)
        dying = wt.Catalog(warehouse, file_io=DiesAtPublish(number))
        status = os.waitpid(in_a_child(partial(go_back, dying, 20)), 0)[1]
        chain = made.in_copy(warehouse)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        states.append(chain.seen()[0])
        if number % 3 == 0:
            for table in chain.tables:
                table.expire_snapshots(1, 1, 0)
        if (warehouse / "__meta.db").exists():
            assert chain.catalog.revise("d.y", to=20).number == 1
            assert chain.seen() == (20, [2, 4, 1])
            if number % 4 == 0:
                chain.audit()
        deaths += 1
        shutil.rmtree(warehouse)
    assert deaths > 8
    assert set(states) == {30}
    assert chain.seen() == (20, [2, 4, 1])
    assert chain.resumed("q", 2).run() == [30]
    assert chain.resumed("r", 1).run() == [30]
    assert chain.seen() == (30, [3, 3, 1])
    chain.audit()


def test_a_session_that_is_opened_meanwhile_sees_all_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The revision begins and ends between two of its tables."""
    chain = Chain(tmp_path)
    chain.fill(10, 20, 30)
    looked = []

    def between(table: OpenTable, revision: int | None = None) -> BarrierViews:
        looked.append(table.path)
        if len(looked) == 3:
            go_back(chain.catalog, 20)
        return barrier_views(table, revision)

    monkeypatch.setattr(session_module, "barrier_views", between)
    with chain.catalog.session() as session:
        monkeypatch.undo()
        assert (session.barrier, looked[2]) == (30, chain.z.path)
        rows = [session.table(f"d.{n}").scan().to_arrow().to_pylist() for n in "yz"]
        assert [row["x"] for row in rows[0]] == [6]
        assert chain.seen() == (20, [2, 4, 1])
        for table in chain.tables:
            table.expire_snapshots(1, 1, 0)
        assert [session.table(f"d.{n}").scan().to_arrow().to_pylist() for n in "yz"] == rows


def test_jobs_that_have_not_heard_of_it_are_refused(tmp_path: Path) -> None:
    """Q stands just where its table goes back to, and has a batch in hand."""
    chain = Chain(tmp_path)
    old_q, old_r = chain.fill(10, 20)
    chain.put(30)
    end = old_q.next_end()
    chain.catalog.revise("d.y", to=20)
    with pytest.raises(ConflictError, match="at revision 0 of the table, which is at 1 now"):
        old_q.run_batch(end or 0)
    for old in (old_q, old_r):
        with pytest.raises(ConflictError, match="gone back to a barrier since"):
            old.sources[next(iter(old.sources))].decided(old.at, None)
    new_q, new_r = chain.resumed("q", 2), chain.resumed("r", 1)
    assert (new_q.revision, new_q.run(), new_r.run()) == (1, [30], [30])
    assert chain.seen() == (30, [3, 3, 1])


def test_nobody_begins_while_one_has_not_ended(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.fill(10, 20, 30)
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.fail("publish", Fault.BEFORE, "-active")
    with pytest.raises(StorageError):
        wt.Catalog(tmp_path, file_io=storage).revise("d.y", to=20)
    topology, again = chain.catalog.topology(), r"catalog\.revise\('d\.y', to=20\)"
    assert chain.seen()[0] == 30
    # Both tables have gone back, and readers of changes still read what was before.
    assert chain.y.changes(20, 30, mode="barrier")["x"].to_pylist() == [4, 6]
    for call in (
        lambda: topology.register("q", sources=["d.x"], sinks={"d.y": None}),
        lambda: topology.running("r"),
        lambda: chain.catalog.writer("d.y", "q"),
        lambda: chain.catalog.writer("d.z", "another"),
        lambda: chain.catalog.revise("d.z", to=20),
        lambda: chain.catalog.revise("d.y", to=10),
    ):
        with pytest.raises(ConflictError, match=again):
            call()
    early = chain.job("q")
    chain.put(40)
    with pytest.raises(ConflictError, match="gone back to a barrier since"):
        early.run()
    assert chain.catalog.revise("d.y", to=20).number == 1
    topology.running("r")
    assert chain.catalog.revise("d.z", to=20, dry_run=True).jobs == ("r",)
    assert chain.catalog.writer("d.y", "q").frontier == 20


def test_changes_stop_at_a_revision(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.fill(10, 20, 30, 40)
    chain.catalog.revise("d.y", to=20)
    assert chain.resumed("q", 2).run() == [40]
    kinds = chain.y.changes(20, 40, mode="barrier").select(["x", "_row_kind"]).to_pylist()
    assert kinds[0] == {"x": 4, "_row_kind": "-U"}
    assert kinds[-1] == {"x": 4, "_row_kind": "+U"}
    for start in (0, 10):
        with pytest.raises(NotFoundError):
            chain.y.changes(start, 40, mode="barrier")
    with pytest.raises(NotFoundError, match="revision 1, which took the table back"):
        chain.y.scan(barrier=10)
    with pytest.raises(NotFoundError, match="revision 1"):
        chain.y.changes(10, 20, mode="barrier")


def test_files_that_come_back_have_other_names(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.fill(10, 20, 30)
    before = files_of(chain.y)
    chain.catalog.revise("d.y", to=20)
    assert before.isdisjoint(files_of(chain.y))
    for table in chain.tables:
        table.expire_snapshots(1, 1, 0)
    assert chain.seen() == (20, [2, 4, 1])
    chain.audit()


def test_what_cannot_be_made_again_is_refused(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.fill(10, 20, 30)
    before = all_files(tmp_path)
    for table, to, found in (
        ("d.x", 20, "no job makes from others; it is written by w"),
        ("d.y", 15, "15"),
        ("d.y", 40, "complete up to 30"),
        ("d.none", 20, "no table"),
    ):
        with pytest.raises((InvalidError, NotFoundError), match=found):
            chain.catalog.revise(table, to=to)
    assert all_files(tmp_path) == before
    sums = sink_table(tmp_path, "both", ["y"], **{"merge-engine": "partial-update"})
    topology = chain.catalog.topology()
    topology.register("s", sources=["d.y"], sinks={"d.both": []})
    topology.running("s")
    chain.catalog.writer("d.both", "hand", ["y"])
    with pytest.raises(InvalidError, match=r"hand, whose rows from outside in d\.both"):
        chain.catalog.revise("d.y", to=20)
    assert sums.scan().count() == 0


def test_a_job_must_find_the_changes_that_it_goes_on_with(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.fill(10, 20, 30, 40, 50)
    chain.x.expire_snapshots(1, 1, 0)
    with pytest.raises(NotFoundError, match=r"d\.db/x.*or to=None"):
        chain.catalog.revise("d.y", to=10)
    assert not (tmp_path / "__meta.db").exists()
    chain.catalog.revise("d.y", to=None)
    assert (chain.job("q").run(), chain.job("r").run()) == ([50], [50])


def test_what_a_job_writes_besides_goes_back_as_well(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.fill(10, 20)
    sink_table(tmp_path, "beside", ["n"])
    topology = chain.catalog.topology()
    topology.register("r", sources=["d.y"], sinks={"d.z": None, "d.beside": None})
    found = chain.catalog.revise("d.beside", to=10, dry_run=True)
    assert [(one.table, one.barrier, one.to) for one in found.tables] == [
        ("d.beside", None, None),
        ("d.z", 20, 10),
    ]
    assert found.jobs == ("r",)


def test_a_job_that_came_later_begins_anew(tmp_path: Path) -> None:
    """S makes one column of a table from y; t comes at 20 and makes another one from z."""
    chain = Chain(tmp_path)
    q, r = chain.fill(10)
    both = sink_table(tmp_path, "both", ["n", "y"], **{"merge-engine": "partial-update"})
    topology = chain.catalog.topology()
    for name, source, column in (("s", "d.y", "n"), ("t", "d.z", "y")):
        topology.register(name, sources=[source], sinks={"d.both": [column]})
    s = Job("s", {"n": chain.y}, both, run="s")
    t = Job("t", {"y": chain.z}, both, run="t")
    assert s.run() == [10]
    chain.put(20)
    assert [job.run() for job in (q, r, s, t)] == [[20]] * 4
    found = chain.catalog.revise("d.y", to=10)
    assert [(one.table, one.to) for one in found.tables][-1] == ("d.both", 10)
    members = barrier_views(both).newest().members
    assert {name: member.at for name, member in members.items()} == {"s": 10, "t": None}


def test_a_table_that_began_meanwhile_is_cleared_as_noted(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    q = chain.job("q")
    for barrier in (10, 20, 30):
        chain.put(barrier)
        q.run()
    old = chain.job("r")
    old.sources["y"]._plans.decide(0, 20)
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.fail("publish", Fault.BEFORE, "z/snapshot/")
    with pytest.raises(StorageError):
        wt.Catalog(tmp_path, file_io=storage).revise("d.y", to=30)
    assert old.run_batch(20).committed
    assert [one.to for one in chain.catalog.revise("d.y", to=30).tables] == [30, None]
    assert chain.z.scan().count() == 0
    assert chain.job("r").run() == [30]
    assert chain.seen() == (30, [3, 3, 1])


def test_changes_of_the_barrier_must_be_out(tmp_path: Path) -> None:
    """Behind it they would come with those of later barriers."""
    chain = Chain(tmp_path)
    q, r = chain.fill(10)
    chain.catalog.alter_table("d.z", set_options={"write-only": "true"})
    chain.put(20)
    assert (q.run(), r.run()) == ([20], [20])
    with pytest.raises(NotFoundError, match="at level 0, whose changes do not exist yet"):
        chain.catalog.revise("d.z", to=20)
    chain.z.compact()
    assert chain.catalog.revise("d.z", to=20).number == 1


def test_sources_keep_what_jobs_go_on_with(tmp_path: Path) -> None:
    """Also while the revision has not ended, and jobs of before go on; then until all tables have a newer barrier."""
    chain = Chain(tmp_path)
    old_q, _ = chain.fill(10, 20, 30)
    chain.catalog.topology().keep()
    storage = FaultyFileIO(LocalFileIO(fsync=False))
    storage.fail("publish", Fault.BEFORE, "y/snapshot/")
    with pytest.raises(StorageError):
        wt.Catalog(tmp_path, file_io=storage).revise("d.y", to=20)
    for barrier in range(40, 110, 10):
        chain.put(barrier)
        assert old_q.run() == [barrier]
    for table in chain.tables:
        table._consumers.delete("widetable-barriers")
        table.expire_snapshots(1, 1, 0)
    chain.catalog.revise("d.y", to=20)
    assert chain.x._consumers.next_snapshot("q") == barrier_changes(chain.x).first_needed(20)
    assert chain.resumed("q", 2).run()[-1] == 100
    for table in chain.tables:
        table.expire_snapshots(1, 1, 0)
    assert chain.seen() == (20, [2, 4, 1])
    assert chain.resumed("r", 1).run()[-1] == 100
    assert chain.seen() == (100, [10, 10, 1])
    chain.audit()


def test_notes_that_are_lost_leave_tables_as_they_are(tmp_path: Path) -> None:
    chain = Chain(tmp_path)
    chain.fill(10, 20, 30, 40)
    assert chain.catalog.revise("d.y", to=30).number == 1
    shutil.rmtree(tmp_path / "__meta.db")
    assert chain.seen() == (30, [3, 6, 1])
    assert chain.catalog.revise("d.y", to=30, dry_run=True).tables[0].barrier == 30
    with pytest.raises(NotFoundError, match="revision 1"):
        chain.catalog.revise("d.y", to=20)
    assert chain.catalog.revise("d.y", to=30).number == 2
    assert chain.seen() == (30, [3, 6, 1])


def test_tables_of_a_job_that_died_between_them_are_brought_to_one_barrier(tmp_path: Path) -> None:
    """With a lost checkpoint the first table is ahead of the second one for good; taken back, both go on together."""
    catalog = wt.Catalog(tmp_path)
    source = source_table(tmp_path, "x")
    sinks = [sink_table(tmp_path, name, ["x"]) for name in ("a", "b")]
    topology = catalog.topology()
    topology.register("q", sources=["d.x"], sinks={"d.a": None, "d.b": None})
    topology.running("q")
    root = catalog.writer("d.x", "w")
    for barrier in (10, 20):
        root.write({"id": [barrier], "v": [1]}, barrier=barrier, complete=True)
    lead = Job("q", {"x": source}, sinks[0])
    follower = Job("q", {"x": source}, sinks[1])
    follower.sources = lead.sources  # one query
    lead.sources["x"]._plans.decide(0, 10)
    for job, ends in ((lead, (10, 20)), (follower, (10,))):
        for end in ends:
            job.run_batch(end)
    again = Job("q", {"x": source}, sinks[1], run="2")
    again.at = 20
    root.write({"id": [30], "v": [1]}, barrier=30, complete=True)
    with pytest.raises(ConflictError, match="records up to 10"):
        again.run_batch(30)
    assert catalog.revise("d.b", to=10).jobs == ("q",)
    for sink in sinks:
        job = Job("q", {"x": source}, sink, run="3")
        job.counts.update({"x": 1})  # what it has kept by itself
        job.at = 10
        job.run_batch(30)
        assert sink.scan(barrier=30).to_arrow()["x"].to_pylist() == [3]
