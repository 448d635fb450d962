"""Tables that were under no barriers for a while: what they had belongs to the first complete barrier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.programs.command_line import run
from tests.support.tables.barrier_tables import (
    NAME,
    UNDER_BARRIERS,
    commit_without_barriers,
    named_table,
    newest_snapshot,
    plain_table,
    properties,
    rows_of,
    write_as_another_client,
)
from tests.support.tables.derived_job import Job, sink_table, source_table
from tests.support.tables.later_barriers import OLD, old_table, put
from widetable.errors import (
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from widetable.operations.handle.barrier_scan import barrier_views
from widetable.storage.local import LocalFileIO

IO = LocalFileIO(fsync=False)


def expire_all_but_one(table: wt.Table) -> None:
    table.expire_snapshots(1, 1, 0)


def test_rows_of_before_belong_to_the_first_complete_barrier(tmp_path: Path) -> None:
    table = old_table(tmp_path)
    catalog = put(tmp_path)
    with pytest.raises(NotFoundError, match="complete up to no barrier"):
        table.scan(barrier=20)
    writer = catalog.writer(NAME, "w", ["b"])
    writer.write({"id": [2, 3], "b": [1, 2]}, barrier=40)
    with pytest.raises(NotFoundError, match=r"complete up to no barrier; missing: w \(at 0\)"):
        table.scan(barrier=40)
    writer.complete(40)
    rows = [(1, 10, None, None), (2, 20, 1, None), (3, None, 2, None)]
    assert rows_of(table.scan(barrier=40)) == rows_of(table.scan()) == rows
    writer.write({"id": [1], "b": [9]}, barrier=50, complete=True)
    assert rows_of(table.scan(barrier=40)) == rows
    for earlier in (10, 30):
        with pytest.raises(
            NotFoundError,
            match=r"the first one that the table completed under barriers.*40 or a later",
        ):
            table.scan(barrier=earlier)
    with catalog.session([NAME]) as session:
        assert session.barrier == 50
    assert not table.audit().findings


def test_it_is_put_under_barriers_by_the_command_line(tmp_path: Path) -> None:
    table = old_table(tmp_path)
    done = run("alter", table.path, "--set", "widetable.barrier-interval=10 ms")
    assert not done.exit_code, done.stderr
    assert json.loads(properties(table)["widetable.barriers"])["since"] == 3
    wt.Catalog(tmp_path).writer(NAME, "w").complete(10)
    read = run("read", table.path, "--barrier", "10")
    assert [json.loads(line)["a"] for line in read.stdout.splitlines()] == [10, 20]
    shown = json.loads(run("inspect", table.path, "--what", "barriers", "--json").stdout)
    assert [(row["writer"], row["table_barrier"]) for row in shown["barriers"]] == [("w", 10)]


def test_the_interval_stays_once_there_is_one(tmp_path: Path) -> None:
    old_table(tmp_path)
    catalog = put(tmp_path)
    catalog.alter_table(NAME, set_options=UNDER_BARRIERS)  # as it is
    for change in (
        {"set_options": {"widetable.barrier-interval": "20 ms"}},
        {"remove_options": ["widetable.barrier-interval"]},
    ):
        with pytest.raises(InvalidError, match=r"the value that the table has.*Another interval"):
            catalog.alter_table(NAME, **change)
    named_table(tmp_path, "shop.born")
    with pytest.raises(InvalidError, match="the value that the table has"):
        catalog.alter_table("shop.born", set_options={"widetable.barrier-interval": "20 ms"})


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"changelog_producer": "full-compaction"}, "changelog-producer"),
        ({"bucket": "-1"}, "bucket"),
        ({"deletion_vectors__enabled": "true"}, "deletion-vectors.enabled"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_as_it_is(
    tmp_path: Path, options: dict[str, str], named: str
) -> None:
    table = old_table(tmp_path, **options)
    before = len(table.snapshots())
    with pytest.raises(UnsupportedError, match=named):
        put(tmp_path)
    assert len(table.snapshots()) == before
    table.write({"id": [3], "a": [30]})
    assert rows_of(table.scan()) == [*OLD, (3, 30, None, None)]


def test_an_empty_table_begins_as_one_that_was_made_under_barriers(tmp_path: Path) -> None:
    table = plain_table(tmp_path)
    writer = put(tmp_path).writer(NAME, "w")
    writer.write({"id": [1], "a": [1]}, barrier=20, complete=True)
    assert "since" not in json.loads(properties(table)["widetable.barriers"])
    assert rows_of(table.scan(barrier=10)) == []
    assert rows_of(table.scan(barrier=20)) == [(1, 1, None, None)]


def test_the_history_of_before_may_have_expired(tmp_path: Path) -> None:
    table = old_table(tmp_path)
    expire_all_but_one(table)
    catalog = put(tmp_path)
    expire_all_but_one(table)
    writer = catalog.writer(NAME, "w", ["b"])
    writer.write({"id": [1], "b": [5]}, barrier=20, complete=True)
    table.compact(full=True)
    expire_all_but_one(table)
    assert rows_of(table.scan(barrier=20)) == [(1, 10, 5, None), (2, 20, None, None)]
    with pytest.raises(NotFoundError, match="20 or a later"):
        table.scan(barrier=10)
    assert not table.audit().findings


def test_a_table_that_only_another_client_has_written_begins_too(tmp_path: Path) -> None:
    """Its snapshots say nothing, and the first ones have expired."""
    table = plain_table(tmp_path)
    for id, a, _, _ in OLD:
        write_as_another_client(table, {"id": [id], "a": [a]})
    expire_all_but_one(table)
    writer = put(tmp_path).writer(NAME, "w")
    writer.complete(20)
    assert rows_of(table.scan(barrier=20)) == OLD
    commit_without_barriers(table, {"id": [5], "c": [5]})
    assert rows_of(table.scan(barrier=20)) == OLD
    writer.complete(30)
    assert rows_of(table.scan(barrier=30)) == [*OLD, (5, None, None, 5)]


@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "another client's"])
def test_who_is_killed_between_schema_and_snapshot_may_do_it_again(
    tmp_path: Path, theirs: bool
) -> None:
    table = old_table(tmp_path)
    if theirs:
        for id in (1, 2):
            file = Path(table.path) / "snapshot" / f"snapshot-{id}"
            file.write_text(json.dumps({**json.loads(file.read_bytes()), "properties": {}}))
        expire_all_but_one(table)
    files = FaultyFileIO(IO)
    files.fail("publish", Fault.BEFORE, "/snapshot-", times=99)
    with pytest.raises(StorageError):
        wt.Catalog(tmp_path, file_io=files).alter_table(NAME, set_options=UNDER_BARRIERS)
    assert table.schema.options["widetable.barrier-interval"]
    with pytest.raises(InvalidError, match="without a writer"):
        table.write({"id": [3], "a": [30]})
    assert rows_of(table.scan()) == OLD
    catalog = wt.Catalog(tmp_path)
    if theirs:
        with pytest.raises(NotFoundError, match="set the option again"):
            catalog.writer(NAME, "w")
        put(tmp_path)
    else:
        with pytest.raises(NotFoundError, match="complete up to no barrier"):
            table.scan(barrier=10)
        table.compact()
    catalog.writer(NAME, "w").complete(20)
    assert json.loads(properties(table)["widetable.barriers"])["waiting"] in (10, None)
    assert rows_of(table.scan(barrier=20)) == OLD
    with pytest.raises(NotFoundError, match="20 or a later"):
        table.scan(barrier=10)
    assert not table.audit().findings


def test_what_waited_for_its_changelog_has_it_with_the_first_barrier(tmp_path: Path) -> None:
    table = old_table(tmp_path, write_only="true", changelog_producer="lookup")
    assert followed(table) == []
    writer = put(tmp_path).writer(NAME, "w", ["b"])
    writer.write({"id": [1], "b": [1]}, barrier=20)
    table.compact()
    assert followed(table) == []
    writer.complete(20)
    table.compact()
    assert followed(table) == [("+I", 1, 10, 1), ("+I", 2, 20, None)]
    writer.write({"id": [2], "b": [2]}, barrier=30, complete=True)
    table.compact()
    assert followed(table) == [("-U", 2, 20, None), ("+U", 2, 20, 2)]
    changes = table.changes(20, 30, mode="barrier").to_pylist()
    assert [row["_row_kind"] for row in changes] == ["-U", "+U"]
    with pytest.raises(NotFoundError, match="in which the table was not under barriers"):
        table.changes(0, 30, mode="barrier")
    with pytest.raises(
        NotFoundError, match="the first one that the table completed under barriers"
    ):
        table.changes(10, 30, mode="barrier")


def followed(table: wt.Table) -> list[tuple[Any, ...]]:
    """What is new to the consumer `reader`: (kind, id, a, b)."""
    batches = table.follow("reader", "from-snapshot", snapshot_id=1, timeout=0)
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row["_row_kind"], row["id"], row["a"], row["b"]) for row in rows]


def test_sessions_read_it_with_tables_that_were_made_under_barriers(tmp_path: Path) -> None:
    table = old_table(tmp_path)
    named_table(tmp_path, "shop.born")
    catalog = wt.Catalog(tmp_path)
    born = catalog.writer("shop.born", "w")
    born.write({"id": [1], "a": [1]}, barrier=20, complete=True)
    later = put(tmp_path).writer(NAME, "w")
    names = [NAME, "shop.born"]
    with pytest.raises(NotFoundError, match=f"none that is complete in {NAME}; missing: w"):
        catalog.session(names)
    later.complete(40)
    with pytest.raises(
        NotFoundError, match=f"up to 20 of shop.born, and those of {NAME} from 40 on"
    ):
        catalog.session(names)
    born.write({"id": [1], "a": [2]}, barrier=40, complete=True)
    with catalog.session() as session:
        assert session.barrier == 40
        assert rows_of(session.table(NAME).scan()) == OLD
        assert rows_of(session.table("shop.born").scan()) == [(1, 2, None, None)]
    assert table.scan(barrier=40).snapshot_id is not None


def test_what_is_staged_shows_no_barrier_before_the_first(tmp_path: Path) -> None:
    old_table(tmp_path, widetable__barrier_stage="false")
    named_table(tmp_path, "shop.born", widetable__barrier_stage="true")
    catalog = wt.Catalog(tmp_path)
    catalog.alter_table(NAME, set_options={**UNDER_BARRIERS, "widetable.barrier-stage": "true"})
    catalog.writer("shop.born", "w").complete(20)
    files, shown = FaultyFileIO(IO), []

    def look() -> None:
        with pytest.raises(NotFoundError):
            catalog.session(consistency="ReadCommitted")
        catalog.writer("shop.born", "w").complete(40)
        with catalog.session(consistency="ReadCommitted") as session:
            shown.append((session.barrier, rows_of(session.table(NAME).scan())))

    writer = wt.Catalog(tmp_path, file_io=files).writer(NAME, "w", ["b"])
    files.run_before("publish", look, "/snapshot-")
    writer.write({"id": [1], "b": [1]}, barrier=40, complete=True)
    assert shown == [(40, [(1, 10, 1, None), OLD[1]])]


@pytest.mark.parametrize("producer", ["none", "lookup"])
def test_jobs_begin_with_its_rows_and_go_on_with_its_changes(tmp_path: Path, producer: str) -> None:
    """Two sources, one of which was made under barriers."""
    table = old_table(tmp_path, changelog_producer=producer)
    catalog = put(tmp_path)
    born, sink = source_table(tmp_path, "born"), sink_table(tmp_path, "z", ["later", "born"])
    job = Job("count", {"later": table, "born": born}, sink)
    later, other = catalog.writer(NAME, "w"), catalog.writer("d.born", "w")
    other.write({"id": [1], "v": [1]}, barrier=20, complete=True)
    later.write({"id": [3], "a": [30]}, barrier=40, complete=True)
    assert job.run() == []
    for barrier in (40, 50):
        other.write({"id": [barrier], "v": [1]}, barrier=barrier, complete=True)
    assert job.run() == [40]
    assert job.counts == {"later": 3, "born": 2}
    later.write({"id": [4], "a": [40]}, barrier=50, complete=True)
    assert job.run() == [50]
    assert job.counts == {"later": 4, "born": 3}
    assert sink.scan(barrier=50).to_arrow().to_pylist() == [{"id": 0, "later": 4, "born": 3}]


def test_nobody_says_that_a_writer_holds_it_since_before(
    tmp_path: Path,
) -> None:
    table = old_table(tmp_path)
    _age(table, 3_600_000)
    catalog = put(tmp_path)
    catalog.writer(NAME, "wa").write({"id": [1], "a": [1]}, barrier=20)
    catalog.writer(NAME, "wb", [])
    assert not [f for f in table.doctor().findings if "writer" in f.subject]


def _age(table: wt.Table, millis: int) -> None:
    for file in (Path(table.path) / "snapshot").glob("snapshot-*"):
        body = json.loads(file.read_bytes())
        body["timeMillis"] -= millis
        file.write_text(json.dumps(body))


def test_meta_shows_its_barriers_from_the_first_on(tmp_path: Path) -> None:
    old_table(tmp_path)
    catalog = put(tmp_path)
    topology = catalog.topology()
    writer = catalog.writer(NAME, "w", ["b"])
    writer.write({"id": [1], "b": [1]}, barrier=20)
    assert [each.barrier for each in topology.tables()] == [None]
    writer.complete(40)
    assert [each.barrier for each in topology.tables()] == [40]
    found = [(b.barrier, b.is_exact) for b in topology.barriers(NAME)]
    assert found == [(40, True), (50, False)]
    assert topology.common_barrier() == 40
    assert [(d.table, d.barrier) for d in topology.delays().tables] == [(NAME, 40)]
    with pytest.raises(NotFoundError):
        topology.delays(20)
    topology.rebuild()
    rows = catalog.table("__meta.__META_BARRIER").scan().to_arrow().to_pylist()
    assert [(row["barrier"], row["snapshot_id"]) for row in rows] == [(40, newest_id(catalog))]


def test_meta_takes_no_history_of_a_table_of_the_same_name(tmp_path: Path) -> None:
    named_table(tmp_path, NAME)
    catalog = wt.Catalog(tmp_path)
    catalog.writer(NAME, "w").complete(10)
    catalog.topology().rebuild()
    catalog.drop_table(NAME)
    old_table(tmp_path)
    put(tmp_path).writer(NAME, "w").complete(40)
    catalog.topology().rebuild()
    rows = catalog.table("__meta.__META_BARRIER").scan(["barrier"]).to_arrow()
    assert rows["barrier"].to_pylist() == [40]


def newest_id(catalog: wt.Catalog) -> int:
    return catalog.table(NAME).snapshots()[-1].id


def test_a_revision_does_not_take_rows_of_before(tmp_path: Path) -> None:
    old_table(tmp_path)
    catalog = put(tmp_path)
    named_table(tmp_path, "shop.source")
    source = catalog.writer("shop.source", "clicks")
    topology = catalog.topology()
    topology.register("job", sources=["shop.source"], sinks={NAME: None})
    topology.running("job")
    job = catalog.writer(NAME, "job")
    for barrier in (20, 30):
        source.complete(barrier)
        job.write({"id": [1], "a": [barrier]}, barrier=barrier, complete=True)
    for to in (None, 10):
        with pytest.raises(InvalidError, match=r"before the table was put under barriers.*20"):
            catalog.revise(NAME, to=to)
    catalog.revise(NAME, to=20)
    with pytest.raises(InvalidError, match="before the table was put under barriers"):
        catalog.revise(NAME, to=None)
    assert rows_of(catalog.table(NAME).scan()) == [(1, 20, None, None), OLD[1]]
    with pytest.raises(NotFoundError):
        catalog.table(NAME).scan(barrier=10)
    job = catalog.writer(NAME, "job")
    job.write({"id": [1], "a": [31]}, barrier=30, complete=True)
    assert rows_of(catalog.table(NAME).scan(barrier=30))[0] == (1, 31, None, None)
    assert not catalog.table(NAME).audit().findings


def test_a_branch_may_be_under_barriers_and_main_does_not_go_on_as_it(tmp_path: Path) -> None:
    table = old_table(tmp_path)
    table.create_tag("now")
    table.create_branch("b", tag="now")
    catalog, name = wt.Catalog(tmp_path), f"{NAME}$branch_b"
    catalog.alter_table(name, set_options=UNDER_BARRIERS)
    branch = catalog.table(name)
    catalog.writer(name, "w").complete(20)
    assert rows_of(branch.scan(barrier=20)) == OLD
    table.write({"id": [3], "a": [30]})
    for how in ({}, {"replace": True}, {"replace": True, "dry_run": True}):
        with pytest.raises(UnsupportedError, match=r"branch-b.*barrier-interval"):
            table.fast_forward("b", **how)
    assert rows_of(table.scan()) == [*OLD, (3, 30, None, None)]


def test_a_table_whose_partitions_have_buckets_of_different_numbers(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    table = catalog.create_table(
        "shop.parts",
        {"p": "BIGINT", "id": "BIGINT", "a": "BIGINT"},
        primary_key=["p", "id"],
        partition_by=["p"],
        options={"bucket": "1", "widetable.fsync": "false"},
    )
    rows = {"p": [0, 0, 1, 1], "id": [1, 2, 3, 4], "a": [1, 2, 3, 4]}
    table.write(rows)
    table.rescale(3, [{"p": 1}])
    catalog.alter_table("shop.parts", set_options=UNDER_BARRIERS)
    writer = catalog.writer("shop.parts", "w")
    for barrier in (20, 30):
        values = {**rows, "a": [barrier + id for id in range(4)]}
        writer.write(values, barrier=barrier, complete=True)
    table.compact(full=True)
    for barrier in (20, 30):
        found = table.scan(barrier=barrier).to_arrow().sort_by("id")
        assert found["a"].to_pylist() == [barrier + id for id in range(4)]
    assert not table.audit().findings
    with pytest.raises(UnsupportedError, match="barrier-interval"):
        table.rescale(2)


def test_the_state_says_since_when(tmp_path: Path) -> None:
    table = old_table(tmp_path)
    catalog = put(tmp_path)
    body = json.loads(newest_snapshot(table).read_bytes())
    assert (body["commitKind"], body["deltaRecordCount"]) == ("APPEND", 0)
    assert json.loads(body["properties"]["widetable.barriers"]) == {
        "interval": 10,
        "revision": 0,
        "frontier": 0,
        "highest": 10,
        "moved": 10,
        "waiting": 10,
        "left": {},
        "since": 3,
        "first": 0,
        "writers": {},
    }
    catalog.writer(NAME, "w").complete(40)
    said = json.loads(properties(table)["widetable.barriers"])
    assert (said["since"], said["first"]) == (3, 40)
    assert list(barrier_views(table).ids) == [3, 4, 5]
