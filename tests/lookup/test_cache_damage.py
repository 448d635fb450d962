"""A damaged cache gives right rows or none, is removed, and built again: whichever of its files is hit, and where."""

from __future__ import annotations

import json
import logging
import random
import shutil
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import widetable as wt
from tests.lookup.cache_files import (
    COLUMNS,
    build,
    caches_on_disk,
    found,
    path_of,
    rows_of,
    table_at,
    temporaries_on_disk,
    text_of,
)
from widetable.format.data_file_meta import DataFileMeta
from widetable.write.table_state import TableState
from widetable_lookup import cache_manifest, opened_cache
from widetable_lookup.cache_manifest import MANIFEST
from widetable_lookup.cache_space import CacheSpace
from widetable_lookup.host_caches import ProcessCaches
from widetable_lookup.lookup_way import Way
from widetable_lookup.page_checks import PAGE_BYTES
from widetable_lookup.row_map import ROWS

_KEYS = range(0, 6000, 2)
_ASKED = range(1000, 1100)


def _new_process(directory: Path) -> ProcessCaches:
    """What a process that starts now would have."""
    return ProcessCaches(CacheSpace(str(directory), is_chosen=True))


def _built(directory: Path, tmp_path: Path, key: str) -> tuple[TableState, DataFileMeta, Path]:
    table = table_at(tmp_path / "t", primary_key=[key])
    file = build(_new_process(directory), table, rows_of(_KEYS, [key]), ends=[1000])
    (cache,) = caches_on_disk(directory)
    return table, file, cache


def _files(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_file() and not path.is_symlink())


def _looks_up(directory: Path, table: TableState, file: DataFileMeta) -> str:
    """`right`, or `none` after removal, at once or by the first question that meets the damage."""
    caches = _new_process(directory)
    (key,) = table.schema.trimmed_primary_key
    outcome = "right"
    for asked in (_ASKED, _KEYS, range(1, 200, 2)):
        keys = rows_of(asked, [key]).select([key])
        try:
            answer = found(caches, table, file, keys)
        except wt.DamagedError:
            answer = None
        if answer is None:
            assert found(caches, table, file, keys) is None
            assert caches_on_disk(directory) == []
            outcome = "none"
        else:
            hits = [i for i, number in enumerate(asked) if number in _KEYS]
            assert answer[0] == hits
            assert answer[1] == rows_of([asked[i] for i in hits], [key])
    return outcome


def _reads_all(directory: Path, table: TableState, file: DataFileMeta) -> str:
    """`right`, or `none`: the cache is removed at once, or by the first batch that meets the damage."""
    (key,) = table.schema.trimmed_primary_key
    opened = _new_process(directory).open(table, path_of(table), file, COLUMNS.names)
    if opened is not None:
        read: list[pa.RecordBatch] = []
        try:
            read += opened.batches(20_000)
        except wt.DamagedError:
            opened.close()
        else:
            opened.close()
            assert pa.Table.from_batches(read).combine_chunks() == pa.table(rows_of(_KEYS, [key]))
            return "right"
    assert caches_on_disk(directory) == []
    return "none"


def test_flipped_bits_among_all_rows(
    cache_directory: Path, tmp_path: Path, rng: random.Random
) -> None:
    table, file, cache = _built(cache_directory, tmp_path, "s")
    whole = tmp_path / "whole"
    shutil.copytree(cache, whole, symlinks=True)
    assert _reads_all(cache_directory, table, file) == "right"
    outcomes = []
    data = (whole / ROWS).read_bytes()
    for _ in range(40):
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(whole, cache, symlinks=True)
        damaged = bytearray(data)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        (cache / ROWS).write_bytes(damaged)
        outcomes.append(_reads_all(cache_directory, table, file))
    assert outcomes.count("none") > 30  # what lies between the batches is never read


