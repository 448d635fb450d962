"""The damaged data and changelog files of a snapshot: files that are missing, of another size, or of wrong content.

In: manifest entries of a snapshot. Out: those whose files are damaged, bucket by bucket. By default this is what a
listing of the bucket shows, and what compactions of this process have met; deep: each file is read as a whole. A file
that is missing because its snapshot has expired meanwhile is not damaged. Files that other clients put elsewhere, and
those of tables without a primary key, are not checked. Raises StorageError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from widetable.acceptance.supported import is_auditable
from widetable.errors import DamagedError
from widetable.format.bucket_id import by_bucket
from widetable.format.damaged_file import damaged_file, missing_file
from widetable.format.manifest_entry import ManifestEntry
from widetable.messages.counted import counted
from widetable.operations.compaction.quarantined_buckets import QUARANTINED_BUCKETS
from widetable.operations.health.audit_report import Findings
from widetable.operations.health.file_audit import DELETES, FileAudit
from widetable.operations.health.snapshot_audit import partition_text
from widetable.read.expired import is_named
from widetable.write.table_state import TableState

# This exceeds the number of facts in a file's meta, so that the count of deletes does not hide other findings.
_FACTS_OF_META: Final = 10


@dataclass(frozen=True)
class DamagedFile:
    """A data or changelog file that is damaged or missing.

    Attributes
    ----------
    path : str
        The path of the file.
    snapshot_id : int
        A snapshot that names the file.
    partition : str
        The partition, as its directory is named; "" without partitions.
    bucket, level : int
        Where the file lies.
    rows : int
        How many rows the file should hold. A data file has one row for each key.
    is_changelog : bool
        Whether it is a changelog file.
    found, expected : str
        What the file is and what it should be, as text.
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
        """How many rows are affected, and where, as text."""
        what = counted(self.rows, "changelog event" if self.is_changelog else "key")
        where = f"bucket {self.bucket}" + (f" of {self.partition}" if self.partition else "")
        return f"{what} of {where}, snapshot {self.snapshot_id}"

    def __str__(self) -> str:
        return f"{self.path}: found {self.found}; expected {self.expected} ({self.concerned})"


class Damage(NamedTuple):
    """Pairs a damaged file with its manifest entry."""

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
    """Yield the damaged ones among the files that a snapshot names.

    Each bucket is listed once. A missing file counts only if the snapshot, or a tag of it, still exists after the
    listing; otherwise it expired meanwhile. deep: read the files that have the right size.
    """
    if not is_auditable(table.schema):
        return
    errors = (sick.error for sick in QUARANTINED_BUCKETS.of(table))
    met = [error for error in errors if isinstance(error, DamagedError)]
    look = _LiveFileCheck(table, snapshot_id, deep, is_changelog, met)
    own = (entry for entry in entries if entry.file.external_path is None)
    for bucket, members in by_bucket(own).items():
        listing = table.file_io.list(table.bucket_dir(bucket))
        sizes = {status.name: status.size_bytes for status in listing}
        missing = [entry for entry in members if entry.file.file_name not in sizes]
        if missing and not is_named(table, snapshot_id, is_changelog=is_changelog):
            members = [entry for entry in members if entry.file.file_name in sizes]
        for entry in members:
            facts = look.at(entry, sizes)
            if facts is not None:
                yield Damage(entry, look.report(entry, *facts))


@dataclass(frozen=True)
class _LiveFileCheck:
    """Checks files of one snapshot. met: the errors that compactions of this process have met."""

    table: TableState
    snapshot_id: int
    is_deep: bool
    is_changelog: bool
    met: Sequence[DamagedError]

    def at(self, entry: ManifestEntry, sizes: Mapping[str, int]) -> tuple[str, str] | None:
        """Return (found, expected) of a damaged file, or None. sizes: of the files in its directory, by name."""
        table, file = self.table, entry.file
        path = table.data_file(entry.bucket_id, file.file_name)
        size_bytes = sizes.get(file.file_name)
        lost = [name for name in file.extra_files if name not in sizes]
        if size_bytes is None:
            error = missing_file(table.paths, path, f"snapshot {self.snapshot_id}")
        elif size_bytes != file.file_size:
            expected = f"{counted(file.file_size, 'byte')}, as its meta says"
            error = damaged_file(path, counted(size_bytes, "byte"), expected)
        elif lost:
            return f"no file {lost[0]!r} beside it", "its file indexes"
        elif self.is_deep:
            return self._read(entry)
        else:
            met = [error for error in self.met if path in error.subject]
            return (met[0].found, met[0].expected) if met else None
        return error.found, error.expected

    def report(self, entry: ManifestEntry, actual: str, expected: str) -> DamagedFile:
        table, file = self.table, entry.file
        return DamagedFile(
            table.data_file(entry.bucket_id, file.file_name),
            self.snapshot_id,
            partition_text(entry.partition, table.schema),
            entry.bucket,
            file.level,
            file.row_count,
            self.is_changelog,
            actual,
            expected,
        )

    def _read(self, entry: ManifestEntry) -> tuple[str, str] | None:
        """Check all laws of a file that an audit has, in all columns. A wrong count of deletes harms no row."""
        findings = Findings(_FACTS_OF_META)
        one = FileAudit(self.table, findings, all_columns=True)
        one.check(entry, self.snapshot_id, is_changelog=self.is_changelog)
        for finding in findings.report("", "", None, None).findings:
            if not finding.expected.startswith(DELETES):
                return finding.found, finding.expected
        return None
