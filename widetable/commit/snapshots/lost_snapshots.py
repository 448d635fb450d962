"""Detects a table that has lost its snapshots: traces that only a table with snapshots leaves (docs/decisions/0016).

A new table and one whose snapshots were lost look alike: both have a schema and no snapshot. Writing to the second from
snapshot 1 on, or cleaning it, would complete the loss. They are distinguished by files that exist only after a
snapshot: hints, tags, consumers, notes of expiry, changelogs of expired snapshots, manifest lists, and a mark of our
own (other clients ignore it), written once after our first commit:

    service/widetable-had-snapshots = the table's identity (`table_identity`)

A writer that was killed in the first commit leaves no such trace: its manifest lists name at most one manifest, whose
files are new ones of level 0. Raises StorageError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.commit.notes.copy_place import unfinished_copy_mark
from widetable.commit.snapshots.branch_mark import had_branches
from widetable.commit.snapshots.table_identity import table_identity
from widetable.errors import DamagedError, NotFoundError
from widetable.format.manifest_list import read_manifest_list
from widetable.messages.error_code import ErrorCode
from widetable.storage.file_io import FileIO
from widetable.storage.paths import (
    TablePaths,
    changelog_id,
    retired_snapshot_id,
    snapshot_id,
    tag_name,
)


def trace_of_snapshots(file_io: FileIO, paths: TablePaths) -> str | None:
    """Return a trace that only a table with snapshots leaves; None without one. Called for a table without snapshots.

    It costs a few listings, and reading the manifest lists of unfinished commits.
    """
    return next(_traces(file_io, paths), None)


def remaining_file(file_io: FileIO, paths: TablePaths) -> str | None:
    """Return the path of a remaining file of a table without a schema; None without one.

    Its drop did not finish, or a process wrote to it during the drop: a new table would use such files as its own.
    """
    if had_branches(file_io, paths):
        return paths.branch_dir
    snapshots = _files_matching(file_io, paths.snapshot_dir, snapshot_id)
    return next(snapshots, None) or trace_of_snapshots(file_io, paths)


def no_snapshot(paths: TablePaths, trace: str) -> DamagedError:
    """Return the error for a table that had snapshots and has none. trace: the evidence."""
    return DamagedError(
        paths.snapshot_dir,
        found=f"no snapshot, but {trace}",
        expected="the snapshots of a table that has had some",
        action="Restore the directory, or one snapshot from the file of a tag; else drop and create the table again.",
        code=ErrorCode.SNAPSHOTS_LOST,
    )


def mark_snapshots(file_io: FileIO, paths: TablePaths) -> None:
    """Record, durably, that the table has had a snapshot."""
    if not file_io.exists(paths.had_snapshots_mark):
        file_io.publish(paths.had_snapshots_mark, table_identity(file_io, paths).encode())


def mark_again(file_io: FileIO, paths: TablePaths) -> None:
    """Record it again in another life of the branch."""
    file_io.replace(paths.had_snapshots_mark, table_identity(file_io, paths).encode())


def _mark(file_io: FileIO, paths: TablePaths) -> Iterator[str]:
    """Yield the mark, unless another life of the table left it."""
    try:
        if file_io.read(paths.had_snapshots_mark) == table_identity(file_io, paths).encode():
            yield paths.had_snapshots_mark
    except NotFoundError:
        return


def _traces(file_io: FileIO, paths: TablePaths) -> Iterator[str]:
    """Yield all traces, the cheapest to find first."""
    yield from (path for path in (paths.latest_hint, paths.earliest_hint) if file_io.exists(path))
    yield from _mark(file_io, paths)
    yield from _files_matching(file_io, paths.tag_dir, tag_name)
    for name, next_snapshot in ConsumerStore(file_io, paths).all().items():
        if next_snapshot > 1:
            yield f"the consumer {name!r}, which has read up to snapshot {next_snapshot - 1}"
    if file_io.exists(paths.last_commits):
        yield paths.last_commits
    yield from _files_matching(file_io, paths.service_dir, retired_snapshot_id)
    yield from _files_matching(file_io, paths.changelog_dir, changelog_id)
    yield from _manifest_lists(file_io, paths)


def _files_matching(
    file_io: FileIO, directory: str, parse: Callable[[str], object]
) -> Iterator[str]:
    """Yield the files of a directory whose names `parse` accepts."""
    for entry in file_io.list(directory):
        if parse(entry.name) is not None:
            yield f"{directory}/{entry.name}"


def _manifest_lists(file_io: FileIO, paths: TablePaths) -> Iterator[str]:
    """Yield manifest lists of later snapshots: each snapshot but the first has a list of all manifests before it.

    Yields nothing if the table has or had branches, which share the directory, or is a copy whose only commit is not
    published yet. Attempts of a first commit leave lists of no manifest, or of one manifest of their own. The base list
    of a second snapshot names a manifest that the delta list of the first one names, too.
    """
    if had_branches(file_io, paths) or file_io.exists(unfinished_copy_mark(paths.root)):
        return
    named: set[str] = set()
    for entry in file_io.list(paths.manifest_dir):
        if not entry.name.startswith("manifest-list-"):
            continue
        path = paths.manifest(entry.name)
        try:
            metas = read_manifest_list(file_io.read(path), path)
        except (NotFoundError, DamagedError):
            continue  # incomplete: its writer was killed
        names = {meta.file_name for meta in metas}
        is_later = any(meta.num_deleted_files or meta.max_level for meta in metas)
        if is_later or len(names) > 1 or names & named:
            yield f"{path}, which does not belong to a first commit"
        named |= names
