"""What happened to the files of each bucket in a span of snapshots, as far as the changelog emits it.

In: snapshots; out: one `BucketHistory` per bucket. An *emitted* file is one whose rows the changelog is of: at a level
>= 1 with producer `lookup`, of the deepest level with `full-compaction`. Raises what reading manifests raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from widetable import options as opt
from widetable.commit.live_files import LiveFiles
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_OVERWRITE, Snapshot
from widetable.lsm.levels import levels_of
from widetable.schema import TableSchema


@dataclass(frozen=True)
class HistoryStep:
    """One snapshot: emitted files that it added and removed, and its changelog files, in order. files: the emitted ones
    after it, with what was deleted of them by then.

    overwritten: the snapshot replaced files without a changelog.
    """

    snapshot_id: int
    added: tuple[DataFileMeta, ...]
    removed: tuple[DataFileMeta, ...]
    changelog: tuple[DataFileMeta, ...]
    overwritten: bool
    files: tuple[DataFileMeta, ...]


@dataclass
class BucketHistory:
    """base: emitted files at the start. steps: snapshots that did anything, in order."""

    bucket: BucketId
    base: tuple[DataFileMeta, ...] = ()
    steps: list[HistoryStep] = field(default_factory=list)


@dataclass(frozen=True)
class Emitted:
    """The emitted files after a step."""

    step: HistoryStep
    files: tuple[DataFileMeta, ...]


def emitted_after(steps: Iterable[HistoryStep]) -> Iterator[Emitted]:
    """The emitted files after each step."""
    return (Emitted(step, step.files) for step in steps)


_PRODUCERS: Final = ("lookup", "full-compaction")
_Files = dict[tuple[str, int], DataFileMeta]


def emits_of_files(schema: TableSchema) -> bool:
    """Whether the table has a producer whose changelog is about files that compactions made."""
    return schema.typed_options.get(opt.CHANGELOG_PRODUCER) in _PRODUCERS


def bucket_histories(
    live_files: LiveFiles,
    schema: TableSchema,
    start: Snapshot | None,
    snapshots: Sequence[Snapshot],
) -> list[BucketHistory]:
    """start: the snapshot before the first one, None for the empty table. By partition and bucket."""
    live: dict[BucketId, _Files] = {}
    for entry in live_files.live_entries(start):
        _apply(live.setdefault(entry.bucket_id, {}), entry)
    found = {
        key: BucketHistory(key, tuple(_emits(held, schema).values())) for key, held in live.items()
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
                found.setdefault(key, BucketHistory(key)).steps.append(step)
    return [found[key] for key in sorted(found)]


def _emits(files: _Files, schema: TableSchema) -> _Files:
    options = schema.typed_options
    of_lookup = options.get(opt.CHANGELOG_PRODUCER) == "lookup"
    lowest = 1 if of_lookup else levels_of(files.values(), options).base_level()
    return {name: file for name, file in files.items() if file.level >= lowest}


def _apply(files: _Files, entry: ManifestEntry) -> None:
    name = entry.file.file_name, entry.file.level
    if entry.kind == ADD:
        files[name] = entry.file
    else:
        files.pop(name, None)
