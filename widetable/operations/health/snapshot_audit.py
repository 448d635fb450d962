"""Laws of a table's snapshots and of the files that they name, checked by metadata alone.

    law               for each snapshot
    snapshot-ids      its id follows that of the one before
    commit-once       no other one has its user, identifier and kind; batch writers share one identifier
    manifest-counts   each manifest has as many additions and deletions as its list says
    base              its base list names what was live at the snapshot before
    delta             it adds what was not live, and deletes what was
    record-counts     total, delta and changelog records are those of its files
    levels            files of one level above 0 in one bucket share no key range
    compacted-rows    in an append table a compaction adds as many rows as it removes, without those that vectors delete

In: snapshots in the order of their ids, without gaps except before the first; out: findings. Live files are carried
from snapshot to snapshot, so each snapshot costs as much as it changed. Only a base list that differs from the
concatenated manifests of the snapshot before is read. Raises what reading lists and manifests raises, except for a
manifest that contradicts itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from widetable.commit.snapshots.live_files import LiveFiles, live
from widetable.errors import DamagedError, UnsupportedError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD, Identity, ManifestEntry
from widetable.format.manifest_file import ManifestFileMeta
from widetable.format.partition_value import shown_texts
from widetable.format.snapshot import BATCH_COMMIT_IDENTIFIER, COMMIT_KIND_COMPACT, Snapshot
from widetable.lsm.sorted_run import key_types, sort_key
from widetable.messages.counted import counted
from widetable.operations.health.audit_report import Finding, Findings
from widetable.schema.table_schema import TableSchema


def partition_text(partition: bytes, schema: TableSchema) -> str:
    """Return `dt=2024-02-29/region=eu`, "" without partitions, not escaped; hex digits for types that have no text."""
    try:
        texts = shown_texts(partition, schema)
    except UnsupportedError:
        return partition.hex()
    return "/".join(f"{name}={text}" for name, text in texts)


class SnapshotAudit:
    """Checks one snapshot after the other. Not thread-safe.

    Memory: the entries of all live files, and a few words for each commit and manifest that it has seen.
    """

    def __init__(self, live_files: LiveFiles, schema: TableSchema, findings: Findings) -> None:
        self._live_files = live_files
        self._schema: Final = schema
        self._findings = findings
        self._key_types = key_types(schema)
        self._live: dict[BucketId, dict[Identity, ManifestEntry]] = {}
        self._live_rows = 0
        self._manifests: tuple[ManifestFileMeta, ...] | None = None
        self._last_id: int | None = None
        self._last_index: Snapshot | None = None
        self._commits: dict[tuple[str, int, str], int] = {}
        self._counted: set[str] = set()

    def check(self, snapshot: Snapshot) -> None:
        """Check one snapshot against its own files and the snapshot before.

        A base that names other files is one finding: later snapshots are compared with these files.
        """
        self._check_identity(snapshot)
        base = self._live_files.manifest_list(snapshot.base_manifest_list, snapshot)
        delta = self._live_files.manifest_list(snapshot.delta_manifest_list, snapshot)
        self._check_manifests(snapshot, (*base, *delta))
        self._check_base(snapshot, base)
        entries = self._entries(snapshot, delta)
        touched = self._apply(snapshot, entries)
        self._check_counts(snapshot, entries)
        if not self._schema.has_key and snapshot.commit_kind == COMMIT_KIND_COMPACT:
            self._check_compacted(snapshot, entries)
        self._last_index = snapshot
        for bucket in sorted(touched):
            self._check_levels(snapshot, bucket)
        self._manifests = (*base, *delta)
        self._last_id = snapshot.id

    def _check_identity(self, snapshot: Snapshot) -> None:
        findings = self._findings
        if self._last_id is not None:
            findings.checked("snapshot-ids")
            if snapshot.id != self._last_id + 1:
                self._find("snapshot-ids", snapshot, f"id {self._last_id + 1}", f"{snapshot.id}")
        # Batch writers have one identifier for all their commits.
        if snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER:
            return
        findings.checked("commit-once")
        commit = (snapshot.commit_user, snapshot.commit_identifier, snapshot.commit_kind)
        first = self._commits.setdefault(commit, snapshot.id)
        if first != snapshot.id:
            user, identifier, kind = commit
            self._find(
                "commit-once",
                snapshot,
                "a commit that no other snapshot has",
                f"{kind} {identifier} of the user {user!r}, as in snapshot {first}",
            )

    def _check_manifests(self, snapshot: Snapshot, metas: Sequence[ManifestFileMeta]) -> None:
        """Check each manifest once: later lists name it again, and its bytes never change."""
        for meta in metas:
            if meta.file_name in self._counted:
                continue
            self._counted.add(meta.file_name)
            self._findings.checked("manifest-counts")
            entries = self._live_files.manifest(meta, snapshot).entries
            added = sum(entry.kind == ADD for entry in entries)
            actual = (added, len(entries) - added)
            recorded = (meta.num_added_files, meta.num_deleted_files)
            if actual != recorded:
                texts = [f"{plus} added and {minus} deleted" for plus, minus in (recorded, actual)]
                self._find("manifest-counts", snapshot, texts[0], texts[1], meta.file_name)

    def _check_base(self, snapshot: Snapshot, base: tuple[ManifestFileMeta, ...]) -> None:
        """Compare the base with the live files; without a snapshot before, take the base as the live files."""
        if self._manifests is None:
            self._take(self._merged(snapshot, base))
            return
        self._findings.checked("base")
        # The base is nearly always the base and the delta before, concatenated. A merge of manifests makes another list
        # of the same files, which is read.
        if base == self._manifests:
            return
        merged = self._merged(snapshot, base)
        listed = {entry.identity for entry in merged}
        live = {identity for bucket in self._live.values() for identity in bucket}
        if listed == live:
            return
        names = [
            f"{counted(len(side), 'file')} {_some(side)}" for side in (live - listed, listed - live)
        ]
        self._find(
            "base",
            snapshot,
            f"the {counted(len(live), 'file that was', 'files that were')} live at snapshot {self._last_id}",
            f"{counted(len(listed), 'file')}; missing {names[0]}, more {names[1]}",
        )
        self._take(merged)

    def _merged(self, snapshot: Snapshot, metas: Sequence[ManifestFileMeta]) -> list[ManifestEntry]:
        """Return the entries that are live by these manifests; if they contradict themselves, all that they add."""
        entries = self._entries(snapshot, metas)
        try:
            return live(entries)
        except DamagedError as error:
            self._find("delta", snapshot, error.expected, f"{error.subject}: {error.found}")
            by_identity = {entry.identity: entry for entry in entries if entry.kind == ADD}
            return list(by_identity.values())

    def _entries(
        self, snapshot: Snapshot, metas: Sequence[ManifestFileMeta]
    ) -> list[ManifestEntry]:
        return [
            entry for meta in metas for entry in self._live_files.manifest(meta, snapshot).entries
        ]

    def _take(self, entries: Iterable[ManifestEntry]) -> None:
        self._live, self._live_rows = {}, 0
        for entry in entries:
            self._live.setdefault(entry.bucket_id, {})[entry.identity] = entry
            self._live_rows += entry.file.row_count

    def _apply(self, snapshot: Snapshot, delta: Sequence[ManifestEntry]) -> set[BucketId]:
        """Apply the delta to the live files, and return the buckets whose files changed."""
        touched = set()
        for entry in delta:
            self._findings.checked("delta")
            bucket = self._live.setdefault(entry.bucket_id, {})
            touched.add(entry.bucket_id)
            is_live = entry.identity in bucket
            if is_live is (entry.kind == ADD):
                texts = ("a file that is not live", "a live file")
                expected, actual = texts if is_live else texts[::-1]
                verb = "added" if entry.kind == ADD else "deleted"
                self._find_file("delta", snapshot, entry, expected, f"{actual}, {verb}")
            elif is_live:
                del bucket[entry.identity]
                self._live_rows -= entry.file.row_count
            else:
                bucket[entry.identity] = entry
                self._live_rows += entry.file.row_count
        return touched

    def _check_counts(self, snapshot: Snapshot, delta: Sequence[ManifestEntry]) -> None:
        """Compare the record counts with the files. A deleted file counts negatively in the delta, as in Paimon."""
        signed = (e.file.row_count if e.kind == ADD else -e.file.row_count for e in delta)
        emitted = self._live_files.changelog_entries(snapshot)
        has_list = snapshot.changelog_manifest_list is not None
        counts = {
            "total": (self._live_rows, snapshot.total_record_count),
            "delta": (sum(signed), snapshot.delta_record_count),
            "changelog": (
                sum(entry.file.row_count for entry in emitted) if has_list else 0,
                snapshot.changelog_record_count or 0,
            ),
        }
        for name, (expected, actual) in counts.items():
            self._findings.checked("record-counts")
            if expected != actual:
                texts = (f"a {name} record count of {expected}", f"{actual}")
                self._find("record-counts", snapshot, *texts)

    def _check_compacted(self, snapshot: Snapshot, delta: Sequence[ManifestEntry]) -> None:
        """Compare the rows that a compaction of an append table removes with those that it adds."""
        index = self._live_files.index(self._last_index)
        deleted = {v.data_file: v.rows for entry in index for v in entry.vectors}
        gone = [e.file for e in delta if e.kind != ADD]
        counts = [deleted.get(file.file_name, 0) for file in gone]
        if self._last_index is None or None in counts:
            return  # the first snapshot that is audited, or an index that does not count its rows
        before = sum(file.row_count for file in gone) - sum(filter(None, counts))
        after = sum(e.file.row_count for e in delta if e.kind == ADD)
        self._findings.checked("compacted-rows")
        if before != after:
            rows = counted(before, "row"), counted(after, "row")
            self._find("compacted-rows", snapshot, *rows)

    def _check_levels(self, snapshot: Snapshot, bucket: BucketId) -> None:
        """Check the levels above 0. Each file of level 0 is its own run, so these may overlap."""
        entries = list(self._live[bucket].values())
        for level, files in Counter(entry.file.level for entry in entries).items():
            if level == 0:
                continue
            self._findings.checked("levels")
            if files > 1:
                self._check_level(snapshot, [e for e in entries if e.file.level == level])

    def _check_level(self, snapshot: Snapshot, entries: Sequence[ManifestEntry]) -> None:
        def bounds(file: DataFileMeta) -> tuple[tuple[object, ...], tuple[object, ...]]:
            return sort_key(file.min_key, self._key_types), sort_key(file.max_key, self._key_types)

        ordered = sorted(((bounds(e.file), e) for e in entries), key=lambda pair: pair[0])
        for ((_, last), one), ((first, _), following) in pairwise(ordered):
            if first <= last:
                self._find_file(
                    "levels",
                    snapshot,
                    following,
                    f"no key of {one.file.file_name}, which has the level {one.file.level} too",
                    "a key range that overlaps its",
                )

    def _find(
        self, law: str, snapshot: Snapshot, expected: str, actual: str, file: str | None = None
    ) -> None:
        self._findings.add(Finding(law, snapshot.id, expected, actual, file=file))

    def _find_file(
        self, law: str, snapshot: Snapshot, entry: ManifestEntry, expected: str, actual: str
    ) -> None:
        self._findings.add(
            Finding(
                law,
                snapshot.id,
                expected,
                actual,
                partition_text(entry.partition, self._schema),
                entry.bucket,
                entry.file.file_name,
            )
        )


def _some(identities: Iterable[Identity]) -> list[str]:
    return sorted(identity[3] for identity in identities)[:3]
