"""Finds the files that snapshots, tags and changelogs of all branches name; these must not be deleted.

Data files, manifests and indexes of all branches lie together, and a branch names files of the one from which it
was created. So a file that one branch no longer names may be deleted only after all others were read, main among them.
A name may also move during the search: a branch is created from a tag, or `fast_forward` gives a branch's snapshots to
main, and then the tag or the branch is deleted. So the search is repeated until no branch and no tag was deleted during
it (`steady`): a name that moved is then seen in its old place or in its new one.

    caller           purpose
    orphans          all named files, to delete the others; a tag that cannot be read stops it (strict)
    expiry_sweep     the files of expired snapshots that others name, in touched buckets alone

Out: names without directories; they are unique in a table. Raises NotFoundError when a snapshot expired while it was
read, DamagedError when a named file is missing or damaged, ConflictError when branches or tags were deleted
again and again: in these cases the needed files are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from widetable.commit.holds.tag_store import TagStore
from widetable.commit.snapshots.branch_mark import had_branches
from widetable.commit.snapshots.live_files import Buckets, LiveFiles, Partitions
from widetable.commit.snapshots.snapshot_store import SnapshotStore
from widetable.errors import ConflictError, DamagedError, NotFoundError
from widetable.format.index_manifest import index_file_sizes
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.snapshot import Snapshot, snapshot_from_json
from widetable.operations.history.branches import is_whole
from widetable.storage.file_io import FileIO
from widetable.storage.paths import MAIN_BRANCH, TablePaths, branch_name, changelog_id

# How often all branches are read again because one of them, or a tag, was deleted.
_ATTEMPTS: Final = 10
# Partitions and buckets whose live files are requested, chosen separately; None: all.
Touched: TypeAlias = tuple[Partitions | None, Buckets | None]
ALL: Final[Touched] = (None, None)
# Maps a name to its recorded bytes; 0 where none are recorded: for statistics, index manifests, file indexes.
Sizes: TypeAlias = dict[str, int]


class NamedFiles:
    """The names of one branch and of all others. It has no state except the caches of `live_files`.

    strict: tags that cannot be read raise DamagedError; else they are skipped.
    """

    def __init__(
        self,
        file_io: FileIO,
        paths: TablePaths,
        live_files: LiveFiles,
        *,
        strict: bool = True,
    ) -> None:
        self._strict = strict
        self._file_io = file_io
        self._paths = paths
        self._live_files = live_files

    def of_snapshot(self, snapshot: Snapshot, touched: Touched = ALL) -> Sizes:
        """Return the files that a reader of a snapshot's rows opens: live files (of what is touched), all metadata."""
        live = self._live_files.live_entries(snapshot, *touched)
        return data_sizes(live) | self.metadata_of(snapshot)

    def metadata_of(self, snapshot: Snapshot) -> Sizes:
        """Return a snapshot's lists with their manifests, except the changelog's, its index files and statistics."""
        lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
        sizes = {name: size or 0 for name, size in snapshot.list_bytes.items() if name in lists}
        sizes |= {meta.file_name: meta.file_size for meta in self._live_files.manifests(snapshot)}
        if snapshot.index_manifest is not None:
            sizes |= {snapshot.index_manifest: 0} | self.index_files_of(snapshot)
        return sizes if snapshot.statistics is None else sizes | {snapshot.statistics: 0}

    def index_files_of(self, snapshot: Snapshot) -> Sizes:
        """Return the files that a snapshot's index manifest lists."""
        if snapshot.index_manifest is None:
            return {}
        path = self._paths.manifest(snapshot.index_manifest)
        return index_file_sizes(self._file_io.read(path), path)

    def of_delta(self, snapshot: Snapshot) -> Sizes:
        """Return what a snapshot added: files, their list and manifests."""
        added = [entry for entry in self._live_files.delta_entries(snapshot) if entry.kind == ADD]
        return data_sizes(added) | self._list_sizes(snapshot.delta_manifest_list, snapshot)

    def of_changelog(self, snapshot: Snapshot) -> Sizes:
        """Return a snapshot's changelog files, their list and manifests; nothing when it has none."""
        if snapshot.changelog_manifest_list is None or self.lacks_changelog(snapshot):
            return {}
        emitted = self._live_files.changelog_entries(snapshot)
        return data_sizes(emitted) | self._list_sizes(snapshot.changelog_manifest_list, snapshot)

    def _list_sizes(self, name: str, snapshot: Snapshot) -> Sizes:
        metas = self._live_files.manifest_list(name, snapshot)
        size_bytes = snapshot.list_bytes.get(name) or 0
        return {name: size_bytes} | {meta.file_name: meta.file_size for meta in metas}

    def lacks_changelog(self, snapshot: Snapshot) -> bool:
        """Whether a branch begins with a snapshot whose changelog expired in its origin, because its tag kept none."""
        if self._paths.branch == MAIN_BRANCH or snapshot.changelog_manifest_list is None:
            return False
        is_first = not self._file_io.exists(self._paths.snapshot(snapshot.id - 1))
        path = self._paths.manifest(snapshot.changelog_manifest_list)
        return is_first and not self._file_io.exists(path)

    def of_changelogs(self) -> Sizes:
        """Return what the changelogs of expired snapshots name, which other clients keep beside the snapshots."""
        sizes: Sizes = {}
        for entry in self._file_io.list(self._paths.changelog_dir):
            if changelog_id(entry.name) is not None:
                path = f"{self._paths.changelog_dir}/{entry.name}"
                snapshot = snapshot_from_json(self._file_io.read(path), path)
                # Without a changelog, its readers get what it added.
                sizes |= self.of_changelog(snapshot) or self.of_delta(snapshot)
        return sizes

    def of_snapshots(self, snapshots: Sequence[Snapshot], touched: Touched = ALL) -> Sizes:
        """Return all files of snapshots.

        Where one follows from the other, a file that any of them has is live in the first one, or one of the others
        added it. The last one is read as a whole too, because an error would cost most if another client broke that
        rule. So the cost is two sets of live files and the deltas, not one set for each snapshot:

            snapshots     5: a b      6: adds c, drops a      7: adds d
            names         a b of 5,   c of 6's delta,         d of 7's delta, and all that is live at 7
        """
        whole = snapshots if self.had_branches() else (*snapshots[:1], *snapshots[-1:])
        sizes: Sizes = {}
        for snapshot in {each.id: each for each in whole}.values():
            sizes |= self.of_snapshot(snapshot, touched)
        for snapshot in snapshots:
            sizes |= self.metadata_of(snapshot)
            sizes |= self.of_delta(snapshot) | self.of_changelog(snapshot)
        return sizes

    def had_branches(self) -> bool:
        """Whether a snapshot may be of another history than the one before it."""
        return had_branches(self._file_io, self._paths)

    def of_other_branches(self, touched: Touched = ALL) -> Sizes:
        """Return all names of other branches, with live files of what is touched."""
        sizes: Sizes = {}
        for _, named in self.by_branch(touched):
            sizes |= named
        return sizes

    def by_branch(self, touched: Touched = ALL) -> Iterator[tuple[str, Sizes]]:
        """Yield the name of each other branch and the names of its files."""
        for paths in self._branches():
            if paths != self._paths:
                live_files = self._live_files.of_branch(paths)
                branch = NamedFiles(self._file_io, paths, live_files, strict=self._strict)
                yield paths.branch, branch._of_all(touched)

    def of_table(self) -> Sizes:
        """Return the names of this branch and all others, from one reading (see `steady`)."""
        return self._of_all(ALL) | self.of_other_branches()

    def _of_all(self, touched: Touched) -> Sizes:
        """Return all names of this branch, snapshots before tags.

        A tag counts only if its snapshot existed after it was written. So a tag whose snapshot was gone when the ids
        were listed was written before that, and the listing of tags that follows sees it.
        """
        store = SnapshotStore(self._file_io, self._paths)
        try:
            if self._paths.branch == MAIN_BRANCH or is_whole(self._file_io, self._paths):
                store.latest_id()  # raises when snapshots are lost
            snapshots = [store.load(id) for id in store.ids()]
            sizes = self.of_snapshots(snapshots, touched) | self.of_changelogs()
        except DamagedError as cause:
            raise DamagedError(
                f"branch {self._paths.branch!r} of {self._paths.shared_root}",
                found=f"{cause.subject}: {cause.found}",
                expected=cause.expected,
                action="Restore the file, or drop the branch if it is not main; nothing was deleted.",
            ) from cause
        for name, snapshot in self.tags():
            sizes |= self.of_tag(name, snapshot, touched)
        return sizes

    def steady(self, read: Callable[[], Sizes]) -> Sizes:
        """Return what `read` finds while no branch and no tag is deleted.

            read      reads main, which has no x ──────────────────► lists the branches: b is missing
            others                 fast_forward: main gets x of b, b is deleted

        Names of all attempts are kept: a name too many keeps a file until the next cleaning, a name too few would
        delete a needed file. New branches and tags do not matter, because they are made from existing ones.
        """
        sizes: Sizes = {}
        for _ in range(_ATTEMPTS):
            before = self._names_of_branches()
            sizes |= read()
            if before <= self._names_of_branches():
                return sizes
        raise ConflictError(
            self._paths.shared_root,
            found=f"branches or tags that were deleted during each of {_ATTEMPTS} attempts to find the needed files",
            expected="one attempt during which none is deleted; nothing was deleted",
            action="Call it again when no one deletes branches or tags.",
        )

    def _names_of_branches(self) -> set[tuple[str, str]]:
        """Return (branch, tag) for all tags, and (branch, nothing) for all branches."""
        return {
            (paths.root, tag)
            for paths in self._branches()
            for tag in ("", *TagStore(self._file_io, paths).names())
        }

    def _branches(self) -> list[TablePaths]:
        """Return main and all directories of branches, whole or not."""
        entries = self._file_io.list(self._paths.branch_dir)
        names = (branch_name(entry.name) for entry in entries)
        return [self._paths.of_branch(name) for name in (MAIN_BRANCH, *filter(None, names))]

    def tags(self) -> list[tuple[str, Snapshot]]:
        """Return name and snapshot of all tags, by snapshot id, without those that are deleted meanwhile."""
        tags = TagStore(self._file_io, self._paths).all(strict=self._strict)
        return sorted(tags.items(), key=lambda tag: (tag[1].id, tag[0]))

    def of_tag(self, name: str, snapshot: Snapshot, touched: Touched = ALL) -> Sizes:
        """Return the files of a tag as `of_snapshot` does; nothing when the tag is deleted meanwhile."""
        try:
            return self.of_snapshot(snapshot, touched)
        except (NotFoundError, DamagedError) as cause:
            if not self._file_io.exists(self._paths.tag(name)):
                return {}
            raise DamagedError(
                f"tag {name!r} of {self._paths.root}",
                found=f"files of its snapshot {snapshot.id} that are missing or broken: {cause.subject}",
                expected="every file that the tag keeps",
                action="Restore the file, or delete the tag; nothing was deleted.",
            ) from cause


def data_sizes(entries: Iterable[ManifestEntry]) -> Sizes:
    """Return the files of entries of any kind, ADD or DELETE, with the files that belong to them."""
    return {
        name: entry.file.file_size if name == entry.file.file_name else 0
        for entry in entries
        for name in file_names(entry)
    }


def file_names(entry: ManifestEntry) -> Iterator[str]:
    """Yield the names of a data file and of the files that lie beside it (file indexes)."""
    yield entry.file.file_name
    yield from entry.file.extra_files
