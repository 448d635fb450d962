"""Readers of changes of an append table: each appended row once, in the order of commits, while others compact, sort
and delete it, or snapshots expire.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import widetable as wt
from tests.append.model import made


def put(table: wt.Table, *numbers: int) -> None:
    table.write([{"n": n, "s": "a", "p": n % 2} for n in numbers])


def there(table: wt.Table, **how: object) -> list[int]:
    batches = list(table.follow(timeout=0, **how))  # type: ignore[arg-type]
    assert all(set(batch["_row_kind"].to_pylist()) <= {"+I"} for batch in batches)
    return [n for batch in batches for n in batch["n"].to_pylist()]


@pytest.mark.parametrize("kind", ["free", "vectors", "buckets"])
def test_what_is_appended_comes_once_and_nothing_else(
    tmp_path: Path, rng: random.Random, kind: str
) -> None:
    table = made(tmp_path, kind, parts=False)
    put(table, 0, 1)
    assert there(table, consumer_id="c") == [0, 1]
    expected = []
    for number in range(2, 30, 2):
        put(table, number, number + 1)
        expected += [number, number + 1]
        step = rng.choice(["", "compact", "delete", "update", "sort"])
        if step == "compact":
            table.compact(full=True)
        elif step == "delete":
            table.delete(f"n = {rng.randrange(number)}")
        elif step == "update":
            table.update(f"n = {rng.randrange(number)}", {"d": 1.5})
        elif step == "sort" and table.schema.has_free_rows:
            table.sort_compact(["n"])
        if rng.random() < 0.3:
            assert there(table, consumer_id="c", columns=["n"]) == expected
            expected = []
    assert there(table, consumer_id="c") == expected
    assert there(table, consumer_id="c") == []


def test_a_new_reader_begins_with_all_rows_in_their_order(tmp_path: Path) -> None:
    table = made(tmp_path, "buckets", parts=False, **{"write-only": "true"})
    numbers = [5, 3, 9, 1]
    for n in numbers:
        put(table, n)
    assert there(table) == numbers
    table.compact(full=True)
    assert there(table) == numbers
    put(table, 0)
    assert there(table, scan_mode="from-snapshot", snapshot_id=2) == [3, 9, 1, 0]
    assert there(table, scan_mode="latest") == []


def test_expiry_keeps_what_a_consumer_has_not_read(tmp_path: Path) -> None:
    table = made(tmp_path, "vectors", parts=True)
    put(table, 0)
    assert there(table, consumer_id="c") == [0]
    for n in range(1, 12):
        put(table, n)
        table.delete(f"n = {n - 1}")
    table.compact(full=True)
    table.expire_snapshots(1, 1, 0)
    assert there(table, consumer_id="c") == list(range(1, 12))
    table.expire_snapshots(1, 1, 0)
    assert len(table.snapshots()) == 1
    assert table.scan(["n"]).to_arrow().column("n").to_pylist() == [11]
    assert list(table.remove_orphan_files(older_than_millis=0).paths) == []
    assert table.audit().findings == ()


def test_changes_between_two_snapshots_are_what_was_appended(tmp_path: Path) -> None:
    table = made(tmp_path, "free", parts=True)
    for n in range(9):
        put(table, n)
    appends = [s.id for s in table.snapshots() if s.commit_kind == "APPEND"]
    changes = table.changes(appends[2], appends[6])
    assert sorted(changes.column("n").to_pylist()) == [3, 4, 5, 6]
    assert table.scan_changes(appends[2], appends[6]).to_arrow().num_rows == 4
    with pytest.raises(wt.UnsupportedError, match="append table"):
        table.changes(appends[2], appends[6], mode="diff")
