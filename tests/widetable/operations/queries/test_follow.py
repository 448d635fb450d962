"""Following a table: where it starts, what comes, and that nothing is lost whatever happens in between."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.faults.faults import Fault, FaultyFileIO
from tests.support.models.plain_rows import row_texts
from widetable.commit.holds.read_lease import held_snapshots
from widetable.commit.transaction.commit_identity import Identity
from widetable.operations.queries.follow import ChangeFollower
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

FIXTURES = Path(__file__).resolve().parent.parent.parent.parent / "fixtures"
KEY = pa.field("k", pa.int64(), nullable=False)
COLUMNS = [KEY, pa.field("a", pa.int64())]
Row = dict[str, Any]


def create(folder: Path, options: Mapping[str, str] | None = None, **how: Any) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema(how.pop("columns", COLUMNS)),
        primary_key=["k"],
        options={"widetable.fsync": "false", "write-only": "true", **(options or {})},
        **how,
    )


def put(table: wt.Table, keys: Sequence[int] | range, a: int) -> None:
    table.write(pa.table({"k": pa.array(list(keys), pa.int64()), "a": [a] * len(keys)}))


@pytest.fixture
def three(tmp_path: Path) -> wt.Table:
    """Three commits, of the keys 1, 2 and 3."""
    table = create(tmp_path)
    for k in (1, 2, 3):
        put(table, [k], a=10 * k)
    return table


def snapshot_of(batch: pa.RecordBatch) -> int:
    return int(batch.schema.metadata[b"widetable.snapshot-id"])


def seen(batches: Iterable[pa.RecordBatch]) -> list[tuple[int, int]]:
    """(snapshot, key) of each row."""
    return [(snapshot_of(batch), k) for batch in batches for k in batch["k"].to_pylist()]


def there(table: wt.Table, **how: Any) -> list[tuple[int, int]]:
    return seen(table.follow(timeout=0, **how))


def fold(rows: dict[Any, Row], batch: pa.RecordBatch, key: Sequence[str]) -> None:
    """Apply changes to rows; every -U and -D must have the row that is there, every +I a key that is not."""
    for row in batch.to_pylist():
        kind = row.pop("_row_kind")
        at = tuple(row[name] for name in key)
        if kind in ("-U", "-D"):
            assert rows.pop(at) == row
        else:
            assert at not in rows
            rows[at] = row


# Where it starts


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, [(3, 1), (3, 2), (3, 3)]),
        ({"scan_mode": "latest-full"}, [(3, 1), (3, 2), (3, 3)]),
        ({"scan_mode": "latest"}, []),
        ({"scan_mode": "from-snapshot", "snapshot_id": 2}, [(2, 2), (3, 3)]),
        ({"snapshot_id": 4}, []),
        ({"scan_mode": "from-snapshot-full", "snapshot_id": 2}, [(2, 1), (2, 2), (3, 3)]),
        ({"scan_mode": "from-timestamp", "timestamp": 0}, [(1, 1), (2, 2), (3, 3)]),
        ({"timestamp": 10**15}, []),
    ],
)
def test_a_mode_says_what_comes_first(
    three: wt.Table, how: dict[str, Any], expected: list[tuple[int, int]]
) -> None:
    follower = three.follow(timeout=0, **how)
    put(three, [4], a=40)
    # What comes after the call belongs to the next look, not to what is there now.
    assert seen(follower) == expected
    follower = three.follow(timeout=0.001, **how)
    put(three, [5], a=50)
    assert seen(follower)[-1] == (5, 5)


def test_from_timestamp_starts_with_the_first_snapshot_of_that_time(three: wt.Table) -> None:
    time.sleep(0.002)
    put(three, [4], a=40)
    newest = three.snapshots()[-1].time_millis
    assert there(three, timestamp=newest) == [(4, 4)]
    assert there(three, timestamp=newest + 1) == []
    assert (4, 4) in there(three, timestamp=newest - 1)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"scan_mode": "latest"},
        {"scan_mode": "from-snapshot", "snapshot_id": 1},
        {"scan_mode": "from-snapshot-full", "snapshot_id": 1},
        {"timestamp": 0},
        {"consumer_id": "c"},
    ],
)
def test_an_empty_table_is_waited_for(tmp_path: Path, how: dict[str, Any]) -> None:
    table = create(tmp_path)
    assert there(table, **how) == []
    follower = table.follow(timeout=0.001, **how)
    put(table, [1], a=10)
    put(table, [2], a=20)
    assert seen(follower) == [(1, 1), (2, 2)]


def test_a_snapshot_that_is_yet_to_come_is_waited_for(three: wt.Table) -> None:
    for mode, rows in (("from-snapshot", [(5, 5)]), ("from-snapshot-full", [(5, 1), (5, 5)])):
        follower = three.follow(timeout=0.001, scan_mode=mode, snapshot_id=5)
        if len(three.snapshots()) < 5:
            put(three, [4], a=40)
            put(three, [5], a=50)
        found = seen(follower)
        assert found[0] == rows[0]
        assert found[-1] == rows[-1]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"scan_mode": "newest"}, "scan mode"),
        ({"scan_mode": "from-snapshot"}, "snapshot id"),
        ({"timeout": -1}, "timeout"),
        ({"timeout": "1"}, "timeout"),
        ({"poll_interval": True}, "poll_interval"),
        ({"timestamp": "now"}, "timestamp"),
        ({"consumer_id": "a/b"}, "consumer"),
    ],
)
def test_a_wrong_choice_is_refused_at_once(
    three: wt.Table, how: dict[str, Any], message: str
) -> None:
    with pytest.raises(wt.InvalidError, match=message):
        three.follow(**how)


# What comes


def test_batches_say_what_they_are(three: wt.Table) -> None:
    first, _, second = three.follow(
        scan_mode="from-snapshot-full", snapshot_id=2, columns=["a"], timeout=0
    )
    assert first.schema.names == ["a", "_row_kind"]
    assert first.schema.metadata == {
        b"widetable.snapshot-id": b"2",
        b"widetable.is-full": b"true",
    }
    assert second.schema.metadata[b"widetable.is-full"] == b"false"
    assert pa.Table.from_batches([first, second]).to_pydict() == {
        "a": [10, 30],
        "_row_kind": ["+I"] * 2,
    }


def test_the_watermark_comes_with_the_batches(tmp_path: Path) -> None:
    table = create(tmp_path)
    with table.new_writer(["k", "a"]) as writer:
        writer.write(pa.table({"k": [1], "a": [1]}))
        table._committer.append(writer.finish(), Identity.of(None, None), watermark=1234)
    (batch,) = table.follow(timeout=0)
    assert batch.schema.metadata[b"widetable.watermark"] == b"1234"


@pytest.mark.parametrize(
    "name",
    [
        "wh_java/fx.cl_lookup",
        "wh_java/fx.cl_full_compaction",
        "wh_java/fx.pu_seqgroup_lookup",
    ],
)
def test_rows_of_any_snapshot_and_the_changes_after_it_give_the_table(
    tmp_path: Path, name: str
) -> None:
    """Also where the snapshot holds rows whose changelog is yet to come."""
    warehouse, _, table_name = name.partition("/")
    shutil.copytree(FIXTURES / warehouse, tmp_path / warehouse)
    table = wt.Catalog(str(tmp_path / warehouse)).table(table_name)
    expected = row_texts(table.scan().to_arrow().to_pylist())
    for snapshot in table.snapshots():
        rows: dict[Any, Row] = {}
        for batch in table.follow(
            scan_mode="from-snapshot-full", snapshot_id=snapshot.id, timeout=0
        ):
            fold(rows, batch, table.schema.primary_keys)
        assert row_texts(rows.values()) == expected


def test_it_waits_for_what_another_thread_writes(tmp_path: Path) -> None:
    table = create(tmp_path)

    def write() -> None:
        for k in range(5):
            put(table, [k], a=k)

    follower = table.follow(poll_interval=0.001)
    writer = threading.Thread(target=write)
    writer.start()
    found = seen(itertools.islice(follower, 5))
    writer.join()
    follower.close()
    assert [k for _, k in found] == list(range(5))
    assert list(follower) == []


def test_columns_stay_as_they_were_at_the_start(tmp_path: Path) -> None:
    table = create(tmp_path, columns=[*COLUMNS, pa.field("gone", pa.string())])
    catalog = wt.Catalog(str(tmp_path))
    follower = table.follow(timeout=0.001)
    put(table, [1], a=1)
    catalog.alter_table("db.t", rename_columns={"a": "b"}, drop_columns=["gone"])
    catalog.alter_table("db.t", add_columns=[pa.field("a", pa.string())])
    table.write(pa.table({"k": [2], "b": [2], "a": ["new"]}))
    found = pa.Table.from_batches(list(follower))
    assert found.drop_columns("_row_kind").to_pylist() == [
        {"k": 1, "a": 1, "gone": None},
        {"k": 2, "a": 2, "gone": None},
    ]


def test_a_column_that_got_another_type_ends_it_and_a_new_one_goes_on(tmp_path: Path) -> None:
    table = create(tmp_path, columns=[KEY, pa.field("a", pa.int32())])
    follower = table.follow("c", timeout=0.001)
    table.write(pa.table({"k": [1], "a": pa.array([1], pa.int32())}))
    wt.Catalog(str(tmp_path)).alter_table("db.t", change_types={"a": pa.int64()})
    put(table, [2], a=2**40)
    assert seen([next(follower)]) == [(1, 1)]
    with pytest.raises(wt.UnsupportedError, match="Start the reader again"):
        next(follower)
    (batch,) = table.follow("c", timeout=0)
    assert batch["a"].to_pylist() == [2**40]


def test_fields_that_change_end_it_and_their_comments_do_not(tmp_path: Path) -> None:
    rows = pa.struct([("x", pa.int64()), ("y", pa.int64())])
    table = create(tmp_path, columns=[KEY, pa.field("v", rows)])
    catalog = wt.Catalog(str(tmp_path))
    follower = table.follow("c", timeout=0.001)
    catalog.alter_table("db.t", change_comments={"v.x": "said", "v": "too"})
    table.write([{"k": 1, "v": {"x": 1, "y": 2}}])
    assert next(follower)["v"].to_pylist() == [{"x": 1, "y": 2}]
    catalog.alter_table("db.t", drop_columns=["v.y"])
    catalog.alter_table("db.t", add_columns=[pa.field("v.y", pa.int64())])
    table.write([{"k": 2, "v": {"x": 1, "y": 3}}])
    with pytest.raises(wt.UnsupportedError, match="Start the reader again"):
        next(follower)
    (batch,) = table.follow("c", timeout=0)
    assert batch["v"].to_pylist() == [{"x": 1, "y": 3}]


# Restarts


def test_a_consumer_goes_on_where_the_last_one_asked_for_more(three: wt.Table) -> None:
    follower = three.follow("c", snapshot_id=1, timeout=0)
    assert seen([next(follower), next(follower)]) == [(1, 1), (2, 2)]
    follower.close()
    # Snapshot 2 was given, but nobody asked to go beyond it.
    assert there(three, consumer_id="c") == [(2, 2), (3, 3)]
    assert there(three, consumer_id="c") == []
    put(three, [4], a=40)
    assert there(three, consumer_id="c", scan_mode="latest") == [(4, 4)]
    note = json.loads(Path(three.path, "consumer/consumer-c").read_bytes())
    assert note.pop("widetable.last-read")
    assert note == {"nextSnapshot": 5}


def test_a_start_with_latest_is_remembered_before_anything_came(three: wt.Table) -> None:
    three.follow("c", scan_mode="latest", timeout=0).close()
    put(three, [4], a=40)
    assert there(three, consumer_id="c", scan_mode="latest") == [(4, 4)]


def test_rows_come_again_when_their_phase_was_not_over(tmp_path: Path) -> None:
    table = create(tmp_path, {"bucket": "2"})
    put(table, range(10), a=0)
    put(table, [0], a=1)
    follower = table.follow("c", timeout=0)
    next(follower)
    follower.close()
    put(table, [11], a=1)
    assert sorted(k for _, k in there(table, consumer_id="c")) == [*range(10), 11]


def test_a_restart_at_any_point_loses_nothing(tmp_path: Path, rng: random.Random) -> None:
    table = create(tmp_path, {"bucket": "2"})
    for commit in range(4):
        put(table, range(commit, 12, 3), a=commit)
    expected = there(table, scan_mode="from-snapshot", snapshot_id=1)
    batches = len(list(table.follow(snapshot_id=1, timeout=0)))
    for number, stops in enumerate(itertools.combinations(range(batches + 1), 2)):
        found: list[tuple[int, int]] = []
        for taken in (*stops, None):
            follower = table.follow(f"c{number}", snapshot_id=1, timeout=0)
            part = seen(itertools.islice(follower, taken))
            follower.close()
            # What comes again is whole snapshots, in order.
            if part:
                found = [one for one in found if one[0] < part[0][0]]
            found += part
        assert found == expected


def test_an_error_within_a_snapshot_is_no_progress(tmp_path: Path) -> None:
    table = create(tmp_path, {"bucket": "4"})
    put(table, range(20), a=0)
    expected = there(table, snapshot_id=1)
    faulty = FaultyFileIO(LocalFileIO(fsync=False))
    follower = wt.Table.open(table.path, file_io=faulty).follow("c", snapshot_id=1, timeout=0)
    next(follower)
    faulty.fail("open_input", Fault.BEFORE)
    with pytest.raises(wt.StorageError):
        next(follower)
    # Neither may a second try take the rest as read.
    assert list(follower) == []
    assert there(table, consumer_id="c") == expected


# Expiry


def held(table: wt.Table) -> list[int]:
    return held_snapshots(LocalFileIO(), TablePaths(table.path))


@pytest.fixture
def short_lived(tmp_path: Path) -> wt.Table:
    table = create(tmp_path, {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms"})
    for k in (1, 2, 3):
        put(table, [k], a=10 * k)
    time.sleep(0.005)
    return table


def test_what_is_not_read_is_kept_without_a_consumer(short_lived: wt.Table) -> None:
    follower = short_lived.follow(snapshot_id=1, timeout=0.001)
    assert held(short_lived) == [1]
    short_lived.expire_snapshots()
    assert seen([next(follower), next(follower)]) == [(1, 1), (2, 2)]
    assert held(short_lived) == [2]
    short_lived.expire_snapshots()
    assert short_lived.snapshots()[0].id == 2
    assert seen(follower) == [(3, 3)]
    assert held(short_lived) == []


def test_the_rows_of_a_snapshot_are_kept_while_they_are_read(tmp_path: Path) -> None:
    table = create(
        tmp_path,
        {"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 ms", "bucket": "4"},
    )
    put(table, range(20), a=0)
    for consumer in (None, "c"):
        follower = table.follow(consumer, timeout=0)
        found = [next(follower)]
        put(table, range(20), a=1)
        table.compact(full=True)
        time.sleep(0.005)
        table.expire_snapshots()
        found += follower
        assert sorted(k for _, k in seen(found)) == list(range(20))
        assert held(table) == []


def test_what_is_not_read_is_kept_for_a_consumer(short_lived: wt.Table) -> None:
    follower = short_lived.follow("c", snapshot_id=2, timeout=0)
    follower.close()
    assert held(short_lived) == []
    short_lived.expire_snapshots()
    assert short_lived.snapshots()[0].id == 2
    assert there(short_lived, consumer_id="c") == [(2, 2), (3, 3)]
    short_lived.expire_snapshots()
    assert [snapshot.id for snapshot in short_lived.snapshots()] == [3]


def test_a_follower_that_is_forgotten_lets_go(short_lived: wt.Table) -> None:
    follower: ChangeFollower | None = short_lived.follow(snapshot_id=1)
    assert held(short_lived) == [1]
    del follower
    assert held(short_lived) == []


def test_what_has_expired_is_named(short_lived: wt.Table) -> None:
    short_lived.expire_snapshots()
    message = "snapshot 2 of .*found an expired snapshot.*kept, 3 to 3.*latest-full.*consumer-id"
    for mode in ("from-snapshot", "from-snapshot-full"):
        with pytest.raises(wt.NotFoundError, match=message):
            short_lived.follow(scan_mode=mode, snapshot_id=2)
    with pytest.raises(wt.NotFoundError, match=r"from 2 and an end up to 3.*snapshot 3 has"):
        short_lived.changes(0, 3)
    assert there(short_lived, timestamp=0) == [(3, 3)]


def test_what_expires_under_a_reader_that_nothing_protects_is_reported(
    short_lived: wt.Table,
) -> None:
    follower = short_lived.follow(snapshot_id=1, timeout=0)
    assert seen([next(follower)]) == [(1, 1)]
    for lease in Path(short_lived.path, "service").glob("widetable-read-lease-*"):
        lease.unlink()
    batches = short_lived.change_batches(1, 3)
    short_lived.expire_snapshots()
    for reader in (follower, batches):
        with pytest.raises(wt.NotFoundError, match=r"snapshot 2 of .*found an expired snapshot"):
            next(reader)
