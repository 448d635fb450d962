"""Caches keep to their budget and retention, and removal disturbs nobody who reads."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from tests.lookup.cache_files import (
    COLUMNS,
    build,
    caches_on_disk,
    file_of,
    found,
    key_batch,
    path_of,
    rows_of,
    table_at,
    temporaries_on_disk,
    text_keys,
)
from tests.support.faults.forked import in_a_child
from widetable.schema import options as opt
from widetable.write.table_state import TableState
from widetable_lookup import (
    cache_space,
    cache_statistics,
    counted_bytes,
    host_caches,
    process_caches,
)
from widetable_lookup.cache_fault import CacheFault
from widetable_lookup.cache_manifest import CachedSource, seal
from widetable_lookup.cache_space import CacheSpace
from widetable_lookup.host_caches import ProcessCaches

_BUDGET = opt.LOOKUP_CACHE_MAX_DISK_SIZE.key
_RETENTION = opt.LOOKUP_CACHE_FILE_RETENTION.key


def _cache_bytes(directory: Path, tmp_path: Path, key: str, rows: int = 1000) -> int:
    """The size of one cache of so many rows."""
    table = table_at(tmp_path / "measured", primary_key=[key])
    space = CacheSpace(str(directory), is_chosen=True)
    build(ProcessCaches(space), table, rows_of(range(rows), [key]))
    disk_bytes = cache_statistics(table.paths.root).disk_bytes
    for cache in caches_on_disk(directory):
        space.remove(str(cache), cache.stat().st_ino)
    return disk_bytes


def _age(directory: Path, name: str, seconds: float) -> None:
    """As if the cache of this data file had not been used for so long."""
    (cache,) = [cache for cache in caches_on_disk(directory) if cache.name.startswith(name)]
    then = time.time() - seconds
    os.utime(cache, (then, then))


def _names(directory: Path) -> list[str]:
    return [cache.name.split(".")[0] for cache in caches_on_disk(directory)]


@pytest.mark.parametrize("key", ["k", "s"])
def test_the_longest_unused_go_when_room_is_needed(
    cache_directory: Path, tmp_path: Path, key: str
) -> None:
    budget_bytes = 3 * _cache_bytes(cache_directory, tmp_path, key) + 4096
    table = table_at(tmp_path / "t", primary_key=[key], options={_BUDGET: f"{budget_bytes} b"})
    caches = process_caches(table.options)
    rows = rows_of(range(1000), [key])
    files = {name: build(caches, table, rows, name) for name in ("a", "b", "c")}
    for name, seconds in (("a", 30), ("b", 90), ("c", 60)):
        _age(cache_directory, name, seconds)
    build(caches, table, rows, "d")
    assert _names(cache_directory) == ["a", "c", "d"]
    # Looking rows up is a use.
    assert found(caches, table, files["c"], rows.slice(3, 1).select([key])) is not None
    build(caches, table, rows, "e")
    assert _names(cache_directory) == ["c", "d", "e"]
    assert cache_statistics(table.paths.root).disk_bytes <= budget_bytes
    assert temporaries_on_disk(cache_directory) == []


def test_a_cache_larger_than_the_budget_is_dropped_and_takes_no_other_with_it(
    cache_directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    budget_bytes = 3 * _cache_bytes(cache_directory, tmp_path, "k")
    table = table_at(tmp_path / "t", options={_BUDGET: f"{budget_bytes} b"})
    caches = process_caches(table.options)
    build(caches, table, rows_of(range(1000)), "a")
    caplog.clear()
    file = build(caches, table, rows_of(range(200_000)), "b", ends=range(0, 200_000, 20_000))
    assert found(caches, table, file, key_batch([1])) is None
    assert _names(cache_directory) == ["a"]
    assert temporaries_on_disk(cache_directory) == []
    (warning,) = caplog.records
    assert _BUDGET in warning.getMessage()
    assert str(cache_directory) in warning.getMessage()


def test_room_is_made_while_a_cache_is_built(cache_directory: Path, tmp_path: Path) -> None:
    small_bytes = _cache_bytes(cache_directory, tmp_path, "k")
    large_bytes = _cache_bytes(cache_directory, tmp_path, "k", rows=160_000)
    budget_bytes = large_bytes + 3 * small_bytes // 2
    table = table_at(tmp_path / "t", options={_BUDGET: f"{budget_bytes} b"})
    caches = process_caches(table.options)
    for name in ("a", "b"):
        build(caches, table, rows_of(range(1000)), name)
    _age(cache_directory, "a", 60)
    large = caches.writer(table, path_of(table, "large"))
    assert large is not None
    for start in range(0, 160_000, 40_000):
        large.write(rows_of(range(start, start + 40_000)))
        assert cache_statistics(table.paths.root).disk_bytes <= budget_bytes
    assert _names(cache_directory) == ["b"]
    large.close(file_of(path_of(table, "large"), 160_000))
    assert _names(cache_directory) == ["b", "large"]
    assert cache_statistics(table.paths.root).disk_bytes <= budget_bytes


def test_caches_are_counted_once_more_when_they_take_their_place(tmp_path: Path) -> None:
    """Two that had room when they asked may not have it together."""
    space = CacheSpace(str(tmp_path / "caches"), is_chosen=True)
    folder = tmp_path / "caches" / ("0" * 32)
    source = CachedSource("t", "f", 1, 1, 0, ("k",), ("int64",), 3_600_000)
    buildings = []
    for name in ("a", "b"):
        building = space.begin(str(folder / name))
        (Path(building.path) / "rows.arrow").write_bytes(bytes(40_000))
        seal(building.path, source)
        buildings.append(building)
    assert not space.publish(buildings[0], 80_000, 45_056)  # both count, whoever is first
    assert space.publish(buildings[1], 80_000, 45_056)
    assert _names(tmp_path / "caches") == ["b"]
    third = space.begin(str(folder / "c"))
    (Path(third.path) / "rows.arrow").write_bytes(bytes(40_000))
    seal(third.path, source)
    _age(tmp_path / "caches", "b", 60)
    assert space.publish(third, 80_000, 45_056)
    assert _names(tmp_path / "caches") == ["c"]
    assert temporaries_on_disk(tmp_path / "caches") == []


def test_who_has_room_for_sure_looks_at_no_other_cache(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host may hold thousands; each commit builds one for every bucket that it touches."""
    table = table_at(tmp_path / "t")
    build(process_caches(table.options), table, rows_of(range(5)), "first")
    listed: list[str] = []
    monkeypatch.setattr(cache_space, "_entries", lambda path: [*map(listed.append, [path])])
    for name in ("a", "b", "c"):
        build(process_caches(table.options), table, rows_of(range(5)), name)
    assert listed == []
    assert _names(cache_directory) == ["a", "b", "c", "first"]


