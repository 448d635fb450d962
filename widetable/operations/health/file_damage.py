"""Which data and changelog files of a snapshot are damaged: missing, of another size, or not what they should hold.

In: manifest entries of a snapshot. Out: those whose files are damaged, bucket by bucket. By default only what a listing
of the bucket shows, and what compactions of this process have met; deep: each file is read as a whole. A file that is
not there because its snapshot has expired meanwhile is not damaged. Files that other clients put elsewhere, and those
of tables without a primary key, are not looked at. Raises StorageError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from widetable.errors import DamagedError
from widetable.format.bucket_id import by_bucket
from widetable.format.damaged_file import damaged_file, missing_file
from widetable.format.manifest_entry import ManifestEntry
from widetable.messages.counted import counted
from widetable.operations.compaction.quarantined_buckets import SICK_BUCKETS
from widetable.operations.handle.supported import OTHER_DIRECTORY
from widetable.operations.health.audit_report import Findings
from widetable.operations.health.file_audit import DELETES, FileAudit
from widetable.operations.health.snapshot_audit import partition_text
from widetable.read.expired import is_named
from widetable.write.table_state import TableState

# More than a file's meta says, so that the count of deletes does not hide the others.
_FACTS_OF_META: Final = 10


@dataclass(frozen=True)
class DamagedFile:
    """snapshot_id: of a snapshot that names it. rows: that it should hold; as many keys, but for changelog files.

    partition: directory text, "" without partitions. found, expected: facts as text.
    """

    __module__ = "widetable"

    path: str
    snapshot_id: int
    partition: str
    bucket: int
    level: int
    rows: int
    is_changelog: bool
    found: str
    expected: str

    @property
    def concerned(self) -> str:
        """How much, and where."""
        what = counted(self.rows, "changelog event" if self.is_changelog else "key")
        where = f"bucket {self.bucket}" + (f" of {self.partition}" if self.partition else "")
        return f"{what} of {where}, snapshot {self.snapshot_id}"

    def __str__(self) -> str:
        return f"{self.path}: found {self.found}; expected {self.expected} ({self.concerned})"


class Damage(NamedTuple):
    """entry: of the file that is damaged."""

    entry: ManifestEntry
    file: DamagedFile


def damaged_files(
    table: TableState,
    entries: Iterable[ManifestEntry],
    snapshot_id: int,
    *,
    deep: bool = False,
    is_changelog: bool = False,
) -> Iterator[Damage]:
    """The damaged ones of the files that a snapshot names.

    One listing for each bucket. A file that is missing counts only if the snapshot, or a tag of
    it, is there after the listing: else it expired meanwhile. deep: reads what has the right
    size.
    """
    if not table.schema.primary_keys or OTHER_DIRECTORY in table.schema.options:
        return
    errors = (sick.error for sick in SICK_BUCKETS.of(table))
    met = [error for error in errors if isinstance(error, DamagedError)]
    look = _Look(table, snapshot_id, deep, is_changelog, met)
    placed = (entry for entry in entries if entry.bucket >= 0 and entry.file.external_path is None)
    for bucket, members in by_bucket(placed).items():
        there = table.file_io.list(table.bucket_dir(bucket))
        sizes = {found.name: found.size_bytes for found in there}
        missing = [entry for entry in members if entry.file.file_name not in sizes]
        if missing and not is_named(table, snapshot_id, is_changelog=is_changelog):
            members = [entry for entry in members if entry.file.file_name in sizes]
        for entry in members:
            facts = look.at(entry, sizes.get(entry.file.file_name))
            if facts is not None:
                yield Damage(entry, look.report(entry, *facts))


@dataclass(frozen=True)
class _Look:
    """met: what compactions of this process have met."""

    table: TableState
    snapshot_id: int
    is_deep: bool
    is_changelog: bool
    met: Sequence[DamagedError]

    def at(self, entry: ManifestEntry, size_bytes: int | None) -> tuple[str, str] | None:
        """(found, expected) of a damaged file."""
        table, file = self.table, entry.file
        path = table.data_file(entry.bucket_id, file.file_name)
        if size_bytes is None:
            error = missing_file(table.paths, path, f"snapshot {self.snapshot_id}")
        elif size_bytes != file.file_size:
            expected = f"{counted(file.file_size, 'byte')}, as its meta says"
            error = damaged_file(path, counted(size_bytes, "byte"), expected)
        elif self.is_deep:
            return self._read(entry)
        else:
            met = [error for error in self.met if path in error.subject]
            return (met[0].found, met[0].expected) if met else None
        return error.found, error.expected

    def report(self, entry: ManifestEntry, found: str, expected: str) -> DamagedFile:
        table, file = self.table, entry.file
        return DamagedFile(
            table.data_file(entry.bucket_id, file.file_name),
            self.snapshot_id,
            partition_text(entry.partition, table.schema),
            entry.bucket,
            file.level,
            file.row_count,
            self.is_changelog,
            found,
            expected,
        )

    def _read(self, entry: ManifestEntry) -> tuple[str, str] | None:
        """By all laws of a file that an audit knows, in all columns; a wrong count of deletes harms no row."""
        findings = Findings(_FACTS_OF_META)
        one = FileAudit(self.table, findings, all_columns=True)
        one.look_at(entry, self.snapshot_id, is_changelog=self.is_changelog)
        for found in findings.report("", "", None, None).findings:
            if not found.expected.startswith(DELETES):
                return found.found, found.expected
        return None