@pytest.mark.parametrize(("key", "way"), [("k", Way.SEARCH), ("s", Way.SEARCH), ("s", Way.INDEX)])
def test_flipped_bits(
    cache_directory: Path,
    tmp_path: Path,
    rng: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    way: Way,
) -> None:
    monkeypatch.setattr(opened_cache, "choose", lambda *_, **__: way)
    table, file, cache = _built(cache_directory, tmp_path, key)
    whole = tmp_path / "whole"
    shutil.copytree(cache, whole, symlinks=True)
    outcomes = []
    for path in _files(whole):
        name = path.relative_to(whole)
        for _ in range(12 if path.stat().st_size > 10_000 else 4):
            shutil.rmtree(cache, ignore_errors=True)
            shutil.copytree(whole, cache, symlinks=True)
            damaged = bytearray(path.read_bytes())
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
            (cache / name).write_bytes(damaged)
            outcomes.append((str(name), _looks_up(cache_directory, table, file)))
    # What is never read may be damaged: between the batches of rows, and blocks that only describe the SST file.
    read = [outcome for name, outcome in outcomes if way is Way.INDEX or not name.endswith(".sst")]
    missed = {name for name, outcome in outcomes if outcome == "right"}
    assert {Path(name).suffix for name in missed} <= {".arrow", ".sst"}
    assert read.count("none") > 0.8 * len(read)


