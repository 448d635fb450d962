"""Deletion vectors of a snapshot that cannot be read: their index files are gone or of another size; deep: they do not
decode, or delete rows that their data file does not have. Hash indexes are not looked at: the next writer makes them
anew.

In: a snapshot that is held against expiry. Out: findings of doctor. Raises what reading manifests raises.
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
    """live: the live files of the snapshot, with where their vectors are.
    One listing of the directory; deep reads each vector, but those of index files that were found
    wrong already.
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
        found = "no such file" if size is None else counted(size, "byte")
        expected = f"{counted(index.file_size, 'byte')}, as the index manifest says"
        yield _finding(path, found, expected, [v.data_file for v in index.vectors])
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
            found, expected = (
                f"row {rows[-1]}, which is deleted",
                counted(entry.file.row_count, "row"),
            )
            yield _finding(place.path, found, expected, [name])


def _finding(path: str, found: str, expected: str, data_files: Sequence[str]) -> DoctorFinding:
    concerned = f"rows of {', '.join(data_files[:3])}" + (" .." if len(data_files) > 3 else "")
    return DoctorFinding("files", path, found, expected, concerned, _ACTION)
