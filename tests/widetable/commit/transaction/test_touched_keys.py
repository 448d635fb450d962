"""A commit that was made from what stood at a snapshot: refused when others wrote its keys since, and only then."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import widetable as wt
from widetable.write.commit_message import CommitMessage

OPTIONS = {
    "bucket": "2",
    "merge-engine": "partial-update",
    "partial-update.remove-record-on-delete": "true",
    "changelog-producer": "lookup",
}
SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])


@pytest.fixture
def table(tmp_path: Path) -> wt.Table:
    """Keys 0 to 99, in two buckets."""
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t",
        SCHEMA,
        primary_key=["k"],
        options=OPTIONS,
    )
    made.write(pa.table({"k": range(100), "a": range(100)}))
    return made


def latest(table: wt.Table) -> int:
    return max(snapshot.id for snapshot in table.snapshots())


def files(table: wt.Table, keys: list[int]) -> list[CommitMessage]:
    with table.new_writer(["k", "b"]) as writer:
        writer.write(pa.table({"k": keys, "b": keys}))
        return writer.finish()


def test_keys_that_nobody_wrote_since_are_committed(table: wt.Table) -> None:
    read = latest(table)
    messages = files(table, [3, 50])
    table.write(pa.table({"k": [2, 4, 49, 51, 200], "a": [0] * 5}))
    table.compact(full=True)
    assert table.commit_append(messages, read_snapshot=read).committed
    assert table.lookup([3, 50])["b"].to_pylist() == [3, 50]


@pytest.mark.parametrize("how", ["write", "delete", "overwrite", "new key"])
def test_keys_that_somebody_wrote_since_are_refused(table: wt.Table, how: str) -> None:
    read = latest(table)
    messages = files(table, [3, 50, 300])
    if how == "write":
        table.write(pa.table({"k": [3, 50], "a": [3, 50]}))
    elif how == "delete":
        table.write(pa.table({"k": [3, 50], "_row_kind": ["-D", "-D"]}))
    elif how == "overwrite":
        table.overwrite(pa.table({"k": [1], "a": [1]}))
    else:
        table.write(pa.table({"k": [3, 300], "a": [0, 0]}))
    table.compact(full=True)
    with pytest.raises(wt.ConflictError, match=f"2 keys .* after snapshot {read}"):
        table.commit_append(messages, read_snapshot=read)
    assert table.commit_append(messages).committed  # its files are still there


def test_a_range_that_has_expired_is_refused(table: wt.Table) -> None:
    read = latest(table)
    messages = files(table, [3])
    for _ in range(3):
        table.write(pa.table({"k": [7], "a": [7]}))
    table.expire_snapshots(num_retained_min=1, num_retained_max=1)
    with pytest.raises(wt.NotFoundError):
        table.commit_append(messages, read_snapshot=read)
    for wrong in (-1, latest(table) + 1):
        with pytest.raises(wt.InvalidError, match="read_snapshot"):
            table.commit_append(messages, read_snapshot=wrong)


def test_keys_whose_deletion_a_rollback_took_back_are_refused(tmp_path: Path) -> None:
    """The rollback adds and deletes no data file: it marks other rows of one as deleted."""
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "target-file-size": "64 kb"}
    table = wt.Catalog(str(tmp_path)).create_table(
        "db.t", SCHEMA, primary_key=["k"], options=options
    )
    table.write(pa.table({"k": range(9), "a": range(9), "b": range(9)}))
    table.compact(full=True)
    full = latest(table)
    table.delete_keys([{"k": 3}])
    table.compact()
    read = latest(table)
    assert table.lookup([3])["a"].to_pylist() == [None]
    mine = pa.table({"k": [3], "a": [33], "b": [33]})
    with table.new_writer(["k", "a", "b"]) as writer:
        writer.write(mine)
        messages = writer.finish()
    done = table.rollback(full)
    assert (done.restored_files, done.removed_files) == (0, 0)
    assert table.lookup([3])["a"].to_pylist() == [3]
    with pytest.raises(wt.ConflictError, match="1 key"):
        table.commit_append(messages, read_snapshot=read)
