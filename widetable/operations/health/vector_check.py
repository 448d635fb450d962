"""Deletion vectors of a snapshot that cannot be read: their index files are gone or of another size; deep: they do not
decode, or delete rows that their data file does not have. Hash indexes are not checked, because the next writer
rebuilds them.

In: a snapshot that a lease keeps from expiry. Out: findings of doctor. Raises what reading manifests raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from widetable.commit.snapshots.live_files import LiveFiles
from widetable.errors import WidetableError
from widetable.format.deletion_vector import deleted_rows
from widetable.format.index_manifest import DELETION_VECTORS
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.messages.counted import counted
from widetable.operations.health.doctor_report import DoctorFinding
from widetable.write.table_state import TableState

_ACTION = (
    "Restore the file from a copy of the table, or go back to a snapshot that does not name it."
)


def vector_findings(
    table: TableState,
    live_files: LiveFiles,
    snapshot: Snapshot,
    live: Sequence[ManifestEntry],
    *,
    deep: bool,
) -> Iterator[DoctorFinding]:
    """Yield a finding for each damaged index file and vector, after one listing of the directory.

    live: the live files of the snapshot, with the places of their vectors. deep: read each vector, except those of
    index files that are already findings.
    """
    listed = table.file_io.list(table.paths.index_dir)
    sizes = {entry.name: entry.size_bytes for entry in listed}
    wrong = set()
    for index in live_files.index(snapshot):
        size = sizes.get(index.file_name)
        if index.kind != DELETION_VECTORS or size == index.file_size:
            continue
        path = table.paths.index(index.file_name)
        wrong.add(path)
        actual = "no such file" if size is None else counted(size, "byte")
        expected = f"{counted(index.file_size, 'byte')}, as the index manifest says"
        yield _finding(path, actual, expected, [v.data_file for v in index.vectors])
    for entry in live if deep else ():
        place, name = entry.file.deleted, entry.file.file_name
        if place is None or place.path in wrong:
            continue
        try:
            rows = deleted_rows(table.file_io, place)
        except WidetableError as error:
            yield _finding(error.subject, error.found, error.expected, [name])
            continue
        # Row numbers ascend: the last one is the largest.
        if len(rows) and rows[-1] >= entry.file.row_count:
            actual = f"row {rows[-1]}, which is deleted"
            yield _finding(place.path, actual, counted(entry.file.row_count, "row"), [name])


def _finding(path: str, actual: str, expected: str, data_files: Sequence[str]) -> DoctorFinding:
    concerned = f"rows of {', '.join(data_files[:3])}" + (" .." if len(data_files) > 3 else "")
    return DoctorFinding("files", path, actual, expected, concerned, _ACTION)
