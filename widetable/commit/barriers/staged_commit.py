"""Staged commits: commits that a writer is about to publish and that complete a barrier; see `widetable.barrier-stage`.

On disk (other clients ignore these files), in the directory of the table, the newest one of each writer:

    service/widetable-staged-<writer, escaped> = JSON object
        {"writer": its name, "run": which of its processes, "revision": of the table, "barrier": its label,
         "files": base64 of a manifest (Avro) with an ADD entry for each of its data files,
         "columns": field ids of the value columns that the files may have values in; null or absent for all}

A staged commit counts (`in_force`) while the newest snapshot has the writer as a member with the same run, at the same
revision, whose frontier is below the barrier. So the publish ends it, as does another process that takes the name; the
file need not be deleted. A writer whose commit failed deletes the file before its data files. Rows that readers see
through it may disappear again (read committed of FLIP-276). Source: R17 of docs/consistency.md. Raises DamagedError
for a file that cannot be read, StorageError.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from widetable.commit.barriers.barrier_state import BarrierState
from widetable.commit.notes.json_note import JsonNote, is_id, is_text, is_whole, is_wholes
from widetable.errors import DamagedError
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.manifest_file import read_manifest, write_manifest
from widetable.storage.file_io import FileIO
from widetable.storage.job_names import is_staged, staged_name
from widetable.storage.paths import TablePaths

_NOTE: Final = JsonNote(
    "staged commit",
    {
        "writer": is_text,
        "run": is_text,
        "revision": is_whole,
        "barrier": is_id,
        "files": is_text,
        "columns": lambda value: value is None or is_wholes(value),
    },
    "Delete the file: readers then see the commit when it is published.",
)


@dataclass(frozen=True)
class StagedCommit:
    """A commit that is written and not yet published.

    writer, run: name and process of the writer. revision: of the table. barrier: with this commit, all records of the
    writer up to this barrier are written. entries: of its files. columns: field ids of the value columns that the files
    may have values in, None for all.
    """

    writer: str
    run: str
    revision: int
    barrier: int
    entries: tuple[ManifestEntry, ...]
    columns: frozenset[int] | None = None


def stage(file_io: FileIO, paths: TablePaths, staged: StagedCommit) -> None:
    """Write the staged commit of a writer, in place of its last one."""
    path = _path(paths, staged.writer)
    files = base64.b64encode(write_manifest(staged.entries)).decode("ascii")
    columns = None if staged.columns is None else sorted(staged.columns)
    values = {**vars(staged), "files": files, "columns": columns}
    del values["entries"]
    file_io.replace(path, _NOTE.to_json(path, values))


def unstage(file_io: FileIO, paths: TablePaths, writer: str) -> None:
    """Delete the staged commit of a writer, if there is one."""
    file_io.delete(_path(paths, writer))


def staged_commits(file_io: FileIO, paths: TablePaths) -> list[StagedCommit]:
    """Return the staged commits of a table, sorted by writer, in force or not."""
    names = (entry.name for entry in file_io.list(paths.service_dir) if not entry.is_dir)
    commits = (_read(file_io, paths.job_file(name)) for name in names if is_staged(name))
    return sorted((one for one in commits if one is not None), key=lambda one: one.writer)


def in_force(staged: Iterable[StagedCommit], state: BarrierState) -> dict[str, StagedCommit]:
    """Return, by writer, the commits in force after a snapshot with `state` that is no older than the commits."""
    return {one.writer: one for one in staged if _is_in_force(one, state)}


def _is_in_force(one: StagedCommit, state: BarrierState) -> bool:
    member = state.members.get(one.writer)
    if member is None or one.revision != state.revision:
        return False
    return member.run == one.run and one.barrier > member.frontier


def _read(file_io: FileIO, path: str) -> StagedCommit | None:
    values = _NOTE.read(file_io, path)
    if values is None:
        return None
    entries, columns = tuple(_entries(values.pop("files"), path)), values.pop("columns")
    columns = None if columns is None else frozenset(columns)
    return StagedCommit(**values, entries=entries, columns=columns)


def _entries(files: str, path: str) -> Sequence[ManifestEntry]:
    try:
        data = base64.b64decode(files, validate=True)
    except (binascii.Error, ValueError) as cause:
        raise DamagedError(
            path,
            found=f"files that are not base64: {files[:50]!r}",
            expected="a manifest in base64",
            action="Delete the file: readers then see the commit when it is published.",
        ) from cause
    return read_manifest(data, path)


def _path(paths: TablePaths, writer: str) -> str:
    return paths.job_file(staged_name(writer))
