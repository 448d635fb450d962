"""Finding snapshots: with hints that are right, missing, behind, ahead or garbage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.faults.faults import FaultyFileIO
from tests.widetable.commit.transaction.fake_table import committer, make_table, written
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import Snapshot, Tag
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO = LocalFileIO(fsync=False)


def snapshots(root: Path, ids: range) -> TablePaths:
    """A table with these snapshot files; snapshot n was made at time 1000 n."""
    paths = make_table(root)
    committer(paths).append([written()])
    first = SnapshotStore(IO, paths).load(1)
    IO.delete(paths.snapshot(1))
    IO.delete(paths.latest_hint)
    IO.delete(paths.earliest_hint)
    for id in ids:
        IO.write_new(paths.snapshot(id), made_at(first, id).to_json().encode())
    return paths


def made_at(first: Snapshot, id: int) -> Snapshot:
    return replace(first, id=id, time_millis=1000 * id)


HINTS = [None, b"9", b"7", b"3", b"5", b"1", b"0", b"", b"nine", b"-9", b"9\n", b"9" * 30]


@pytest.mark.parametrize("hint", HINTS)
def test_latest_whatever_the_hint_says(tmp_path: Path, hint: bytes | None) -> None:
    paths = snapshots(tmp_path, range(3, 10))
    if hint is not None:
        IO.replace(paths.latest_hint, hint)
        IO.replace(paths.earliest_hint, hint)
    store = SnapshotStore(IO, paths)
    assert (store.latest_id(), store.earliest_id()) == (9, 3)
    latest = store.latest()
    assert latest is not None
    assert latest.id == 9
    assert store.ids() == [3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("hint", [10, 12, 10**15])
def test_a_hint_ahead_of_all_says_that_the_newest_is_lost(tmp_path: Path, hint: int) -> None:
    paths = snapshots(tmp_path, range(3, 10))
    IO.replace(paths.latest_hint, str(hint).encode())
    store = SnapshotStore(IO, paths)
    for look in (store.latest_id, store.latest, lambda: store.by_timestamp(10**15)):
        with pytest.raises(DamagedError, match=f"snapshot-{hint}: .*the newest one is 9"):
            look()
    assert store.load(9).id == 9
    assert store.earliest_id() == 3


def test_latest_is_a_few_looks_whatever_the_number_of_snapshots(tmp_path: Path) -> None:
    paths = make_table(tmp_path)
    (tmp_path / "snapshot").mkdir()
    for id in range(1, 3001):
        (tmp_path / f"snapshot/snapshot-{id}").touch()
    for hint, looks in ((3000, 4), (2990, 14), (1, 30)):
        IO.replace(paths.latest_hint, str(hint).encode())
        file_io = FaultyFileIO(IO)
        assert SnapshotStore(file_io, paths).latest_id() == 3000
        assert file_io.count("list") == 0
        assert len(file_io.log) <= looks


def test_a_table_without_snapshots(tmp_path: Path) -> None:
    store = SnapshotStore(IO, make_table(tmp_path))
    assert store.latest() is None
    assert store.earliest() is None
    assert store.ids() == []
    with pytest.raises(NotFoundError):
        store.by_timestamp(10**15)


def test_a_stale_hint_and_an_expiry_under_way_do_not_end_below_the_gap(tmp_path: Path) -> None:
    """The hint says 3; 3 and 4 are removed after 3 was seen: 3 must not be taken for the newest."""
    paths = snapshots(tmp_path, range(3, 10))
    IO.replace(paths.latest_hint, b"3")
    file_io = FaultyFileIO(IO)

    def expire() -> None:
        for id in (3, 4):
            IO.delete(paths.snapshot(id))

    file_io.run_before("exists", expire, "snapshot-4")
    assert SnapshotStore(file_io, paths).latest_id() == 9


def test_a_snapshot_that_expires_between_the_look_and_the_read(tmp_path: Path) -> None:
    paths = snapshots(tmp_path, range(3, 5))
    first = SnapshotStore(IO, paths).load(3)
    file_io = FaultyFileIO(IO)

    def go_on() -> None:
        IO.write_new(paths.snapshot(5), made_at(first, 5).to_json().encode())
        IO.delete(paths.snapshot(4))

    file_io.run_before("read", go_on, "snapshot-4")
    latest = SnapshotStore(file_io, paths).latest()
    assert latest is not None
    assert latest.id == 5


def test_by_timestamp(tmp_path: Path) -> None:
    store = SnapshotStore(IO, snapshots(tmp_path, range(3, 10)))
    found = {
        millis: store.by_timestamp(millis).id for millis in (3000, 3999, 4000, 8999, 9000, 10**15)
    }
    assert found == {3000: 3, 3999: 3, 4000: 4, 8999: 8, 9000: 9, 10**15: 9}
    with pytest.raises(NotFoundError, match="2999"):
        store.by_timestamp(2999)


def test_by_tag(tmp_path: Path) -> None:
    paths = snapshots(tmp_path, range(3, 4))
    store = SnapshotStore(IO, paths)
    kept = made_at(store.load(3), 1)
    IO.write_new(paths.tag("plain"), kept.to_json().encode())
    IO.write_new(
        paths.tag("timed"),
        Tag(snapshot=kept, create_time=(2024, 2, 29, 1, 2, 3, 4)).to_json().encode(),
    )
    assert store.by_tag("plain") == store.by_tag("timed") == kept
    with pytest.raises(NotFoundError, match="tag-other"):
        store.by_tag("other")
    with pytest.raises(DamagedError):
        store.by_tag("../../snapshot/snapshot-3")


def test_a_snapshot_under_another_name_is_damaged(tmp_path: Path) -> None:
    paths = snapshots(tmp_path, range(3, 4))
    IO.write_new(paths.snapshot(4), IO.read(paths.snapshot(3)))
    with pytest.raises(DamagedError, match="snapshot-4"):
        SnapshotStore(IO, paths).latest()


@pytest.mark.parametrize("wrong", [3, 5, 6, 9])
def test_a_time_far_ahead_hides_no_other_snapshot(tmp_path: Path, wrong: int) -> None:
    paths = snapshots(tmp_path, range(3, 10))
    store = SnapshotStore(IO, paths)
    ahead = replace(store.load(wrong), time_millis=10**13)
    IO.replace(paths.snapshot(wrong), ahead.to_json().encode())
    newest = {id: id if id != wrong else id - 1 for id in range(4, 10)}
    assert {id: store.by_timestamp(1000 * id).id for id in range(4, 10)} == newest
    assert store.by_timestamp(10**12).id == (8 if wrong == 9 else 9)
    assert store.by_timestamp(10**13).id == 9


@pytest.mark.parametrize("lost", [range(4, 5), range(5, 8), range(4, 9), range(18, 20)], ids=str)
def test_lost_snapshots_hide_no_others_and_their_own_times_have_no_rows(
    tmp_path: Path, lost: range
) -> None:
    paths = snapshots(tmp_path, range(3, 21))
    for id in lost:
        IO.delete(paths.snapshot(id))
    store = SnapshotStore(IO, paths)
    for id in set(range(3, 21)).difference(lost):
        assert store.by_timestamp(1000 * id).id == id
    for millis in (1000 * lost[0] - 999, *(1000 * id for id in lost), 1000 * lost[-1] + 999):
        with pytest.raises(
            DamagedError,
            match=f"snapshot-{lost[0]}: .*{1000 * lost[-1] + 1000} in epoch milliseconds\\) on",
        ):
            store.by_timestamp(millis)
    with pytest.raises(
        NotFoundError, match=r"a time from 1970-01-01 00:00:03 UTC \(3000 in epoch milliseconds\)"
    ):
        store.by_timestamp(2999)
