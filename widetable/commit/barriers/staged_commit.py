"""Staged commits: what a writer is about to publish and completes a barrier, in tables with `widetable.barrier-stage`.

On disk (other clients never look there), in the directory of the table, one per writer, its newest:

    service/widetable-staged-<writer, escaped> = JSON object
        {"writer": its name, "run": which of its processes, "revision": of the table, "barrier": its label,
         "files": base64 of a manifest (Avro) with an ADD entry for each of its data files,
         "columns": field ids of the value columns that the files may have values in; null or absent for all}

It holds (`in_force`) while the newest snapshot has the writer as a member of the same run and revision that is not as
far. So the publish ends it, as does another process that takes the name; nobody has to delete it. A writer whose commit
failed deletes it before its files go. What it shows may go (read committed of FLIP-276). Source: R17 of
docs/consistency.md. Raises DamagedError for one that cannot be read, StorageError.
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
    "Delete it: readers then see the commit when it is published.",
)


@dataclass(frozen=True)
class StagedCommit:
    """writer, run: who is about to commit. revision: of the table. barrier: all of its records up to there are in, with
    these. entries: of its files. columns: field ids of the value columns that they may have values in, None for all.
    """

    writer: str
    run: str
    revision: int
    barrier: int
    entries: tuple[ManifestEntry, ...]
    columns: frozenset[int] | None = None


def stage(file_io: FileIO, paths: TablePaths, staged: StagedCommit) -> None:
    """Note it, in place of what the writer noted before."""
    path = _path(paths, staged.writer)
    files = base64.b64encode(write_manifest(staged.entries)).decode("ascii")
    columns = None if staged.columns is None else sorted(staged.columns)
    values = {**vars(staged), "files": files, "columns": columns}
    del values["entries"]
    file_io.replace(path, _NOTE.to_json(path, values))


def unstage(file_io: FileIO, paths: TablePaths, writer: str) -> None:
    """Take back what the writer noted, if it did."""
    file_io.delete(_path(paths, writer))


def staged_commits(file_io: FileIO, paths: TablePaths) -> list[StagedCommit]:
    """Of a table, by writer, in force or not."""
    names = (entry.name for entry in file_io.list(paths.service_dir) if not entry.is_dir)
    found = (_read(file_io, paths.job_file(name)) for name in names if is_staged(name))
    return sorted((one for one in found if one is not None), key=lambda one: one.writer)


def in_force(staged: Iterable[StagedCommit], state: BarrierState) -> dict[str, StagedCommit]:
    """By writer, behind the snapshot that says `state`, which is no older than the notes."""
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
            found=f"files that are no base64: {files[:50]!r}",
            expected="a manifest in base64",
            action="Delete it: readers then see the commit when it is published.",
        ) from cause
    return read_manifest(data, path)


def _path(paths: TablePaths, writer: str) -> str:
    return paths.job_file(staged_name(writer))