@pytest.mark.parametrize("text", ["", "torn", "1 -5\n", "nan 0\n", "1e300 0\n", "-1 0\n", "0 \xff"])
def test_all_are_counted_where_it_is_not_known_what_they_take(
    cache_directory: Path, tmp_path: Path, text: str
) -> None:
    budget_bytes = 3 * _cache_bytes(cache_directory, tmp_path, "k")
    table = table_at(tmp_path / "t", options={_BUDGET: f"{budget_bytes} b"})
    caches = process_caches(table.options)
    for name in ("a", "b", "c", "d"):
        (cache_directory / "lock").write_bytes(text.encode("latin-1"))
        build(caches, table, rows_of(range(1000)), name)
    assert len(caches_on_disk(cache_directory)) == 3


def test_an_account_that_cannot_be_written_is_taken_away(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk. What it said before would be too little."""
    budget_bytes = 3 * _cache_bytes(cache_directory, tmp_path, "k")
    table = table_at(tmp_path / "t", options={_BUDGET: f"{budget_bytes} b"})
    caches = process_caches(table.options)
    for name in ("a", "b"):
        build(caches, table, rows_of(range(1000)), name)

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refuse)
        for name in ("c", "d"):
            build(caches, table, rows_of(range(1000)), name)
            assert (cache_directory / "lock").read_bytes() == b""
    assert len(caches_on_disk(cache_directory)) == 3


def test_an_account_that_is_old_is_not_believed(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    build(caches, table, rows_of(range(5)), "old")
    for cache in caches_on_disk(cache_directory):
        os.utime(cache, (0, 0))
    build(caches, table, rows_of(range(5)), "new")
    assert _names(cache_directory) == ["new", "old"]
    monkeypatch.setattr(counted_bytes, "_COUNT_SECONDS", 0.0)
    build(caches, table, rows_of(range(5)), "newer")
    assert _names(cache_directory) == ["new", "newer"]


def test_tables_share_the_largest_budget(cache_directory: Path, tmp_path: Path) -> None:
    disk_bytes = _cache_bytes(cache_directory, tmp_path, "k")
    small = table_at(tmp_path / "small", options={_BUDGET: f"{disk_bytes + 4096} b"})
    large = table_at(tmp_path / "large", options={_BUDGET: f"{10 * disk_bytes} b"})
    for table in (large, small, large, small):
        caches = process_caches(table.options)
        for name in ("a", "b"):
            build(caches, table, rows_of(range(1000)), name)
    assert _names(cache_directory) == ["a", "b", "a", "b"]


def test_a_budget_is_forgotten_with_the_caches_that_it_was_for(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a table that was dropped: those that are left keep to theirs."""
    disk_bytes = _cache_bytes(cache_directory, tmp_path, "k")
    small = table_at(tmp_path / "small", options={_BUDGET: f"{disk_bytes + 4096} b"})
    dropped = table_at(tmp_path / "dropped", options={_RETENTION: "10 s"})
    caches = process_caches(small.options)
    build(caches, dropped, rows_of(range(1000)), "dropped")
    build(caches, small, rows_of(range(1000)), "a")
    now = time.monotonic()
    for seconds, names in ((9, ["a", "b", "dropped"]), (11, ["c"])):
        clock = SimpleNamespace(monotonic=partial(float, now + seconds))
        monkeypatch.setattr(host_caches, "time", clock)
        build(caches, small, rows_of(range(1000)), "bc"[seconds > 10])
        assert sorted(_names(cache_directory)) == names


def test_a_clock_that_python_has_no_time_for_keeps_nobody_from_reading(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Past 2262: no cache is made, and the rows are found in the data file."""
    table = table_at(tmp_path, options={_RETENTION: "1 h"})
    file = build(process_caches(table.options), table, rows_of([1, 2]), "f")

    def too_large() -> NoReturn:
        raise OverflowError("timestamp too large to convert to C _PyTime_t")

    caches = ProcessCaches(CacheSpace(str(cache_directory), is_chosen=True))
    monkeypatch.setattr(host_caches, "_SWEEP_SECONDS", -1.0)
    monkeypatch.setattr(time, "time_ns", too_large)
    found(caches, table, file, key_batch([1]))


def test_unused_caches_expire(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [
        table_at(tmp_path / name, options={_RETENTION: retention})
        for name, retention in (("short", "10 s"), ("long", "1 h"))
    ]
    files = []
    for table in tables:
        for name in ("old", "new"):
            files.append(build(process_caches(table.options), table, rows_of([1, 2]), name))
    for cache in caches_on_disk(cache_directory):
        if cache.name.startswith("old"):
            then = time.time() - 60
            os.utime(cache, (then, then))
    caches = ProcessCaches(CacheSpace(str(cache_directory), is_chosen=True))
    monkeypatch.setattr(host_caches, "_SWEEP_SECONDS", -1.0)
    assert found(caches, tables[1], files[3], key_batch([1])) is not None
    assert sorted(_names(cache_directory)) == ["new", "new", "old"]
    for cache in caches_on_disk(cache_directory):
        os.utime(cache, (0, 0))
    # Whoever uses one that has expired in the meantime finds it gone or keeps it.
    found(caches, tables[0], files[1], key_batch([1]))
    assert temporaries_on_disk(cache_directory) == []


@pytest.mark.parametrize("key", ["k", "s"])
def test_a_cache_that_is_removed_answers_whoever_has_it_open(
    cache_directory: Path, tmp_path: Path, key: str
) -> None:
    table = table_at(tmp_path / "t", primary_key=[key])
    caches = process_caches(table.options)
    rows = rows_of(range(50_000), [key])
    file = build(caches, table, rows)
    opened = caches.open(table, path_of(table), file, COLUMNS.names)
    assert opened is not None
    (cache,) = caches_on_disk(cache_directory)
    space = CacheSpace(str(cache_directory), is_chosen=True)
    space.remove(str(cache), cache.stat().st_ino)
    assert caches_on_disk(cache_directory) + temporaries_on_disk(cache_directory) == []
    for asked in ([5], range(0, 50_000, 3), range(0, 50_000, 5000)):
        asked_rows = rows_of(asked, [key])
        answer = opened.find(asked_rows.select([key]))
        assert answer.rows == asked_rows
    opened.close()


def test_a_cache_that_lost_its_place_is_let_go(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its bytes would else stay on the disk, uncounted, for as long as the process lives."""
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    file = build(caches, table, rows_of(range(5)))
    assert found(caches, table, file, key_batch([1])) is not None
    (cache,) = caches_on_disk(cache_directory)
    CacheSpace(str(cache_directory), is_chosen=True).remove(str(cache), cache.stat().st_ino)
    assert found(caches, table, file, key_batch([1])) is not None  # not looked at so soon
    monkeypatch.setattr(host_caches, "_TOUCH_SECONDS", -1.0)
    assert found(caches, table, file, key_batch([1])) is None
    build(caches, table, rows_of(range(5)))
    assert found(caches, table, file, key_batch([1])) is not None


def test_remains_of_dead_processes_are_removed(cache_directory: Path, tmp_path: Path) -> None:
    table = table_at(tmp_path / "t", primary_key=["s"])
    caches = process_caches(table.options)

    def die_while_building() -> None:
        others = ProcessCaches(CacheSpace(str(cache_directory), is_chosen=True))
        writer = others.writer(table, path_of(table, "dead"))
        assert writer is not None
        writer.write(rows_of(range(40_000), ["s"]))

    assert os.waitpid(in_a_child(die_while_building), 0)[1] == 0
    assert len(temporaries_on_disk(cache_directory)) == 1
    alive = caches.writer(table, path_of(table, "alive"))
    assert alive is not None
    file = build(caches, table, rows_of(range(5), ["s"]), "new")
    CacheSpace(str(cache_directory), is_chosen=True).sweep(1 << 30)
    (left,) = temporaries_on_disk(cache_directory)
    assert left.name.startswith("alive")
    alive.abort()
    assert found(caches, table, file, text_keys([1])) is not None


def test_folders_of_tables_without_caches_are_removed(
    cache_directory: Path, tmp_path: Path
) -> None:
    for name in ("one", "other"):
        table = table_at(tmp_path / name)
        build(process_caches(table.options), table, rows_of(range(5)))
        for cache in caches_on_disk(cache_directory):
            os.utime(cache, (0, 0))
    space = CacheSpace(str(cache_directory), is_chosen=True)
    space.sweep(1 << 30)
    space.sweep(1 << 30)
    assert [path.name for path in cache_directory.iterdir()] == ["lock"]


def test_a_lock_that_is_not_given_back_is_not_waited_for(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_space, "_LOCK_SECONDS", 0.05)
    table: TableState = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    file = build(caches, table, rows_of(range(5)))
    with open(cache_directory / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert caches.writer(table, path_of(table, "other")) is None
        assert found(caches, table, file, key_batch([1])) is not None
        with pytest.raises(CacheFault, match="lock"):
            CacheSpace(str(cache_directory), is_chosen=True).make_room(1, 0)
    build(caches, table, rows_of(range(5)), "other")
    assert len(caches_on_disk(cache_directory)) == 2


def test_a_child_that_was_forked_in_between_does_not_keep_the_lock(cache_directory: Path) -> None:
    """It has the same lock open for as long as it lives."""
    space = cache_space.CacheSpace(str(cache_directory), is_chosen=True)
    with space._locked():
        child = in_a_child(lambda: time.sleep(600))
    try:
        assert space.make_room(1, 0)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
