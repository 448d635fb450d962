"""The history of the files of each bucket in a span of snapshots, as far as the changelog emits it.

In: snapshots; out: one `BucketHistory` per bucket. An *emitted* file is one whose rows the changelog describes: a file
at a level >= 1 with producer `lookup`, at the deepest level with `full-compaction`. Raises what reading manifests
raises.

Example: a table with `lookup`, three commits of one key, each with its compaction, then a full compaction:

    snapshot        2 COMPACT   4 COMPACT    6 COMPACT       7 APPEND    8 COMPACT    9 COMPACT
    added           a (L9)      b (L8)       c (L7)          -           d (L6)       e (L9)
    removed         -           -            -               -           -            a b c d
    changelog       1 file      1 file       1 file          -           1 file       -
    files after     a           a b          a b c           -           a b c d      e

There is no step for 7, because no row of its file at level 0 was emitted. A file that a snapshot moves from level 2 to
5 is both removed and added: name and level together identify a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from widetable.commit.snapshots.live_files import LiveFiles
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_OVERWRITE, Snapshot
from widetable.lsm.levels import levels_of
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema


@dataclass(frozen=True)
class HistoryStep:
    """Describes one snapshot: the emitted files that it added and removed, and its changelog files, in order.

    files: the emitted files after it, with their deletion vectors of that snapshot. overwritten: the snapshot replaced
    files without a changelog. The changelog then no longer folds to the rows, so the audit starts again from `files`.
    """

    snapshot_id: int
    added: tuple[DataFileMeta, ...]
    removed: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...]
    overwritten: bool
    files: tuple[DataFileMeta, ...]


@dataclass
class BucketHistory:
    """Holds the history of one bucket. base: emitted files at the start. steps: snapshots that changed it, in order."""

    bucket: BucketId
    base: tuple[DataFileMeta, ...] = ()
    steps: list[HistoryStep] = field(default_factory=list)


_PRODUCERS: Final = ("lookup", "full-compaction")
# Live files of a bucket by name and level, in the order in which they were added.
_Files = dict[tuple[str, int], DataFileMeta]


def emits_of_files(schema: TableSchema) -> bool:
    """Whether the table has a producer whose changelog describes files that compactions made."""
    return schema.typed_options.get(opt.CHANGELOG_PRODUCER) in _PRODUCERS


def bucket_histories(
    live_files: LiveFiles,
    schema: TableSchema,
    start: Snapshot | None,
    snapshots: Sequence[Snapshot],
) -> list[BucketHistory]:
    """Return the histories of all buckets, sorted by partition and bucket.

    start: the snapshot before the first one, None for the empty table. snapshots: consecutive, ascending. The metas of
    all live files, and those of each step, are in memory at once; no data file is read.
    """
    live: dict[BucketId, _Files] = {}
    for entry in live_files.live_entries(start):
        _apply(live.setdefault(entry.bucket_id, {}), entry)
    histories = {
        key: BucketHistory(key, tuple(_emits(files, schema).values()))
        for key, files in live.items()
    }
    for snapshot in snapshots:
        delta = by_bucket(live_files.delta_entries(snapshot))
        changes = by_bucket(live_files.changelog_entries(snapshot))
        for key in delta.keys() | changes.keys():
            files = live.setdefault(key, {})
            before = _emits(files, schema)
            for entry in delta.get(key, ()):
                _apply(files, entry)
            after = _emits(files, schema)
            step = HistoryStep(
                snapshot.id,
                tuple(file for name, file in after.items() if name not in before),
                tuple(file for name, file in before.items() if name not in after),
                tuple(entry.file for entry in changes.get(key, ())),
                snapshot.commit_kind == COMMIT_KIND_OVERWRITE,
                live_files.marked(after.values(), snapshot),
            )
            if step.added or step.removed or step.changelog:
                histories.setdefault(key, BucketHistory(key)).steps.append(step)
    return [histories[key] for key in sorted(histories)]


def _emits(files: _Files, schema: TableSchema) -> _Files:
    options = schema.typed_options
    of_lookup = options.get(opt.CHANGELOG_PRODUCER) == "lookup"
    # The bottom is the deepest level of the bucket at that snapshot. While all files are at level 0, the options of
    # now give the bottom.
    lowest = 1 if of_lookup else levels_of(files.values(), options).base_level()
    return {name: file for name, file in files.items() if file.level >= lowest}


def _apply(files: _Files, entry: ManifestEntry) -> None:
    name = entry.file.file_name, entry.file.level
    if entry.kind == ADD:
        files[name] = entry.file
    else:
        files.pop(name, None)
