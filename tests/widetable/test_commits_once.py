"""Commits of a user and number through the public face: in once, and refused where nobody can know."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.commit.snapshots import committed
from widetable.commit.transaction import commit_warnings, replay


def create(folder: Path, options: Mapping[str, str] | None = None) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema([pa.field("k", pa.int64(), nullable=False)]),
        primary_key=["k"],
        options={"widetable.fsync": "false", **(options or {})},
    )


def keyed(keys: list[int]) -> pa.Table:
    return pa.table({"k": keys})


def files_of(table: wt.Table) -> set[str]:
    return {str(path) for path in Path(table.path).rglob("*") if path.is_file()}


@pytest.mark.parametrize("how", ["write", "overwrite"])
def test_a_replay_is_proven_before_anything_is_read_or_written(tmp_path: Path, how: str) -> None:
    table = create(tmp_path)
    write = getattr(table, how)
    assert write(keyed([1]), "stream", 4, digest="four").committed
    assert write(keyed([2]), "stream", 5, digest="five").committed
    before = files_of(table)

    def unread() -> Iterator[pa.RecordBatch]:
        return iter(lambda: pytest.fail("nobody needs it"), None)

    for number, digest in ((5, "five"), (5, None), (4, "four")):
        assert not write(unread(), "stream", number, digest=digest).committed
    for number, digest in ((5, "four"), (4, "five"), (4, None), (3, "three")):
        with pytest.raises(wt.InvalidError, match=f"commit {number} of the user 'stream'"):
            write(unread(), "stream", number, digest=digest)
        assert not write(unread(), "stream", number, digest=digest, replay=True).committed
    assert files_of(table) == before
    assert write(keyed([6]), "stream", 6, replay=True).committed, "above all that is in"


@pytest.mark.parametrize("how", ["write", "overwrite"])
def test_a_number_that_another_batch_took_meanwhile_leaves_no_files(
    tmp_path: Path, how: str
) -> None:
    table = create(tmp_path)

    def overtaken() -> Iterator[pa.RecordBatch]:
        yield from keyed([1]).to_batches()
        assert table.write(keyed([7]), "stream", 0, digest="theirs").committed

    with pytest.raises(wt.InvalidError, match="commit 0 of the user 'stream'"):
        getattr(table, how)(overtaken(), "stream", 0, digest="ours")
    assert table.scan().to_arrow()["k"].to_pylist() == [7]
    assert len([path for path in files_of(table) if path.endswith(".parquet")]) == 1


def test_a_digest_or_replay_needs_the_commit_that_it_is_of(tmp_path: Path) -> None:
    table = create(tmp_path)
    wrongs: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((), {"digest": "d"}, "digest"),
        ((), {"replay": True}, "replay"),
        (("stream",), {"digest": "d"}, "digest"),
        (("stream",), {"replay": True}, "replay"),
        (("stream", 0), {"digest": ""}, "digest"),
        (("stream", 0), {"digest": "d" * 129}, "digest"),
        (("stream", 0), {"digest": b"d"}, "digest"),
        (("stream", 0), {"digest": 7}, "digest"),
        (("stream", 0), {"replay": 1}, "replay"),
        (("stream", 0), {"replay": "yes"}, "replay"),
    ]
    for by, how, subject in wrongs:
        for write in (table.write, table.overwrite):
            with pytest.raises(wt.InvalidError, match=f"^{subject}: "):
                write(keyed([1]), *by, **how)
        for commit in (table.commit_append, table.commit_overwrite):
            with pytest.raises(wt.InvalidError, match=f"^{subject}: "):
                commit([], *by, **how)
    assert table.snapshots() == []
    assert table.write(keyed([1]), "stream", 0, digest="d" * 128).committed


def test_many_commit_users_are_reported_and_stay_while_they_are_young(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (committed, replay):
        monkeypatch.setattr(module, "MAX_USERS", 10)
    monkeypatch.setattr(commit_warnings, "MANY_USERS", 8)
    table = create(tmp_path)
    for number in range(8):
        table.write(keyed([number]), f"run-{number}", 0)
    assert caplog.records == []
    for number in range(8, 14):
        table.write(keyed([number]), f"run-{number}", 0)
    (reported,) = caplog.records
    for part in (
        table.path,
        "8 commit users",
        "widetable.commit-user-retention",
        "keep its commit user",
    ):
        assert part in reported.getMessage()
    # More than the bound, and each replay is still known when all but one snapshot have expired.
    table.expire_snapshots(num_retained_min=1, time_retained_millis=0)
    for number in range(14):
        assert not table.write(keyed([number]), f"run-{number}", 0).committed


def test_users_that_were_silent_for_the_retention_leave_beyond_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (committed, replay):
        monkeypatch.setattr(module, "MAX_USERS", 3)
    table = create(tmp_path, {"widetable.commit-user-retention": "1 ms"})
    for number in range(6):
        table.write(keyed([number]), f"run-{number}", 0)
        time.sleep(0.003)
    remembered = json.loads(table.snapshots()[-1].properties["widetable.commit-users"])
    assert list(remembered) == ["run-3", "run-4", "run-5"]
    # Not in the list, but found while its snapshot is kept.
    assert not table.write(keyed([0]), "run-0", 0).committed


def test_a_batch_without_rows_leaves_its_number_free(tmp_path: Path) -> None:
    """Nothing is in, so a source that had nothing yet loses nothing: its rows are taken when they come under it."""
    table = create(tmp_path)
    assert not table.write(keyed([]), "stream", 5, digest="nothing").committed
    assert (table.snapshots(), table.find_commit("stream", 5)) == ([], None)
    assert table.write(keyed([1]), "stream", 5, digest="one").committed
    assert not table.write(keyed([1]), "stream", 5, digest="one").committed
    assert not table.write(keyed([]), "stream", 5, digest="one").committed
    assert table.scan().count() == 1


def test_rows_under_the_number_of_an_empty_batch_are_refused_behind_a_later_one(
    tmp_path: Path,
) -> None:
    """They may be those of a batch that was in and is forgotten: nobody can know, so it is said."""
    table = create(tmp_path)
    table.write(keyed([]), "stream", 5, digest="nothing")
    assert table.write(keyed([1]), "stream", 6, digest="six").committed
    for rows in ([2], []):
        with pytest.raises(wt.InvalidError, match="commit 5 of the user 'stream'"):
            table.write(keyed(rows), "stream", 5, digest="five")
    assert table.scan().to_arrow()["k"].to_pylist() == [1]


def test_an_overwrite_without_rows_is_a_commit(tmp_path: Path) -> None:
    """It empties the table, once."""
    table = create(tmp_path)
    table.write(keyed([1]), "stream", 4)
    assert table.overwrite(keyed([]), "stream", 5).committed
    assert not table.overwrite(keyed([]), "stream", 5).committed
    assert table.scan().count() == 0
