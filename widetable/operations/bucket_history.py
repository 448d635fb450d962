"""What happened to the files of each bucket in a span of snapshots, as far as readers of changes were told of it.

In: snapshots; out: one `BucketHistory` per bucket. A *told* file is one whose rows the changelog is about: of a level
>= `known_level` (1 with producer `lookup`, the bottom level with `full-compaction`). Raises what reading manifests
raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from widetable import options as opt
from widetable.commit.live_files import LiveFiles
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_OVERWRITE, Snapshot
from widetable.lsm.levels import levels_of
from widetable.operations.snapshot_audit import BucketKey
from widetable.schema import TableSchema


@dataclass(frozen=True)
class Step:
    """One snapshot: told files that it added and removed, and its changelog files, in order.

    overwritten: the snapshot replaced files without a changelog.
    """

    snapshot_id: int
    added: tuple[DataFileMeta, ...]
    removed: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...]
    overwritten: bool


@dataclass
class BucketHistory:
    """base: told files at the start. steps: snapshots that did anything, in order."""

    partition: bytes
    bucket: int
    base: tuple[DataFileMeta, ...] = ()
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class Told:
    """After a step: the told files."""

    step: Step
    files: tuple[DataFileMeta, ...]


def told_after(base: Iterable[DataFileMeta], steps: Iterable[Step]) -> Iterator[Told]:
    """The told files after each step."""
    files = {(file.file_name, file.level): file for file in base}
    for step in steps:
        for file in step.removed:
            files.pop((file.file_name, file.level), None)
        files |= {(file.file_name, file.level): file for file in step.added}
        yield Told(step, tuple(files.values()))


_PRODUCERS: Final = ("lookup", "full-compaction")


def known_level(schema: TableSchema) -> int | None:
    """From which level on readers of changes know rows; None without such a producer."""
    options = schema.typed_options
    producer = options.get(opt.CHANGELOG_PRODUCER)
    if producer not in _PRODUCERS:
        return None
    return 1 if producer == "lookup" else levels_of((), options).max_level


def bucket_histories(
    live_files: LiveFiles, start: Snapshot | None, snapshots: Sequence[Snapshot], known_level: int
) -> list[BucketHistory]:
    """start: the snapshot before the first one, None for the empty table. By partition and bucket."""
    found: dict[BucketKey, BucketHistory] = {}

    def told(entries: Iterable[ManifestEntry]) -> dict[BucketKey, list[ManifestEntry]]:
        of_bucket: dict[BucketKey, list[ManifestEntry]] = {}
        for entry in entries:
            if entry.file.level >= known_level:
                of_bucket.setdefault((entry.partition, entry.bucket), []).append(entry)
        return of_bucket

    for key, entries in told(live_files.live_entries(start)).items():
        found[key] = BucketHistory(*key, tuple(entry.file for entry in entries))
    for snapshot in snapshots:
        is_overwrite = snapshot.commit_kind == COMMIT_KIND_OVERWRITE
        moved = told(live_files.delta_entries(snapshot))
        changes: dict[BucketKey, list[DataFileMeta]] = {}
        for entry in live_files.changelog_entries(snapshot):
            changes.setdefault((entry.partition, entry.bucket), []).append(entry.file)
        for key in moved.keys() | changes.keys():
            delta = moved.get(key, ())
            step = Step(
                snapshot.id,
                tuple(entry.file for entry in delta if entry.kind == ADD),
                tuple(entry.file for entry in delta if entry.kind != ADD),
                tuple(changes.get(key, ())),
                is_overwrite,
            )
            found.setdefault(key, BucketHistory(*key)).steps.append(step)
    return [found[key] for key in sorted(found)]