@pytest.mark.parametrize("key", ["k", "s"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_truncated_files(
    cache_directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, key: str, share: float
) -> None:
    table, file, cache = _built(cache_directory, tmp_path, key)
    names = [path.relative_to(cache) for path in _files(cache)]
    for name in names:
        whole = (cache / name).read_bytes()
        (cache / name).write_bytes(whole[: min(int(len(whole) * share), len(whole) - 1)])
        caplog.clear()
        assert _looks_up(cache_directory, table, file) == "none"
        assert str(cache_directory) in caplog.text
        build(_new_process(cache_directory), table, rows_of(_KEYS, [key]), ends=[1000])
    assert _looks_up(cache_directory, table, file) == "right"


@pytest.mark.parametrize("suffix", [".arrow", ".sst"])
def test_files_that_grew(cache_directory: Path, tmp_path: Path, suffix: str) -> None:
    table, file, cache = _built(cache_directory, tmp_path, "s")
    (path,) = [path for path in _files(cache) if path.suffix == suffix]
    path.write_bytes(path.read_bytes() + b"x")
    assert _looks_up(cache_directory, table, file) == "none"


@pytest.mark.parametrize("key", ["k", "s"])
def test_a_key_that_cannot_be_found_for_damage_is_not_missing(
    cache_directory: Path, tmp_path: Path, key: str
) -> None:
    """No other row is read, so only the rows between which the key would lie can show it."""
    table, file, cache = _built(cache_directory, tmp_path, key)
    caches = _new_process(cache_directory)
    asked = rows_of([1002], [key])
    assert found(caches, table, file, asked.select([key])) == ([0], asked)
    written = (1002).to_bytes(8, "little") if key == "k" else text_of(1002).encode()
    for changed in (bytes([written[0] ^ 2]) + written[1:], written[:-1] + bytes([written[-1] ^ 2])):
        whole = (cache / ROWS).read_bytes()
        assert whole.count(written) == 1
        (cache / ROWS).write_bytes(whole.replace(written, changed))
        caches = _new_process(cache_directory)
        with pytest.raises(wt.DamagedError, match="page"):
            found(caches, table, file, asked.select([key]))
        build(_new_process(cache_directory), table, rows_of(_KEYS, [key]), ends=[1000])


@pytest.mark.parametrize("key", ["k", "s"])
def test_missing_files(cache_directory: Path, tmp_path: Path, key: str) -> None:
    table, file, cache = _built(cache_directory, tmp_path, key)
    for name in [path.relative_to(cache) for path in _files(cache)]:
        (cache / name).unlink()
        assert _looks_up(cache_directory, table, file) == "none"
        assert temporaries_on_disk(cache_directory) == []
        build(_new_process(cache_directory), table, rows_of(_KEYS, [key]), ends=[1000])


def test_an_index_of_other_rows_gives_no_rows(
    cache_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if each position were flipped: only the keys of the rows themselves show it."""
    table, file, cache = _built(cache_directory, tmp_path, "s")
    other = table_at(tmp_path / "other", primary_key=["s"])
    build(_new_process(cache_directory), other, rows_of([-1, *_KEYS], ["s"]))
    (foreign,) = [path for path in caches_on_disk(cache_directory) if path != cache]
    shutil.rmtree(cache / "keys")
    shutil.copytree(foreign / "keys", cache / "keys", symlinks=True)
    shutil.rmtree(foreign)
    _manifest_again(cache)
    caches = _new_process(cache_directory)
    monkeypatch.setattr(opened_cache, "choose", lambda *_, **__: Way.INDEX)
    with pytest.raises(wt.DamagedError, match="other keys"):
        found(caches, table, file, rows_of([1000], ["s"]).select(["s"]))
    assert caches_on_disk(cache_directory) == []


def _manifest_again(cache: Path) -> None:
    """A right manifest of what lies there now."""
    source = cache_manifest.read_manifest(str(cache)).source
    (cache / MANIFEST).unlink()
    cache_manifest.seal(str(cache), source)


def test_the_cache_of_another_file_is_not_used(cache_directory: Path, tmp_path: Path) -> None:
    table, file, _ = _built(cache_directory, tmp_path, "k")
    caches = _new_process(cache_directory)
    path = path_of(table, file.file_name)
    longer = file._replace(row_count=file.row_count + 1)
    assert caches.open(table, path, longer, ["s"]) is None
    assert caches_on_disk(cache_directory) == []


def test_columns_of_another_type_are_not_used(cache_directory: Path, tmp_path: Path) -> None:
    _, file, _ = _built(cache_directory, tmp_path, "k")
    columns = COLUMNS.set(2, pa.field("n", pa.int64()))
    table = table_at(tmp_path / "t", columns)
    assert _new_process(cache_directory).open(table, path_of(table), file, ["n"]) is None
    assert caches_on_disk(cache_directory) == []


def test_a_cache_from_before_the_host_started_is_not_trusted(
    cache_directory: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table, file, cache = _built(cache_directory, tmp_path, "k")
    body = json.loads((cache / MANIFEST).read_bytes().rpartition(b"\n")[0])
    text = json.dumps({**body, "boot": "another"}).encode()
    (cache / MANIFEST).write_bytes(b"%s\n%08x" % (text, zlib.crc32(text)))
    with caplog.at_level(logging.INFO):
        assert found(_new_process(cache_directory), table, file, rows_of([2]).select(["k"])) is None
    assert "started again" in caplog.text
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert caches_on_disk(cache_directory) == []


def test_damage_while_it_is_open_is_met_by_other_rows(
    cache_directory: Path, tmp_path: Path
) -> None:
    """What was read before is not checked again; what is read for the first time is."""
    table, file, cache = _built(cache_directory, tmp_path, "k")
    caches = _new_process(cache_directory)
    assert found(caches, table, file, rows_of([0]).select(["k"])) is not None
    (handle,) = caches._handles.values()
    seen = handle.cache.rows.pages._seen
    with open(cache / ROWS, "r+b") as rows:
        for page in np.flatnonzero(seen == 0).tolist():
            rows.seek(page * PAGE_BYTES)
            damaged = bytes(byte ^ 1 for byte in rows.read(100))
            rows.seek(page * PAGE_BYTES)
            rows.write(damaged)
    with pytest.raises(wt.DamagedError, match="page"):
        found(caches, table, file, rows_of(_KEYS).select(["k"]))
    assert found(caches, table, file, rows_of([0]).select(["k"])) is None
    assert caches_on_disk(cache_directory) == []
