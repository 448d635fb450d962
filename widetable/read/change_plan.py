"""Plans the changes of one snapshot, and the rows to which the changes after it apply, as splits.

In: a snapshot, its lists, the changelog producer of the table's schema at that snapshot. Out: splits in the order of
partition values, bucket and key; no two splits of a snapshot share a key.

    producer                  changes                                         rows that readers of changes have seen
    none                      files that an APPEND adds, not merged           all live files, merged
    input                     changelog files                                 all live files, merged
    lookup                    changelog files                                 live files of level 1 and above, merged
    full-compaction           changelog files                                 live files of the deepest level

The compaction that moves rows up emits the changelog of `lookup` and `full-compaction`, so rows at a lower level are
not yet emitted. An OVERWRITE emits no changes, as in Paimon. Source: Paimon
`DataTableStreamScan`, `ChangelogFollowUpScanner`, `DeltaFollowUpScanner`; semantics.md section 9. Raises
UnsupportedError for files that this version cannot place, NotFoundError for an expired snapshot, DamagedError.

A stream begins with the rows and continues with the changes. No change may be missing or
repeated between the two:

    snapshot 5, producer lookup      level 5: a=1      level 0: a=2, not compacted yet
    rows of the stream               a=1
    changes of snapshot 6            -U a=1, +U a=2      its compaction; they would be wrong after the row a=2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from widetable.commit.snapshots.live_files import LiveFiles
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.snapshot import COMMIT_KIND_APPEND, COMMIT_KIND_OVERWRITE, Snapshot
from widetable.lsm.levels import levels_of
from widetable.lsm.sorted_run import overlapping, sections
from widetable.read.scan_plan import bucket_order, in_read_order, placed
from widetable.read.split import Split, needs_merge
from widetable.schema.table_schema import TableSchema


@dataclass(frozen=True)
class ChangeSplit:
    """Files of one bucket whose keys overlap.
    No other split of the snapshot has one of their keys, so splits may be read independently, and a
    stream may end a batch between two of them.

    files: rows of one key are read file by file, in this order. by_sequence: rows of one key are ordered by
    `sequence.field` and sequence number instead. This holds for the records of a commit, which are in different files
    only because a writer's memory was full, or several tasks wrote.
    """

    snapshot_id: int
    bucket: BucketId
    files: tuple[DataFileMeta, ...]
    by_sequence: bool = False


def plan_changes(
    live_files: LiveFiles, snapshot: Snapshot, schema: TableSchema, producer: str
) -> tuple[ChangeSplit, ...]:
    """Plan the changes of one snapshot. schema: the schema of the rows that are read.
    producer: that of the snapshot's own schema, or `none` to read the records of appends.
    """
    entries = _entries(live_files, snapshot, producer)
    # A compaction names its files in the order of events.
    by_sequence = snapshot.commit_kind == COMMIT_KIND_APPEND
    return tuple(
        ChangeSplit(snapshot.id, bucket, group, by_sequence)
        for bucket, files in _in_order(entries, schema)
        for group in (_overlapping(files, schema) if schema.has_key else _apart(files, schema))
    )


def plan_rows(
    live_files: LiveFiles, snapshot: Snapshot, schema: TableSchema, producer: str
) -> tuple[Split, ...]:
    """Plan the rows at `snapshot` to which the changes after it apply. schema: the schema of the rows that are read.
    producer: that of the next changes.

    There is one split per section of a bucket, and not per bucket as in scans, so that the first read
    of a large table is divided more finely. Each file of an append table is a split.
    """
    if not schema.has_key:
        return tuple(
            Split(snapshot.id, bucket, group, needs_merge=False)
            for bucket, files in _in_order(live_files.live_entries(snapshot), schema)
            for group in _apart(files, schema)
        )
    return tuple(
        Split(snapshot.id, bucket, section.files, needs_merge(section.files))
        for bucket, files in _in_order(live_files.live_entries(snapshot), schema)
        for section in sections(_seen(files, schema, producer), schema)
    )


def _seen(files: Sequence[DataFileMeta], schema: TableSchema, producer: str) -> list[DataFileMeta]:
    """Return the live files of a bucket whose rows readers of changes have seen."""
    if producer == "lookup":
        lowest = 1
    elif producer == "full-compaction":
        lowest = levels_of(files, schema.typed_options).base_level()
    else:
        lowest = 0
    return [file for file in files if file.level >= lowest]


def _in_order(
    entries: Sequence[ManifestEntry], schema: TableSchema
) -> Iterator[tuple[BucketId, list[DataFileMeta]]]:
    """Yield the buckets in `bucket_order`, with their files in the order of entries."""
    members = placed(entries)
    for bucket in sorted(members, key=bucket_order(schema)):
        yield bucket, [entry.file for entry in members[bucket]]


def _entries(live_files: LiveFiles, snapshot: Snapshot, producer: str) -> Sequence[ManifestEntry]:
    if snapshot.commit_kind == COMMIT_KIND_OVERWRITE:
        return ()
    if producer != "none":
        return live_files.changelog_entries(snapshot)
    if snapshot.commit_kind != COMMIT_KIND_APPEND:
        return ()
    return [entry for entry in live_files.delta_entries(snapshot) if entry.kind == ADD]


def _apart(files: Sequence[DataFileMeta], schema: TableSchema) -> list[tuple[DataFileMeta, ...]]:
    """Return each file of a bucket of an append table by itself, in the order of its rows."""
    return [(file,) for file in in_read_order(schema, files)]


def _overlapping(
    files: Sequence[DataFileMeta], schema: TableSchema
) -> list[tuple[DataFileMeta, ...]]:
    """Divide files into groups with disjoint keys, ordered by key; files of a group keep their order.

    f1 has the keys 1 to 4, f2 6 to 9, f3 3 to 5: the groups are (f1, f3) and (f2).
    """
    if len(files) == 1:
        return [tuple(files)]
    groups = overlapping(files, schema)
    return [tuple(one.file for one in sorted(group, key=lambda one: one.place)) for group in groups]
