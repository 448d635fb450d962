"""Deletes orphans: files in a table's directories that no snapshot, tag, changelog or branch names.

They are left by failed attempts, killed writers, deleted tags, and interrupted expiries. The search covers
manifest/, index/, statistics/ and the bucket directories (every file), and the temporary names (`.*.tmp`) of the
other directories; anything else is left alone: schemas, hints, consumers, active leases, unknown directories.
Only files that were not touched for a while are deleted, in this order:

    1 list the files that are old enough        2 read what is named: snapshots, then tags, then changelogs, branches
    3 delete what was listed and is not named   4 remove directories that are empty, and were old in step 1

The order matters, as a tag shows that is made meanwhile:

    cleaning     lists file f ────► snapshot 7, which names f, is missing ───────────────► tags: t, which keeps f
    others            tag t of 7 is written, 7 still exists: t counts ─► 7 expires

If tags were read before snapshots, t would be missed: it did not exist yet, and 7 no longer exists. Only a writer that
pauses for longer than the requested age can lose files; hence a day by default.

A commit after the listing can name only files that are younger (its writer has not worked for that
long), or that an older snapshot names too, so it cannot name a listed file that no snapshot names. A tag counts only if
its snapshot existed once the tag was written (`tag_store`): when the snapshot was gone in step 2, the tag is seen after
it; the same holds for changelogs, which are copied before their snapshots are removed. Names that move between branches
are seen as well (`named_files`). When a snapshot expires while it is read, step 2 starts again. So this is correct
without any lease, next to writers, compactors, expiry and another cleaning, on whichever branch it is called. Raises
DamagedError before anything is deleted when a named file is missing or damaged, because then the needed files
are unknown; also for a branch that has lost its snapshots, and if main has none, when all files may be needed except
temporary ones. Raises ConflictError, StorageError.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import LARGEST, flag, whole_number
from widetable.commit.holds.snapshot_holds import forget_holds
from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.commit.transaction.committer import Committer
from widetable.errors import DamagedError, NotFoundError
from widetable.format.snapshot import Snapshot
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.history.named_files import NamedFiles, Sizes
from widetable.storage.file_io import FileStatus
from widetable.storage.paths import MAIN_BRANCH, is_bucket
from widetable.write.table_state import TableState

_TEMPORARY: Final = re.compile(r"^\..+\.tmp$")
# How often the snapshots are read again because one of them expired.
_ATTEMPTS: Final = 10
DAY_MILLIS: Final = 86_400_000


@dataclass(frozen=True)
class OrphanResult:
    """Files that no snapshot needs, deleted or, in a dry run, to be deleted.

    Attributes
    ----------
    paths : tuple of str
        The files, sorted.
    bytes : int
        Their size.
    directories : tuple of str
        Empty directories that were removed too.
    """

    __module__ = "widetable"

    paths: tuple[str, ...]
    bytes: int
    directories: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableFile:
    """A file of a table. name: without its directory; it is unique in the table."""

    path: str
    name: str
    size_bytes: int


def stored_files(state: TableState) -> list[TableFile]:
    """Return all files, however young, in the directories that hold only files which snapshots name."""
    return list(_Listing(state, LARGEST).files())


def remove_orphan_files(
    table: OpenTable, older_than_millis: int = DAY_MILLIS, dry_run: bool = False
) -> OrphanResult:
    """Delete files that nothing names and that are old enough.

    Such files come from failed writers and commits, from deleted tags and from interrupted expiries. A
    commit that is under way for longer than `older_than_millis` would lose its files. It may be called at any
    time, and by several processes at once.

    Parameters
    ----------
    older_than_millis : int, default 86400000
        Milliseconds since a file was last written, at least; by default a day.
    dry_run : bool, default False
        Delete nothing, only name what would go.

    Returns
    -------
    OrphanResult
        The paths of the files, sorted, their bytes, and empty directories that went, too.

    Raises
    ------
    InvalidError
        `older_than_millis` is negative.
    UnsupportedError
        The table has an option that this version does not honour.
    DamagedError
        Snapshots, or files of them, are missing: nothing is deleted then.
    ConflictError
        Branches or tags went again and again, so that nobody can say which files are needed.
    """
    older_than_millis = whole_number(older_than_millis, "older_than_millis", least=0)
    dry_run = flag(dry_run, "dry_run")
    state = table._state()
    accept(state.schema, Use.MAINTAIN)
    return remove_orphans(state, table._committer, older_than_millis, dry_run=dry_run)


def remove_orphans(
    state: TableState,
    committer: Committer,
    older_than_millis: int,
    *,
    dry_run: bool,
    clock: Clock | None = None,
) -> OrphanResult:
    """Delete orphans that were last written at least so long ago; with dry_run only name them.

    Files of a commit that is under way for longer than that count as orphans.
    """
    clock = clock or SystemClock()
    before_millis = clock.now_nanos() // 1_000_000 - older_than_millis
    listing = _Listing(state, before_millis)
    files, temporary = list(listing.files()), list(listing.temporary_files())
    candidates = [*files, *temporary]
    directories = list(listing.directories())
    named = _Named(state, committer).names(files) if candidates else {}
    orphans = [file for file in candidates if file.name not in named]
    if not dry_run:
        gone = set(state.file_io.delete_all([file.path for file in orphans]))
        orphans = [each for each in orphans if each.path in gone]
        directories = [path for path in directories if state.file_io.delete_empty_dir(path)]
        forget_holds(state, older_than_millis, clock)
    return OrphanResult(
        tuple(sorted(file.path for file in orphans)),
        sum(file.size_bytes for file in orphans),
        () if dry_run else tuple(sorted(directories)),
    )


class _Listing:
    """The listed files, before named files are read. before_millis: later files are left out.

    It costs one request per directory, including those of partitions and buckets.
    """

    def __init__(self, state: TableState, before_millis: int) -> None:
        self._file_io = state.file_io
        self._paths = state.paths
        self._prefixes = [
            state.paths.partition_prefix(name) for name in state.schema.partition_keys
        ]
        self._before_millis = before_millis
        self._partitions = list(self._partition_dirs())
        self._buckets = [
            (f"{parent}/{entry.name}", entry)
            for parent in self._leaf_dirs()
            for entry in self._file_io.list(parent)
            if entry.is_dir and is_bucket(entry.name)
        ]

    def files(self) -> Iterator[TableFile]:
        """Yield all files in the directories that hold only files which snapshots name."""
        paths = self._paths
        places = [paths.manifest_dir, paths.index_dir, paths.statistics_dir]
        for place in [*places, *(path for path, _ in self._buckets)]:
            yield from self._old_files(place)

    def temporary_files(self) -> Iterator[TableFile]:
        """Yield the files that an interrupted publish left."""
        paths = self._paths
        for place in (
            paths.snapshot_dir,
            paths.schema_dir,
            paths.tag_dir,
            paths.changelog_dir,
            paths.consumer_dir,
            paths.service_dir,
        ):
            yield from (file for file in self._old_files(place) if _TEMPORARY.match(file.name))

    def directories(self) -> Iterator[str]:
        """Yield directories of buckets and partitions that are old enough, the deepest first.

        So a parent is empty when its children were removed. Writers make directories on demand, so removing an empty
        one does no harm.
        """
        partitions = sorted(self._partitions, key=lambda level: -level[1])
        for path, entry in [*self._buckets, *((path, entry) for path, _, entry in partitions)]:
            if entry.modified_millis < self._before_millis:
                yield path

    def _partition_dirs(self) -> Iterator[tuple[str, int, FileStatus]]:
        """Yield (path, depth, entry) of the directories of partition values, at every depth."""
        level = [self._paths.shared_root]
        for depth, prefix in enumerate(self._prefixes, start=1):
            below = [
                (f"{parent}/{entry.name}", depth, entry)
                for parent in level
                for entry in self._file_io.list(parent)
                if entry.is_dir and entry.name.startswith(prefix)
            ]
            yield from below
            level = [path for path, _, _ in below]

    def _leaf_dirs(self) -> list[str]:
        """Return the directories that hold buckets."""
        depth = len(self._prefixes)
        return (
            [path for path, at, _ in self._partitions if at == depth]
            if depth
            else [self._paths.shared_root]
        )

    def _old_files(self, place: str) -> Iterator[TableFile]:
        for entry in self._file_io.list(place):
            if not entry.is_dir and entry.modified_millis <= self._before_millis:
                yield TableFile(f"{place}/{entry.name}", entry.name, entry.size_bytes)


class _Named:
    """The names of all needed files."""

    def __init__(self, state: TableState, committer: Committer) -> None:
        self._paths = state.paths
        self._store = committer.snapshots
        self._of_main = SnapshotStore(state.file_io, state.paths.of_branch(MAIN_BRANCH))
        self._files = NamedFiles(state.file_io, state.paths, committer.live_files)

    def names(self, files: list[TableFile]) -> Sizes:
        """Return the needed names. files: candidates for deletion."""
        return self._files.steady(lambda: self._look(files))

    def _look(self, files: list[TableFile]) -> Sizes:
        """Return the needed names from one reading, while branches and tags may be deleted.

        A reading counts when the ids have no gap and each snapshot could be read with its lists. Otherwise an expiry
        is running, which ends, or snapshots are lost, which is assumed after this many attempts.
        """
        ids: list[int] = []
        for _ in range(_ATTEMPTS):
            ids, newest = self._store.ids(), self._store.latest_id()
            if files and self._of_main.latest_id() is None:
                raise self._nothing_named(files)
            if not self._is_whole(ids, newest):
                continue
            with contextlib.suppress(NotFoundError):
                return self._names([self._store.load(id) for id in ids])
        raise DamagedError(
            self._paths.snapshot_dir,
            found=f"the snapshots {ids}, or files of them that are missing",
            expected="snapshots without a gap, with all their files",
            action="Restore the missing files; nothing was deleted.",
        )

    def _is_whole(self, ids: list[int], newest: int | None) -> bool:
        """Whether the ids are without a gap. A running expiry, like a storage that loses files, may show a gap.

        newest: is looked up after the ids; without ids there must be none.
        """
        return len(ids) == ids[-1] - ids[0] + 1 if ids else newest is None

    def _nothing_named(self, files: list[TableFile]) -> DamagedError:
        return DamagedError(
            self._paths.of_branch(MAIN_BRANCH).snapshot_dir,
            found=f"no snapshot, but files that one may have named, such as {files[0].path}",
            expected="a snapshot, to tell which files are needed; nothing was deleted",
            action="Restore the snapshots. If the table never had one, clean it after its first commit.",
        )

    def _names(self, snapshots: list[Snapshot]) -> Sizes:
        """Return all names, read in the order of the module's contract."""
        names = self._files.of_snapshots(snapshots)
        for tag, snapshot in self._files.tags():
            names |= self._files.of_tag(tag, snapshot)
        return names | self._files.of_changelogs() | self._files.of_other_branches()
