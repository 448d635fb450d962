"""Who holds the bytes of a table: the lines are together what is on the disk, and a line is what goes when its holder
lets go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.programs.command_line import run
from tests.support.tables.stored_bytes import stored_bytes
from widetable.commit.holds.read_lease import hold
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.operations.history.snapshot_holders import Holder
from widetable.operations.history.table_space import Keeping

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
OPTIONS = {
    "changelog-producer": "lookup",
    "widetable.fsync": "false",
    "snapshot.num-retained.min": "2",
    "snapshot.num-retained.max": "2",
}


def lines_of(table: wt.Table) -> list[tuple[str, str | None, int | None]]:
    space = table.inspect.space()
    return list(
        zip(*(space[name].to_pylist() for name in ("holder", "name", "snapshot_id")), strict=True)
    )


def bytes_of(table: wt.Table, holder: str) -> int:
    rows = table.inspect.space().to_pylist()
    return sum(row["size_bytes"] for row in rows if row["holder"] == holder)


def write(table: wt.Table, key: int) -> None:
    table.write(pa.table({"k": [key], "v": ["v" * 200]}, SCHEMA))


@pytest.fixture
def table(tmp_path: Path) -> Iterator[wt.Table]:
    """Twelve commits, with all who may hold something; each holds what no other does."""
    made = wt.Catalog(tmp_path).create_table(
        "db.t", SCHEMA, primary_key=["k"], options=dict(OPTIONS)
    )
    write(made, 1)
    made.create_tag("first")
    made.create_branch("b", tag="first")
    wt.Table.open(made.path, branch="b").write(pa.table({"k": [9], "v": ["v"]}, SCHEMA))
    for key in range(6):
        write(made, key)
    consumers = ConsumerStore(made._file_io, made._paths)
    consumers.record("slow", 5)
    consumers.record("fast", 9)
    (Path(made.path) / "bucket-0/data-of-nobody-0.parquet").write_text("left")
    lease = hold(made._file_io, made._paths, 7, 600_000)
    yield made
    lease.release()


def test_all_who_hold_something_have_a_line(table: wt.Table) -> None:
    latest = table.snapshots()[-1].id
    found = lines_of(table)
    assert [(holder, id) for holder, _, id in found] == [
        ("snapshot", latest),
        ("retention", latest - 1),
        ("consumer", 9),
        ("read", 7),
        ("consumer", 5),
        ("tag", 2),
        ("branch", None),
        ("expiry", 1),
        ("nobody", None),
    ]
    assert [name for holder, name, _ in found if holder in ("consumer", "tag", "branch")] == [
        "fast",
        "slow",
        "first",
        "b",
    ]


def test_the_lines_are_all_that_is_there(table: wt.Table) -> None:
    space = table.inspect.space()
    assert sum(space["size_bytes"].to_pylist()) == stored_bytes(table.path)
    assert bytes_of(table, "nobody") == 4
    table.compact(full=True)
    table.expire_snapshots()
    assert sum(table.inspect.space()["size_bytes"].to_pylist()) == stored_bytes(table.path)


def test_a_dry_run_says_what_goes_and_who_holds_the_rest(table: wt.Table) -> None:
    before = stored_bytes(table.path)
    would = table.expire_snapshots(dry_run=True)
    assert stored_bytes(table.path) == before
    assert would.held[0].holder == "snapshot"
    assert "nobody" not in [line.holder for line in would.held]
    done = table.expire_snapshots()
    assert (done.ids, done.files, done.bytes) == (would.ids, would.files, would.bytes)
    assert done.held == ()
    assert before - stored_bytes(table.path) == would.bytes > 0
    assert stored_bytes(table.path) == sum(line.bytes for line in would.held) + len("left")


def test_a_line_is_what_goes_when_its_holder_lets_go(table: wt.Table) -> None:
    table.expire_snapshots()
    slow = next(row for row in table.inspect.space().to_pylist() if row["name"] == "slow")
    ConsumerStore(table._file_io, table._paths).delete("slow")
    assert bytes_of(table, "expiry") == slow["size_bytes"] > 0
    assert table.expire_snapshots().bytes == slow["size_bytes"]
    assert bytes_of(table, "expiry") == 0


def test_what_is_given_counts_in_a_dry_run(table: wt.Table) -> None:
    would = table.expire_snapshots(num_retained_min=100, num_retained_max=100, dry_run=True)
    assert (would.ids, would.files, would.bytes) == ((), 0, 0)
    kept = [line.snapshot_id for line in would.held if line.holder == "retention"]
    assert kept == [1]


@pytest.mark.parametrize(
    ("id", "kind", "first"),
    [
        (8, "retention", 8),
        (7, "retention", 7),
        (6, "b", 5),
        (5, "b", 5),
        (4, "a", 2),
        (2, "a", 2),
        (1, "expiry", 1),
    ],
)
def test_a_snapshot_is_held_by_who_keeps_the_fewest(id: int, kind: str, first: int) -> None:
    holders = [Holder("a", None, 2), Holder("b", None, 5)]
    keeping = Keeping(frozenset([1]), frozenset(range(1, 7)), holders)
    assert keeping.keeper(id) == Holder(kind, None, first)


def test_a_table_without_snapshots_holds_nothing(tmp_path: Path) -> None:
    made = wt.Catalog(tmp_path).create_table("db.e", SCHEMA, primary_key=["k"])
    assert lines_of(made) == []
    assert "bytes" not in run("inspect", made.path).stdout


def test_commands_say_who_holds_the_bytes(table: wt.Table) -> None:
    said = run("inspect", table.path).stdout
    for text in (
        "consumer 'slow', from snapshot 5 on",
        "tag 'first', of snapshot 2",
        "branch 'b'",
        "not in any snapshot: files of active writers, or orphans  ",
        "snapshots that the next expiry removes, from 1 on",
    ):
        assert text in said
    found = json.loads(run("inspect", table.path, "--format", "json").stdout)
    assert sum(line["bytes"] for line in found["space"]) == stored_bytes(table.path)
    dry = run("expire", table.path, "--dry-run").stdout
    assert " snapshots would expire: 1 to 4; " in dry
    assert " would stay:\n" in dry
    assert "consumer 'slow', from snapshot 5 on" in dry
    assert "would stay" not in run("expire", table.path).stdout


def test_an_inspection_goes_on_where_an_old_snapshot_is_damaged(table: wt.Table) -> None:
    (Path(table.path) / "snapshot/snapshot-6").write_text("{")
    shown = run("inspect", table.path)
    assert shown.exit_code == 0
    assert "bytes             unknown: " in shown.stdout
    assert json.loads(run("inspect", table.path, "--format", "json").stdout)["space"] is None
