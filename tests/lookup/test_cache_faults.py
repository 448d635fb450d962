"""A disk that refuses costs the cache and nothing else: one warning that names the directory, and no remains."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from rocksdict import Cache

import widetable as wt
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
)
from widetable_lookup import (
    cache_paths,
    cache_statistics,
    complete_caches,
    opened_cache,
    process_caches,
    row_files,
)
from widetable_lookup.cache_fault import CacheFault
from widetable_lookup.cache_space import CacheSpace, space_of_host
from widetable_lookup.host_caches import ProcessCaches
from widetable_lookup.opened_cache import OpenedCache
from widetable_lookup.row_files import RowFiles


@contextlib.contextmanager
def _files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Like a disk that is full: a file is cut where it would grow past the size, and the write fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("primary_key", [("k",), ("s",)])
@pytest.mark.parametrize("size_bytes", [0, 300, 3000, 30_000, 300_000])
def test_a_full_disk_costs_the_cache(
    cache_directory: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    primary_key: tuple[str, ...],
    size_bytes: int,
) -> None:
    table = table_at(tmp_path / "t", primary_key=primary_key)
    caches = process_caches(table.options)
    rows = rows_of(range(35_000), primary_key)
    with _files_of_at_most(size_bytes):
        file = build(caches, table, rows, ends=[33_000])
        assert found(caches, table, file, rows.slice(3, 1).select(list(primary_key))) is None
    assert caches_on_disk(cache_directory) + temporaries_on_disk(cache_directory) == []
    (warning,) = caplog.records
    assert str(cache_directory) in warning.getMessage()
    build(caches, table, rows)
    assert found(caches, table, file, rows.slice(3, 1).select(list(primary_key))) is not None


def _open_below(directory: Path) -> list[str]:
    """Files that this process has open there."""
    links = [os.readlink(link.path) for link in os.scandir("/proc/self/fd") if link.is_symlink()]
    return [link for link in links if link.startswith(f"{directory}/")]


def _refuse(*_: object) -> None:
    raise CacheFault("refused")


def test_a_writer_that_cannot_begin_keeps_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = table_at(tmp_path / "t", primary_key=["s"]).schema
    monkeypatch.setattr(row_files, "KeyIndexWriter", _refuse)
    with pytest.raises(CacheFault) as refused:
        RowFiles(str(tmp_path), schema, COLUMNS.names)
    assert refused.value.__traceback__ is not None  # and by that all that its frames have
    assert _open_below(tmp_path) == []


def test_a_cache_that_cannot_be_opened_keeps_nothing_open(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_at(tmp_path / "t", primary_key=["s"])
    file = build(process_caches(table.options), table, rows_of(range(5), ["s"]))
    (cache,) = caches_on_disk(cache_directory)
    opened = OpenedCache(str(cache), table.schema, file, Cache(0))
    assert any("keys" in path for path in _open_below(cache))
    opened.close()
    del opened
    monkeypatch.setattr(opened_cache, "KeyColumns", _refuse)
    with pytest.raises(CacheFault) as refused:
        OpenedCache(str(cache), table.schema, file, Cache(0))
    assert refused.value.__traceback__ is not None
    assert [path for path in _open_below(cache) if "keys" in path] == []


def test_a_full_disk_does_not_stop_lookups(cache_directory: Path, tmp_path: Path) -> None:
    table = table_at(tmp_path / "t", primary_key=["s"])
    file = build(process_caches(table.options), table, rows_of(range(5), ["s"]))
    with _files_of_at_most(0):
        caches = ProcessCaches(CacheSpace(str(cache_directory), is_chosen=True))
        assert found(caches, table, file, rows_of([1], ["s"]).select(["s"])) is not None


def test_a_directory_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("WIDETABLE_CACHE_DIR", str(tmp_path / "file/caches"))
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    assert caches.writer(table, path_of(table)) is None
    assert caches.open(table, path_of(table), file_of(path_of(table), 1), ["s"]) is None
    (warning,) = caplog.records
    assert str(tmp_path / "file/caches") in warning.getMessage()


def test_a_directory_that_goes_away_under_a_builder(
    cache_directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = table_at(tmp_path / "t", primary_key=["s"])
    caches = process_caches(table.options)
    writer = caches.writer(table, path_of(table))
    assert writer is not None
    writer.write(rows_of(range(40_000), ["s"]))
    os.rename(cache_directory, tmp_path / "moved")
    writer.write(rows_of(range(40_000, 80_000), ["s"]))
    writer.close(file_of(path_of(table), 80_000))
    assert str(cache_directory) in caplog.text
    build(caches, table, rows_of(range(5), ["s"]))
    assert len(caches_on_disk(cache_directory)) == 1


@pytest.fixture
def default_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Which nobody chose."""
    monkeypatch.delenv("WIDETABLE_CACHE_DIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = Path(cache_paths.directory_of_host())
    assert directory == tmp_path / f"widetable-cache-{os.getuid()}"
    return directory


def _filled_by_others(directory: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if they had made it, and laid out what they found to be there."""
    if kind == "open to others":
        directory.chmod(0o770)
    elif kind == "a link":
        directory.rename(directory.parent / "elsewhere")
        directory.symlink_to(directory.parent / "elsewhere")
    else:
        owner = directory.stat().st_uid
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)
        directory.rename(cache_paths.directory_of_host())


@pytest.mark.parametrize("kind", ["open to others", "a link", "of another"])
def test_a_default_directory_that_others_could_have_filled_is_not_used(
    default_directory: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: str,
) -> None:
    table = table_at(tmp_path / "t")
    file = build(process_caches(table.options), table, rows_of(range(5)))
    assert [cache.rows for cache in complete_caches(table.paths.root)] == [5]
    _filled_by_others(default_directory, kind, monkeypatch)
    space = space_of_host()
    caches = ProcessCaches(space)
    (cache,) = caches_on_disk(Path(space.directory))
    lock, theirs = Path(space.directory) / "lock", tmp_path / "theirs"
    lock.unlink()
    lock.symlink_to(theirs)
    theirs.write_text("theirs")

    assert found(caches, table, file, key_batch([1])) is None
    assert caches.writer(table, path_of(table, "other")) is None
    assert space.directory in caplog.text
    caches.forget(table, [path_of(table)])
    for use in (
        lambda: space.begin(f"{cache}.other"),
        lambda: space.sweep(0),
        lambda: space.make_room(0, 1),
        lambda: space.remove(str(cache), cache.stat().st_ino),
        lambda: space.remove_all([str(cache)]),
    ):
        with pytest.raises(CacheFault, match="only its owner"):
            use()
    assert cache_statistics(table.paths.root) == (0, 0)
    assert [*complete_caches(table.paths.root)] == []
    assert caches_on_disk(Path(space.directory)) == [cache]
    assert theirs.read_text() == "theirs"


def test_a_default_directory_that_is_a_file_is_not_used(
    default_directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    default_directory.write_text("")
    table = table_at(tmp_path / "t")
    assert process_caches(table.options).writer(table, path_of(table)) is None
    assert str(default_directory) in caplog.text


def test_a_lock_that_is_a_link_is_not_followed(cache_directory: Path, tmp_path: Path) -> None:
    cache_directory.mkdir()
    (cache_directory / "lock").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="lock"):
        CacheSpace(str(cache_directory), is_chosen=True).sweep(1000)
    assert not (tmp_path / "theirs").exists()


def test_the_default_directory_is_for_its_owner_only(
    default_directory: Path, tmp_path: Path
) -> None:
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    for name in ("1", "2"):
        file = build(caches, table, rows_of(range(5)), name)
        assert found(caches, table, file, key_batch([1])) is not None
    assert default_directory.stat().st_mode & 0o777 == 0o700


def test_keys_that_can_be_no_keys_do_not_cost_the_cache(
    cache_directory: Path, tmp_path: Path
) -> None:
    table = table_at(tmp_path / "t")
    caches = process_caches(table.options)
    file = build(caches, table, rows_of(range(5)))
    keys = pa.RecordBatch.from_arrays([pa.array([None], pa.int64())], names=["k"])
    with pytest.raises(wt.InvalidError):
        found(caches, table, file, keys)
    assert found(caches, table, file, key_batch([1])) is not None
