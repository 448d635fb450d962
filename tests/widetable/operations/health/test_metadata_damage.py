"""A manifest or list that is not the one that was written: right rows or DamagedError, never other rows, and nothing is
deleted that somebody needs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.models.kept_rows import KeptRows, batch, expire_all, rows, small_table
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE

Bytes = dict[Path, bytes]
Damage = Callable[[list[Path], random.Random], Bytes]
KINDS = {"manifests": "manifest-[!l]*", "lists": "manifest-list-*"}


def swapped(files: list[Path], rng: random.Random) -> Bytes:
    one, other = rng.sample(files, 2)
    return {one: other.read_bytes(), other: one.read_bytes()}


def replaced(files: list[Path], rng: random.Random) -> Bytes:
    one, other = rng.sample(files, 2)
    return {one: other.read_bytes()}


def truncated(files: list[Path], rng: random.Random) -> Bytes:
    file = rng.choice(files)
    data = file.read_bytes()
    return {file: data[: rng.randrange(len(data))]}


def flipped(files: list[Path], rng: random.Random) -> Bytes:
    file = rng.choice(files)
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return {file: bytes(data)}


DAMAGES: tuple[Damage, ...] = (swapped, replaced, truncated, flipped)


OPERATIONS: Mapping[str, Callable[[wt.Table], object]] = {
    "scan": rows,
    "compact": lambda table: table.compact(full=True),
    "expire": expire_all,
    "orphans": lambda table: table.remove_orphan_files(older_than_millis=0),
    "write": lambda table: table.write(batch(9)),
    "changes": lambda table: table.changes(0, table.snapshots()[-1].id),
}


def unread(table: wt.Table, kept: KeptRows) -> int:
    """Compare all that can be read; how many snapshots and tags are said to be damaged."""
    damaged = 0
    looks: list[tuple[dict[str, Any], list[str]]] = [
        *(({"snapshot_id": id}, expected) for id, expected in kept.snapshots.items()),
        *(({"tag": name}, expected) for name, expected in kept.tags.items()),
    ]
    for how, expected in looks:
        try:
            assert rows(table, **how) == expected
        except wt.DamagedError:
            damaged += 1
        except wt.NotFoundError:
            assert how.get("snapshot_id") not in [snapshot.id for snapshot in table.snapshots()]
    return damaged


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_no_damage_gives_wrong_rows(
    tmp_path: Path, rng: random.Random, kind: str, damage: Damage
) -> None:
    kept = KeptRows.of(small_table(tmp_path))
    noticed = 0
    for name, operation in OPERATIONS.items():
        table = small_table(tmp_path)
        files = sorted(Path(table.path).glob(f"manifest/{KINDS[kind]}"))
        spoiled = damage(files, rng)
        whole = {path: path.read_bytes() for path in spoiled}
        for path, data in spoiled.items():
            path.write_bytes(data)
        MANIFEST_CACHE.clear()
        newest, error = kept.snapshots[max(kept.snapshots)], None
        try:
            operation(table)
            if name == "compact":
                assert rows(table) == newest
        except wt.DamagedError as damaged:
            error = str(damaged)
            noticed += 1
        assert error is None or any(path.name in error for path in spoiled), (name, error)
        noticed += unread(table, kept)
        # Nothing went that is needed: with the right bytes all is there.
        for path, data in whole.items():
            if path.exists():
                path.write_bytes(data)
        kept.check(table)
    assert noticed


@pytest.mark.parametrize(
    "operation",
    [
        lambda table: table.repair(),
        lambda table: table.audit(),
    ],
    ids=["repair", "audit"],
)
def test_a_table_without_its_manifests_is_damaged_although_the_process_has_them(
    tmp_path: Path, operation: Callable[[wt.Table], object]
) -> None:
    table = small_table(tmp_path)
    table.write(batch(1))
    table.write(batch(2))
    newest = table.snapshots()[-1].id
    directory = Path(table.path) / "manifest"
    assert rows(table)
    directory.rename(tmp_path / "elsewhere")

    with pytest.raises(wt.DamagedError, match="manifest"):
        operation(table)
    assert not table.doctor().ok
    assert table.snapshots()[-1].id == newest
    assert not directory.exists() or not any(directory.iterdir())
