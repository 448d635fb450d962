"""Tables under barriers: who is waited for, what a barrier shows, and that it shows the same for ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.programs.command_line import run
from tests.support.tables.barrier_tables import (
    NAME,
    commit_without_barriers,
    new_table,
    newest_snapshot,
    properties,
    rows_of,
    writers,
)
from widetable.arguments import LARGEST
from widetable.errors import ConflictError, InvalidError, NotFoundError, UnsupportedError
from widetable.operations.barriers.barrier_writer import BarrierWriter
from widetable.runtime.worker_thread import in_threads
from widetable.schema.barrier_options import BARRIER_INTERVAL


def test_a_barrier_is_read_with_files_of_later_snapshots(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wa, wb = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=10, complete=True)
    wa.write({"id": [1], "a": [2]}, barrier=20, complete=True)
    wb.write({"id": [1], "b": [5]}, barrier=10, complete=True)
    scan = table.scan(barrier=10)
    assert rows_of(scan) == [(1, 1, 5, None)]
    assert (scan.barrier, scan.snapshot_id) == (10, None)
    assert rows_of(table.scan()) == [(1, 2, 5, None)]
    with pytest.raises(NotFoundError, match=r"complete up to 10; missing: wb \(at 10\)"):
        table.scan(barrier=20)
    wb.complete(20)
    assert rows_of(table.scan(barrier=20)) == [(1, 2, 5, None)]
    assert rows_of(scan) == rows_of(table.scan(barrier=10)) == [(1, 1, 5, None)]


def test_another_client_reads_a_barrier_that_is_a_snapshot_by_its_id(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wa, wb = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=10, complete=True)
    wb.write({"id": [1], "b": [5]}, barrier=10, complete=True)
    wa.write({"id": [1], "a": [2]}, barrier=20)
    scan = table.scan(barrier=10)
    assert scan.snapshot_id is not None
    assert rows_of(table.scan(snapshot_id=scan.snapshot_id)) == rows_of(scan) == [(1, 1, 5, None)]


def test_an_idle_writer_completes_barriers_without_files(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wa, wb = writers(tmp_path)
    for barrier in (10, 20, 30, 40, 50):
        wa.write({"id": [barrier], "a": [barrier]}, barrier=barrier, complete=True)
    result = wb.complete(50)
    assert (result.committed, result.files) == (True, 0)
    assert len(rows_of(table.scan(barrier=50))) == 5
    assert [len(rows_of(table.scan(barrier=t))) for t in (10, 20, 30, 40)] == [1, 2, 3, 4]
    assert not wb.complete(50).committed


def test_files_of_tasks_belong_to_the_barrier_that_their_commit_names(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wa, wb = writers(tmp_path)
    wb.complete(20)
    base = table.sequence_base()
    messages = []
    for task in range(2):
        with table.new_writer(
            ["id", "a"], task=task, tasks=2, sequence_base=base, named=True
        ) as writer:
            writer.write({"id": [task], "a": [7]})
            messages += writer.finish()
    wa.commit_append(messages[:1], 1, barrier=10, complete=True, properties={"part": "one"})
    assert properties(table)["part"] == "one"
    wa.commit_append(messages[1:], 2, barrier=20)
    assert rows_of(table.scan(barrier=10)) == [(0, 7, None, None)]
    with pytest.raises(NotFoundError, match="wa"):
        table.scan(barrier=20)
    wa.complete(20)
    assert rows_of(table.scan(barrier=20)) == [(0, 7, None, None), (1, 7, None, None)]
    assert wa.last_identifier == 2
    assert not wa.commit_append(messages[1:], 2, barrier=30).committed


def test_files_of_a_writer_whose_name_was_taken_are_refused(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    older, _ = writers(tmp_path)
    newer, _ = writers(tmp_path)
    with table.new_writer(["id", "a"], named=True) as writer:
        writer.write({"id": [1], "a": [1]})
        messages = writer.finish()
    newer.write({"id": [2], "a": [2]}, 1, barrier=10)
    with pytest.raises(ConflictError, match="another process"):
        older.commit_append(messages, 1, barrier=10)


def test_a_batch_that_was_overtaken_belongs_to_the_next_barrier(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wa, wb = writers(tmp_path)
    wa.complete(20)
    wb.complete(20)
    before = rows_of(table.scan(barrier=20))
    wb.write({"id": [7], "b": [1]}, barrier=20, complete=True)
    assert properties(table)["widetable.barrier"] == "30"
    assert rows_of(table.scan(barrier=20)) == before == []
    with pytest.raises(NotFoundError, match=r"wa.*wb"):
        table.scan(barrier=30)
    wa.complete(30)
    wb.complete(30)
    assert rows_of(table.scan(barrier=30)) == [(7, None, 1, None)]


def test_who_left_and_returns_opens_no_barrier_that_was_complete(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wa, wb = writers(tmp_path)
    wb.write({"id": [1], "b": [1]}, barrier=20, complete=True)
    wa.write({"id": [1], "a": [1]}, barrier=60, complete=True)
    with pytest.raises(NotFoundError, match=r"wb \(at 20\)"):
        table.scan(barrier=60)
    wb.leave()
    assert wb.frontier is None
    before = rows_of(table.scan(barrier=60))
    wb.write({"id": [1], "b": [9]}, barrier=30, complete=True)
    assert properties(table)["widetable.barrier"] == "70"
    assert rows_of(table.scan(barrier=60)) == before == [(1, 1, 1, None)]
    assert wb.frontier == 60


def test_commits_without_a_writer_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    table_files = set(Path(table.path).rglob("*"))
    rows = {"id": [1], "a": [1]}
    with pytest.raises(InvalidError, match=r"Catalog\.writer"):
        table.write(rows)
    refused: tuple[Callable[[], object], ...] = (
        lambda: table.new_writer(["id", "a"]),
        lambda: table.check_write_columns(pa.table(rows).schema),
        lambda: table.delete_keys([1]),
        lambda: table.delete("id = 1", dry_run=True),
        lambda: table.commit_append([], properties={"widetable.barrier": "10"}),
    )
    for append in refused:
        with pytest.raises((InvalidError, UnsupportedError)):
            append()
    assert {p for p in Path(table.path).rglob("*") if p.is_file()} == {
        p for p in table_files if p.is_file()
    }


@pytest.mark.parametrize(
    "take_away",
    [
        lambda table: table.overwrite({"id": [1], "a": [1]}),
        lambda table: table.rescale(2),
        lambda table: table.rollback(snapshot_id=1),
        lambda table: table.rollback(snapshot_id=1, dry_run=True),
        lambda table: table.commit_overwrite([], whole_table=True),
        lambda table: wt.Catalog(Path(table.path).parent.parent).copy_table(NAME, "shop.copy"),
    ],
    ids=["overwrite", "rescale", "rollback", "dry rollback", "commit_overwrite", "copy"],
)
def test_rows_of_complete_barriers_are_not_taken_away(
    tmp_path: Path, take_away: Callable[[wt.Table], object]
) -> None:
    table = new_table(tmp_path)
    wa, _ = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=10)
    with pytest.raises(UnsupportedError, match="barrier-interval"):
        take_away(table)
    assert table.schema.num_buckets == 1
    assert rows_of(table.scan()) == [(1, 1, None, None)]


def test_rows_of_another_client_belong_to_the_next_barrier(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wa, wb = writers(tmp_path)
    wa.complete(20)
    wb.complete(20)
    commit_without_barriers(table, {"id": [5], "c": [5]})
    assert rows_of(table.scan(barrier=20)) == []
    wa.complete(30)
    wb.complete(30)
    assert rows_of(table.scan(barrier=30)) == [(5, None, None, 5)]
    assert rows_of(table.scan(barrier=20)) == []


def test_the_process_that_was_made_last_has_the_name(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    old, _ = writers(tmp_path)
    old.write({"id": [1], "a": [1]}, identifier=1, barrier=10, complete=True)
    new = wt.Catalog(tmp_path).writer(NAME, "wa", ["a"])
    attempts: tuple[Callable[[], object], ...] = (
        lambda: old.write({"id": [1], "a": [2]}, identifier=2),
        old.complete,
        old.leave,
    )
    for refused in attempts:
        with pytest.raises(ConflictError, match="another process"):
            refused()
    assert not new.write({"id": [1], "a": [1]}, identifier=1).committed
    assert new.frontier == 10
    assert rows_of(table.scan()) == [(1, 1, None, None)]


def test_a_writer_writes_its_own_columns(tmp_path: Path) -> None:
    new_table(tmp_path)
    wa, _ = writers(tmp_path)
    with pytest.raises(InvalidError, match="column 'b'"):
        wa.write({"id": [1], "b": [1]})


def test_expiry_keeps_the_newest_complete_barrier(tmp_path: Path) -> None:
    table = new_table(tmp_path, widetable__barriers_kept="0")
    wa, wb = writers(tmp_path)
    for barrier in (10, 20):
        wa.write({"id": [1], "a": [barrier]}, barrier=barrier, complete=True)
        wb.write({"id": [1], "b": [barrier]}, barrier=barrier, complete=True)
    for barrier in range(30, 130, 10):
        wa.write({"id": [1], "a": [barrier]}, barrier=barrier, complete=True)
        table.compact(full=True)
    table.expire_snapshots(1, 1)
    assert rows_of(table.scan(barrier=20)) == [(1, 20, 20, None)]
    with pytest.raises(NotFoundError, match=r"has expired.*20 or a later one"):
        table.scan(barrier=10)
    wb.complete(120)
    table.expire_snapshots(1, 1)
    assert rows_of(table.scan(barrier=120)) == [(1, 120, 20, None)]


def test_writers_that_race_complete_what_they_say(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    done: list[str] = []

    def run(name: str, column: str) -> None:
        writer = wt.Catalog(tmp_path).writer(NAME, name, [column])
        for barrier in range(10, 110, 10):
            ids = list(range(barrier))
            writer.write({"id": ids, column: ids}, barrier=barrier, complete=True)
        done.append(name)

    first = wt.Catalog(tmp_path).writer(NAME, "first", [])
    threads = [threading.Thread(target=run, args=(f"w{c}", c)) for c in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first.leave()
    assert sorted(done) == ["wa", "wb", "wc"]
    for barrier in range(10, 110, 10):
        assert rows_of(table.scan(barrier=barrier)) == [(i, i, i, i) for i in range(barrier)]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"changelog_producer": "full-compaction"}, "changelog-producer"),
        ({"bucket": "-1"}, "bucket"),
        ({"deletion_vectors__enabled": "true"}, "deletion-vectors.enabled"),
        ({"widetable__barrier_interval": "0 ms"}, "widetable.barrier-interval"),
    ],
)
def test_options_that_do_not_go_with_barriers_are_refused(
    tmp_path: Path, options: dict[str, str], named: str
) -> None:
    with pytest.raises((UnsupportedError, InvalidError), match=named):
        new_table(tmp_path, **options)


def test_it_is_shown_who_is_waited_for(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wa, wb = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=20, complete=True)
    wb.write({"id": [1], "b": [1]}, barrier=20)
    wb.complete(10)
    found = table.inspect.barriers().drop_columns(["run", "kind"]).to_pylist()
    assert found == [
        {
            "writer": "wa",
            "complete_barrier": 20,
            "last_barrier": 20,
            "table_barrier": 10,
            "is_slowest": False,
        },
        {
            "writer": "wb",
            "complete_barrier": 10,
            "last_barrier": 20,
            "table_barrier": 10,
            "is_slowest": True,
        },
    ]
    wb.leave()
    assert table.inspect.barriers()["table_barrier"].to_pylist() == [20]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"frontier": 10}, "a frontier of 20 or later"),
        ({"highest": 10}, "a highest of 20 or later"),
        ({"frontier": 40}, "complete up to 30"),
        ({"highest": 20}, "records of a barrier after 20, up to 20"),
        ({"waiting": None}, "20 waiting at level 0"),
        ({"interval": "ten"}, "interval"),
    ],
)
def test_an_audit_finds_barriers_that_do_not_follow(
    tmp_path: Path, wrong: dict[str, int], said: str
) -> None:
    table = new_table(tmp_path)
    wa = wt.Catalog(tmp_path).writer(NAME, "wa", ["a"])
    wa.write({"id": [1], "a": [1]}, barrier=20, complete=True)
    wa.write({"id": [1], "a": [2]}, barrier=30, complete=True)
    assert not table.audit().findings
    file = newest_snapshot(table)
    body = json.loads(file.read_bytes())
    state = json.loads(body["properties"]["widetable.barriers"])
    body["properties"]["widetable.barriers"] = json.dumps({**state, **wrong})
    file.write_text(json.dumps(body))
    findings = [str(finding) for finding in table.audit().findings]
    assert findings
    assert any(said in finding for finding in findings)
    assert all(finding.startswith("barriers: snapshot 3") for finding in findings)


def test_a_table_without_the_option_has_no_barriers(tmp_path: Path) -> None:
    catalog = wt.Catalog(tmp_path)
    options = {"widetable.fsync": "false"}
    table = catalog.create_table(NAME, {"id": "BIGINT"}, primary_key=["id"], options=options)
    table.write({"id": [1]})
    assert not [key for key in properties(table) if "barrier" in key or key.endswith("writer")]
    with pytest.raises(InvalidError, match="barrier-interval"):
        catalog.writer(NAME, "w")
    with pytest.raises(InvalidError, match="barrier-interval"):
        table.scan(barrier=10)


def test_a_table_under_barriers_gets_no_option_that_does_not_go_with_them(tmp_path: Path) -> None:
    new_table(tmp_path)
    with pytest.raises(UnsupportedError, match="changelog-producer"):
        wt.Catalog(tmp_path).alter_table(
            NAME, set_options={"changelog-producer": "full-compaction"}
        )


def test_thirty_two_writers_at_once_complete_what_they_say(tmp_path: Path) -> None:
    table = new_table(tmp_path, write_only="true")
    # Of the same column: whose keys are disjoint is known to them only, so they are not registered.
    joined = [BarrierWriter(table, f"w{i}", None) for i in range(32)]

    def run(number: int) -> None:
        for barrier in (10, 20):
            rows = {"id": [number], "a": [barrier]}
            joined[number].write(rows, barrier, barrier=barrier, complete=True)

    in_threads(run, range(32), 32, "writer")
    for barrier in (10, 20):
        expected = [(number, barrier, None, None) for number in range(32)]
        assert rows_of(table.scan(barrier=barrier)) == expected
    assert not table.audit().findings


def test_the_command_line_reads_a_barrier_and_shows_who_is_missing(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wa, wb = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=10, complete=True)
    refused = run("read", table.path, "--barrier", "10")
    assert refused.exit_code
    assert "missing: wb (at 0)" in refused.stderr
    shown = json.loads(run("inspect", table.path, "--what", "barriers", "--json").stdout)
    assert [row["writer"] for row in shown["barriers"]] == ["wa", "wb"]
    wb.complete(10)
    read = run("read", table.path, "--barrier", "10")
    assert json.loads(read.stdout) == {"id": 1, "a": 1, "b": None, "c": None}


def test_a_catalog_says_how_its_sessions_read(tmp_path: Path) -> None:
    new_table(tmp_path)
    wa, _ = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=10)
    catalog = wt.Catalog(tmp_path, consistency="ReadUncommitted")
    with catalog.session() as newest:
        assert (newest.barrier, rows_of(newest.table(NAME).scan())) == (None, [(1, 1, None, None)])
    with pytest.raises(NotFoundError, match="missing: wa, wb"):
        catalog.session(consistency="RepeatableRead")
    with pytest.raises(InvalidError, match="one of the two"):
        catalog.session(as_of=10)
    with pytest.raises(InvalidError, match="consistency"):
        wt.Catalog(tmp_path, consistency="Serializable")
    with pytest.raises(InvalidError, match="tables"):
        catalog.session([], consistency="RepeatableRead")


@pytest.mark.parametrize("interval", BARRIER_INTERVAL.range or ())
def test_a_table_lives_with_the_ends_of_the_interval(tmp_path: Path, interval: int) -> None:
    table = new_table(tmp_path, widetable__barrier_interval=f"{interval} ms")
    writer = wt.Catalog(tmp_path).writer(NAME, "w")
    last = (LARGEST >> 1) // interval * interval
    writer.write({"id": [1], "a": [1]}, barrier=interval, complete=True)
    writer.write({"id": [1], "a": [2]})
    writer.complete()
    writer.write({"id": [1], "a": [3]}, barrier=last, complete=True)
    writer.write({"id": [1], "a": [4]})
    assert rows_of(table.scan(barrier=interval)) == [(1, 1, None, None)]
    assert rows_of(table.scan(barrier=last)) == [(1, 3, None, None)]
    with pytest.raises(InvalidError, match="barrier"):
        writer.complete(LARGEST)
    assert table.inspect.barriers()["last_barrier"].to_pylist() == [last + interval]
    assert not table.audit().findings


def test_a_table_without_a_complete_barrier_names_none_to_read(tmp_path: Path) -> None:
    table = new_table(tmp_path)
    wa, _ = writers(tmp_path)
    wa.write({"id": [1], "a": [1]}, barrier=10)
    for read in (
        lambda: table.scan(barrier=10),
        lambda: wt.Catalog(tmp_path).session([NAME], as_of=10),
    ):
        with pytest.raises(NotFoundError, match=r"up to no barrier; missing: .*wb.* completed"):
            read()


def test_who_writes_all_columns_has_those_that_are_added_later(tmp_path: Path) -> None:
    new_table(tmp_path)
    catalog = wt.Catalog(tmp_path)
    writer = catalog.writer(NAME, "all")
    catalog.alter_table(NAME, add_columns={"d": pa.int64()})
    writer.write({"id": [1], "d": [1]}, barrier=10)
    with pytest.raises(ConflictError, match="all"):
        catalog.writer(NAME, "other", ["d"])
