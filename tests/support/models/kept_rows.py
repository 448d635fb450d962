"""What a table's snapshots and tags hold, remembered and compared: expiry and cleaning must not change a row of them.

`lived_in_table` is a small table with much behind it; `leftovers` are the files that nothing names any more.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.models.plain_rows import row_texts
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE

COLUMNS = [
    pa.field("k", pa.int64(), nullable=False),
    pa.field("p", pa.int32(), nullable=False),
    pa.field("v", pa.string()),
]
OPTIONS = {
    "widetable.fsync": "false",
    "bucket": "2",
    "num-sorted-run.compaction-trigger": "3",
    "manifest.merge-min-count": "4",
}
_folders: list[TemporaryDirectory[str]] = []


def create(folder: Path, options: Mapping[str, str] | None = None) -> wt.Table:
    return wt.Catalog(str(folder)).create_table(
        "db.t",
        pa.schema(COLUMNS),
        primary_key=["k", "p"],
        partition_by=["p"],
        options={**OPTIONS, **(options or {})},
    )


def batch(number: int, keys: int = 4) -> pa.Table:
    """A few keys of two partitions; later batches overlap earlier ones."""
    ids = [number % 3 + key for key in range(keys)]
    return pa.table(
        {
            "k": pa.array(ids, pa.int64()),
            "p": pa.array([id % 2 for id in ids], pa.int32()),
            "v": [f"{number}/{id}" for id in ids],
        }
    )


def write(table: wt.Table, number: int, *, replay: bool = False) -> wt.CommitResult:
    return table.write(batch(number), "stream", number, replay=replay)


def lived_in_table(folder: Path, options: Mapping[str, str] | None = None) -> wt.Table:
    """Appends that compact, full compactions, an overwrite, and two tags: `early` and `late`.

    A copy: it is written once for each set of options.
    """
    made = _written(tuple(sorted((options or {}).items())))
    return copy_of(made, folder)


def small_table(folder: Path) -> wt.Table:
    """A copy of a table of few files: appends, two compactions, one tag; its files have few buckets."""
    return copy_of(_small(), folder)


@cache
def _small() -> wt.Table:
    folder = TemporaryDirectory(prefix="small-table-")
    _folders.append(folder)
    table = create(Path(folder.name), {"changelog-producer": "input", "bucket": "1"})
    for number in range(4):
        table.write(batch(number, 1), "stream", number)
        if number == 0:
            table.create_tag("early")
    table.compact(full=True)
    return table


@cache
def _written(options: tuple[tuple[str, str], ...]) -> wt.Table:
    folder = TemporaryDirectory(prefix="lived-in-table-")
    _folders.append(folder)
    table = create(Path(folder.name), dict(options))
    for number in range(8):
        write(table, number)
        if number == 2:
            table.create_tag("early")
        if number == 4:
            table.overwrite(batch(number, 2))
        if number == 5:
            table.compact(full=True)
            table.create_tag("late")
    return table


def expire_all(table: wt.Table, limit: int = 1000) -> wt.ExpiryResult:
    """All snapshots but the newest, as far as readers and `limit` allow."""
    return table.expire_snapshots(num_retained_min=1, time_retained_millis=0, limit=limit)


def rows(table: wt.Table, **how: Any) -> list[str]:
    return row_texts(table.scan(**how).to_arrow().to_pylist())


@dataclass(frozen=True)
class KeptRows:
    """The rows of every snapshot and tag at one moment."""

    snapshots: dict[int, list[str]]
    tags: dict[str, list[str]]

    @classmethod
    def of(cls, table: wt.Table) -> KeptRows:
        return cls(
            {s.id: rows(table, snapshot_id=s.id) for s in table.snapshots()},
            {name: rows(table, tag=name) for name in table.tags()},
        )

    def check(self, table: wt.Table) -> None:
        """What is kept reads as before, from the storage; what is not is named as expired."""
        MANIFEST_CACHE.clear()
        kept = [snapshot.id for snapshot in table.snapshots()]
        assert kept == list(range(kept[0], kept[-1] + 1))
        for id, expected in self.snapshots.items():
            if id in kept:
                assert rows(table, snapshot_id=id) == expected, id
            else:
                with pytest.raises(wt.NotFoundError, match="no such snapshot"):
                    table.scan(snapshot_id=id)
        for name in table.tags():
            if name in self.tags:
                assert rows(table, tag=name) == self.tags[name], name


def files_of(table: wt.Table) -> set[str]:
    """Every file of the table, relative to it; hints and the compaction lease left out."""
    root = Path(table.path)
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return {
        name
        for name in found
        if not name.endswith(("/EARLIEST", "/LATEST", "/widetable-compaction-lease"))
    }


def leftovers(table: wt.Table) -> set[str]:
    """Files that nobody would miss, however young."""
    found = table.remove_orphan_files(older_than_millis=0, dry_run=True).paths
    return {os.path.relpath(path, table.path) for path in found}


def copy_of(table: wt.Table, folder: Path) -> wt.Table:
    """The same table at another place."""
    target = folder / "copy.db" / "t"
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(table.path, target)
    return wt.Table.open(str(target))


def age(table: wt.Table, seconds: float) -> None:
    """Make every file and directory of the table older."""
    for folder, _, names in os.walk(table.path, topdown=False):
        for name in [*names, "."]:
            path = os.path.join(folder, name)
            old = os.stat(path).st_mtime - seconds
            os.utime(path, (old, old))
