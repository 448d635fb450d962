"""What shows that a table without a snapshot has had some (docs/decisions/0016).

A table that was just made and one whose snapshots were lost look alike: both have a schema and no snapshot. Writing to
the second from snapshot 1 on, or cleaning it, would finish what the loss began. Known apart by whatever is only there
after a snapshot was: hints, tags, consumers, notes of expiry, changelogs of expired snapshots, manifest lists, and a
mark of our own (other clients never look there), written once after the first commit of ours:

    service/widetable-had-snapshots = the table's identity (`table_identity`)

A writer that was killed in the very first commit leaves none of it: its manifest lists name one manifest or none, whose
files are new ones of level 0. Raises StorageError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.commit.notes.copy_place import begun_copy
from widetable.commit.snapshots.branch_mark import had_branches
from widetable.commit.snapshots.table_identity import table_identity
from widetable.errors import DamagedError, NotFoundError
from widetable.format.manifest_list import read_manifest_list
from widetable.storage.file_io import FileIO
from widetable.storage.paths import (
    TablePaths,
    changelog_id,
    retired_snapshot_id,
    snapshot_id,
    tag_name,
)


def trace_of_snapshots(file_io: FileIO, paths: TablePaths) -> str | None:
    """Something that only a table leaves which had snapshots; None when there is no such thing. For a table that has
    none: a few listings, and the manifest lists of commits that did not end.
    """
    return next(_traces(file_io, paths), None)


def rest_of_table(file_io: FileIO, paths: TablePaths) -> str | None:
    """Where there is no schema, what is left of a table whose drop broke off, or that somebody wrote to while it was
    dropped: a new table would take it for its own. None when there is no such thing.
    """
    if had_branches(file_io, paths):
        return paths.branch_dir
    snapshots = _named(file_io, paths.snapshot_dir, snapshot_id)
    return next(snapshots, None) or trace_of_snapshots(file_io, paths)


def no_snapshot(paths: TablePaths, trace: str) -> DamagedError:
    """The error for a table that has had snapshots and has none. trace: what shows it."""
    return DamagedError(
        paths.snapshot_dir,
        found=f"no snapshot, but {trace}",
        expected="the snapshots of a table that has had some",
        action="Restore the directory, or one snapshot from the file of a tag; else drop the table and make it anew.",
    )


def mark_snapshots(file_io: FileIO, paths: TablePaths) -> None:
    """Remember, durably, that the table has had a snapshot."""
    if not file_io.exists(paths.had_snapshots):
        file_io.publish(paths.had_snapshots, table_identity(file_io, paths).encode())


def mark_again(file_io: FileIO, paths: TablePaths) -> None:
    """The same in another life of the branch."""
    file_io.replace(paths.had_snapshots, table_identity(file_io, paths).encode())


def _mark(file_io: FileIO, paths: TablePaths) -> Iterator[str]:
    """One that was left by another life of the table shows nothing."""
    try:
        if file_io.read(paths.had_snapshots) == table_identity(file_io, paths).encode():
            yield paths.had_snapshots
    except NotFoundError:
        return


def _traces(file_io: FileIO, paths: TablePaths) -> Iterator[str]:
    """All of them, what costs least to look for first."""
    yield from (path for path in (paths.latest_hint, paths.earliest_hint) if file_io.exists(path))
    yield from _mark(file_io, paths)
    yield from _named(file_io, paths.tag_dir, tag_name)
    for name, next_snapshot in ConsumerStore(file_io, paths).all().items():
        if next_snapshot > 1:
            yield f"the consumer {name!r}, which has read up to snapshot {next_snapshot - 1}"
    if file_io.exists(paths.last_commits):
        yield paths.last_commits
    yield from _named(file_io, paths.service_dir, retired_snapshot_id)
    yield from _named(file_io, paths.changelog_dir, changelog_id)
    yield from _manifest_lists(file_io, paths)


def _named(file_io: FileIO, directory: str, parse: Callable[[str], object]) -> Iterator[str]:
    """Files whose names say that there was a snapshot."""
    for entry in file_io.list(directory):
        if parse(entry.name) is not None:
            yield f"{directory}/{entry.name}"


def _manifest_lists(file_io: FileIO, paths: TablePaths) -> Iterator[str]:
    """Each snapshot but the first has a list of all manifests before it. Says nothing where there are branches, or
    were: they share the directory; nor of a copy whose one commit is not in yet.

    Tries of a first commit leave lists of nothing, or of one manifest of their own: the base list
    of a second snapshot names the manifest that the delta list of the first one names.
    """
    if had_branches(file_io, paths) or file_io.exists(begun_copy(paths.root)):
        return
    named: set[str] = set()
    for entry in file_io.list(paths.manifest_dir):
        if not entry.name.startswith("manifest-list-"):
            continue
        path = paths.manifest(entry.name)
        try:
            metas = read_manifest_list(file_io.read(path), path)
        except (NotFoundError, DamagedError):
            continue  # torn by a writer that was killed
        names = {meta.file_name for meta in metas}
        is_later = any(meta.num_deleted_files or meta.max_level for meta in metas)
        if is_later or len(names) > 1 or names & named:
            yield f"{path}, which is of no first commit"
        named |= names
