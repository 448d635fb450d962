"""A table that was opened, and is not there any more: nobody takes it for an empty one, or another one for it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt

COLUMNS = {"k": pa.int64(), "a": pa.int64(), "b": pa.int64()}
OPTIONS = {"bucket": "1", "widetable.fsync": "false"}
USES: dict[str, Callable[[wt.Table], object]] = {
    "scan": lambda table: table.scan().to_arrow(),
    "lookup": lambda table: table.lookup([1]),
    "changes": lambda table: table.changes(0, 1),
    "write": lambda table: table.write(row()),
    "overwrite": lambda table: table.overwrite(row()),
    "compact": lambda table: table.compact(full=True),
    "inspect": lambda table: table.inspect(),
    "audit": lambda table: table.audit(),
    "doctor": lambda table: table.doctor(),
    "repair": lambda table: table.repair(),
    "rollback": lambda table: table.rollback(snapshot_id=1),
    "expire": lambda table: table.expire_snapshots(),
    "orphans": lambda table: table.remove_orphan_files(),
    "scan of a snapshot": lambda table: table.scan(snapshot_id=1).to_arrow(),
    "scan of a later snapshot": lambda table: table.scan(snapshot_id=2).to_arrow(),
    "scan of a tag": lambda table: table.scan(tag="t").to_arrow(),
    "lookup in a snapshot": lambda table: table.lookup([1], snapshot_id=1),
    "lookup session": lambda table: table.lookup_session(snapshot_id=2),
    "lookup join": lambda table: list(wt.lookup_join([keys()], table, on=["k"], snapshot_id=1)),
    "changes behind the newest": lambda table: table.changes(1, 2),
    "changes from a tag": lambda table: table.changes("t", 1),
    "explain": lambda table: table.explain(1, as_of=2),
    "snapshots": lambda table: table.snapshots(),
    "tags": lambda table: table.tags(),
    "create a tag": lambda table: table.create_tag("n", 1, 60_000),
    "delete a tag": lambda table: table.delete_tag("t"),
    "consumers": lambda table: table.consumers(),
    "delete a consumer": lambda table: table.delete_consumer("c"),
    "branches": lambda table: table.branches(),
    "create a branch": lambda table: table.create_branch("n"),
    "drop a branch": lambda table: table.drop_branch("b"),
    "lost snapshots": lambda table: table.accept_lost_snapshots(),
}


def row() -> pa.Table:
    return pa.table({"k": [1], "a": [10], "b": [20]})


def keys() -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": pa.array([1], pa.int64())})


def create(root: Path, names: str) -> wt.Table:
    schema = pa.schema([(name, COLUMNS[name]) for name in names])
    return wt.Catalog(str(root)).create_table("d.t", schema, primary_key=["k"], options=OPTIONS)


def drop(root: Path) -> None:
    wt.Catalog(str(root)).drop_table("d.t")


def move(root: Path) -> None:
    os.rename(root / "d.db" / "t", root / "elsewhere")


def unmount(root: Path) -> None:
    """What is left is the directory, with nothing in it."""
    shutil.rmtree(root / "d.db" / "t")
    (root / "d.db" / "t").mkdir()


@pytest.mark.parametrize("went", [drop, move, unmount])
@pytest.mark.parametrize("use", USES)
def test_a_table_that_is_gone_is_not_empty(
    tmp_path: Path, use: str, went: Callable[[Path], None]
) -> None:
    table = create(tmp_path, "kab")
    table.write(row())
    went(tmp_path)
    with pytest.raises(wt.NotFoundError, match="no schema file"):
        USES[use](table)
    assert not list(tmp_path.rglob("d.db/t/**/*.*"))


@pytest.mark.parametrize("use", USES)
def test_another_table_is_not_taken_for_the_one_that_was_opened(tmp_path: Path, use: str) -> None:
    """By the columns of the first one its rows would be wrong."""
    table = create(tmp_path, "kab")
    table.write(row())
    drop(tmp_path)
    other = create(tmp_path, "kba")
    other.write(row())
    other.create_tag("t", 1)
    other.create_branch("b")
    list(other.follow("c", scan_mode="latest", timeout=0))
    wt.Catalog(str(tmp_path)).alter_table("d.t", add_columns=[pa.field("c", pa.int64())])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(wt.InvalidError, match="dropped and made again"):
        USES[use](table)
    assert sorted(tmp_path.rglob("*")) == before
    assert other.scan(columns=["a", "b"]).to_arrow().to_pylist() == [{"a": 10, "b": 20}]
    assert (list(other.tags()), other.branches(), list(other.consumers())) == (["t"], ["b"], ["c"])
