"""A table that has one of every kind of file, what readers say of it, and each answer held against a damaged copy.

`Lived` makes it once; `copied` puts a copy in its place, with its lookup caches, for one case.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import widetable as wt
from tests.support.models.plain_rows import row_texts
from widetable.commit.holds.read_lease import hold
from widetable.commit.holds.retired_snapshots import RetiredSnapshots
from widetable.commit.snapshots.manifest_cache import MANIFEST_CACHE
from widetable.storage.local import LocalFileIO
from widetable.storage.paths import TablePaths

IO: Final = LocalFileIO(fsync=False)
OPTIONS: Final = {
    "widetable.fsync": "false",
    "bucket": "2",
    "changelog-producer": "lookup",
    "widetable.lookup-strategy": "lookup",
    "num-sorted-run.compaction-trigger": "3",
    "manifest.merge-min-count": "4",
}
# By their place in the table, but the caches; those that only say something beside the rows are notes.
KINDS: Final[Mapping[str, str]] = {
    "snapshot": "snapshot/snapshot-*",
    "schema": "schema/schema-*",
    "manifest list": "manifest/manifest-list-*",
    "manifest": "manifest/manifest-[!l]*",
    "data file": "**/data-*",
    "changelog file": "**/changelog-*",
    "hint": "snapshot/[EL]A*",
    "consumer": "consumer/*",
    "tag": "tag/*",
    "lease": "service/*lease*",
    "service note": "service/*[!e]",
    "lookup cache": "*",
}
KEYS: Final = pa.table(
    {"k": pa.array(range(8), pa.int64()), "p": pa.array([n % 2 for n in range(8)], pa.int32())}
)

Ask = Callable[[wt.Table], Any]


def batch(number: int) -> pa.Table:
    """A few keys of two partitions; texts that do not compress, so that most of a data file is pages."""
    ids = [number % 3 + key for key in range(4)]
    texts = [random.Random(f"{number} {id}").randbytes(1000).hex() for id in ids]
    parts = pa.array([id % 2 for id in ids], pa.int32())
    return pa.table({"k": pa.array(ids, pa.int64()), "p": parts, "v": texts})


def _rows(**how: Any) -> Ask:
    return lambda table: row_texts(table.scan(**how).to_arrow().to_pylist())


def _changes(start: int, end: int) -> Ask:
    return lambda table: row_texts(table.changes(start, end).to_pylist())


@dataclass
class Lived:
    """questions: what readers ask; answers: what they get when nothing is damaged."""

    folder: Path
    answers: dict[str, Any]
    questions: dict[str, Ask]
    copies: int = 0

    @classmethod
    def made(cls, folder: Path) -> Lived:
        os.environ["WIDETABLE_CACHE_DIR"] = str(folder / "caches-0")
        schema = pa.schema(
            [
                pa.field("k", pa.int64(), nullable=False),
                pa.field("p", pa.int32(), nullable=False),
                pa.field("v", pa.string()),
            ]
        )
        table = wt.Catalog(str(folder / "wh")).create_table(
            "db.t", schema, primary_key=["k", "p"], partition_by=["p"], options=OPTIONS
        )
        for number in range(6):
            table.write(batch(number), "stream", number)
            if number == 1:
                table.create_tag("kept")
                wt.Catalog(str(folder / "wh")).alter_table(
                    "db.t", add_columns=[pa.field("w", pa.int32())]
                )
                table = wt.Table.open(table.path)
        list(table.follow("reader", timeout=0))
        table.expire_snapshots(num_retained_min=4, time_retained_millis=0, limit=3)
        ids = [snapshot.id for snapshot in table.snapshots()]
        questions = {f"snapshot {id}": _rows(snapshot_id=id) for id in ids}
        questions |= {f"changes {a}": _changes(a, a + 1) for a in ids[:-1]}
        questions |= {
            "newest": _rows(),
            "tag": _rows(tag="kept"),
            "lookup": lambda t: row_texts(t.lookup(KEYS).to_pylist()),
            "follow": lambda t: sum(
                b.num_rows for b in t.follow(scan_mode="latest-full", timeout=0)
            ),
            "tags": lambda t: len(t.tags()),
            "inspect": lambda t: t.inspect().latest_snapshot_id,
        }
        answers = {name: ask(table) for name, ask in questions.items()}
        hold(IO, TablePaths(table.path), ids[-1], 600_000).release()
        _leave_notes(table)
        (folder / "wh/db.db/t").rename(folder / "template")
        return cls(folder, answers, questions)

    def copied(self) -> wt.Table:
        """A fresh copy at the table's own place, with lookup caches that no process has opened yet."""
        place = self.folder / "wh/db.db/t"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.folder / "template", place)
        if self.copies:
            shutil.rmtree(self.caches)
        self.copies += 1
        shutil.copytree(self.folder / "caches-0", self.caches, symlinks=True)
        os.environ["WIDETABLE_CACHE_DIR"] = str(self.caches)
        MANIFEST_CACHE.clear()
        return wt.Table.open(str(place))

    @property
    def caches(self) -> Path:
        """Of the last copy."""
        return self.folder / f"caches-{self.copies}"

    def files(self, kind: str) -> list[Path]:
        """Those that the last copy has, in an order that is the same for each."""
        root = self.caches if kind == "lookup cache" else self.folder / "wh/db.db/t"
        pattern = "**/*" if kind == "lookup cache" else KINDS[kind]
        found = (path for path in root.glob(pattern) if path.is_file() and not path.is_symlink())
        return sorted(path for path in found if path.stat().st_size)


def _leave_notes(table: wt.Table) -> None:
    """What a stopped expiry, a killed reader and a killed compaction leave."""
    service = Path(table.path) / "service"
    first = table.snapshots()[0]
    RetiredSnapshots(IO, TablePaths(table.path)).note(first.id)
    lease = hold(IO, TablePaths(table.path), table.snapshots()[-1].id, 600_000)
    for path in service.glob("widetable-read-lease-*"):
        shutil.copy(path, path.with_name("widetable-read-lease-killed"))
        shutil.copy(path, path.with_name("widetable-compaction-lease"))
    lease.release()
