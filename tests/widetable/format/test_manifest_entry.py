"""How manifest entries combine, and what makes two of them speak of one file."""

from __future__ import annotations

import random

import pytest

from widetable.errors import DamagedError
from widetable.format.column_stats import EMPTY_STATS
from widetable.format.data_file_meta import DataFileMeta, upgrade
from widetable.format.manifest_entry import ADD, DELETE, ManifestEntry, combine

FILE = DataFileMeta("a.parquet", 1, 1, b"", b"", EMPTY_STATS, EMPTY_STATS, 0, 0, 0, 0)


def entry(kind: int, name: str, level: int = 0) -> ManifestEntry:
    return ManifestEntry(kind, b"p", 0, 1, FILE._replace(file_name=name, level=level))


def test_delete_cancels_the_add_before_it() -> None:
    assert combine([entry(ADD, "a"), entry(ADD, "b"), entry(DELETE, "a")]) == [entry(ADD, "b")]


def test_delete_without_its_add_is_kept() -> None:
    entries = [entry(DELETE, "a"), entry(ADD, "b")]
    assert combine(entries) == entries


def test_delete_that_is_there_twice_is_kept_once() -> None:
    assert combine([entry(DELETE, "a"), entry(DELETE, "a")]) == [entry(DELETE, "a")]


def test_file_added_again_after_its_delete_is_there() -> None:
    assert combine([entry(ADD, "a"), entry(DELETE, "a"), entry(ADD, "a")]) == [entry(ADD, "a")]


def test_upgrade_is_a_delete_and_an_add() -> None:
    old, new = entry(ADD, "a", 0), entry(ADD, "a", 5)
    assert upgrade(old.file, 5) == new.file
    assert combine([old, old._replace(kind=DELETE), new]) == [new]


@pytest.mark.parametrize("first", [ADD, DELETE])
def test_adding_what_is_there_is_damage(first: int) -> None:
    with pytest.raises(DamagedError, match=r"a\.parquet"):
        combine([entry(first, "a.parquet"), entry(ADD, "a.parquet")])


def test_identity_is_everything_that_sets_files_apart() -> None:
    base = entry(ADD, "a")
    others = [
        base._replace(partition=b"q"),
        base._replace(bucket=1),
        entry(ADD, "b"),
        entry(ADD, "a", level=1),
        base._replace(file=base.file._replace(extra_files=("x",))),
        base._replace(file=base.file._replace(embedded_index=b"x")),
        base._replace(file=base.file._replace(external_path="x")),
    ]
    assert len({e.identity for e in [base, *others]}) == len(others) + 1
    same = base._replace(kind=DELETE, total_buckets=9, file=base.file._replace(row_count=7))
    assert same.identity == base.identity


def test_random_histories_leave_what_a_set_leaves(rng: random.Random) -> None:
    live: dict[str, ManifestEntry] = {}
    history = []
    for i in range(2000):
        if live and rng.random() < 0.5:
            name = rng.choice(sorted(live))
            del live[name]
            history.append(entry(DELETE, name))
        else:
            live[f"f{i}"] = entry(ADD, f"f{i}")
            history.append(live[f"f{i}"])
    assert combine(history) == list(live.values())
    # Folding a prefix first changes nothing.
    cut = rng.randrange(len(history))
    assert combine([*combine(history[:cut]), *history[cut:]]) == list(live.values())
