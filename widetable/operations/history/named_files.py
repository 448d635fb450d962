"""Which files the snapshots, tags and changelogs of all branches name: what is named must not be deleted.

Data files, manifests and indexes lie together, whichever branch wrote them, and a branch names files of the one that it
was made of: so nobody may delete what one branch does not name any more without a look at all others, main among them.
A name may also move while it is looked for: a branch is made of a tag, and `fast_forward` gives a branch's snapshots to
main, whereupon the tag or the branch goes. So the look is taken again until no branch and no tag went meanwhile
(`steady`): what moved is then seen where it was, or where it is.

    who asks         for what
    orphans          everything that is named, to delete what is not; a tag that cannot be read stops it (strict)
    expiry_sweep     what others name of the files that expired snapshots let go, in touched buckets alone

Out: names without directories; they are unique in a table. Raises NotFoundError when a snapshot expired while it was
looked at, DamagedError when a file that one names is missing or broken, ConflictError when branches or tags went again
and again: then nobody can say what is needed.
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

# How often the look at all branches is taken again because one of them, or a tag, went.
_LOOKS: Final = 10
# Partitions and buckets whose live files are asked for, each by itself; None: all.
Touched: TypeAlias = tuple[Partitions | None, Buckets | None]
ALL: Final[Touched] = (None, None)
# Name to recorded bytes; 0 where nobody records them: of statistics, index manifests, file indexes.
Sizes: TypeAlias = dict[str, int]


class NamedFiles:
    """Of one branch, and of all others. Without state but the caches of `live_files`.

    strict: tags that cannot be read raise DamagedError; else they are passed over.
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
        """What a reader of its rows opens: live files (of what is touched), all metadata."""
        live = self._live_files.live_entries(snapshot, *touched)
        return data_sizes(live) | self.metadata_of(snapshot)

    def metadata_of(self, snapshot: Snapshot) -> Sizes:
        """Its lists with their manifests, the changelog's not among them; index files and statistics."""
        lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
        sizes = {name: size or 0 for name, size in snapshot.list_bytes.items() if name in lists}
        sizes |= {meta.file_name: meta.file_size for meta in self._live_files.manifests(snapshot)}
        if snapshot.index_manifest is not None:
            sizes |= {snapshot.index_manifest: 0} | self.index_files_of(snapshot)
        return sizes if snapshot.statistics is None else sizes | {snapshot.statistics: 0}

    def index_files_of(self, snapshot: Snapshot) -> Sizes:
        """The files that its index manifest lists."""
        if snapshot.index_manifest is None:
            return {}
        path = self._paths.manifest(snapshot.index_manifest)
        return index_file_sizes(self._file_io.read(path), path)

    def of_delta(self, snapshot: Snapshot) -> Sizes:
        """What it added: files, their list and manifests."""
        added = [entry for entry in self._live_files.delta_entries(snapshot) if entry.kind == ADD]
        return data_sizes(added) | self._list_sizes(snapshot.delta_manifest_list, snapshot)

    def of_changelog(self, snapshot: Snapshot) -> Sizes:
        """Its changelog files, their list and manifests; nothing when it has none."""
        if snapshot.changelog_manifest_list is None or self.lacks_changelog(snapshot):
            return {}
        emitted = self._live_files.changelog_entries(snapshot)
        return data_sizes(emitted) | self._list_sizes(snapshot.changelog_manifest_list, snapshot)

    def _list_sizes(self, name: str, snapshot: Snapshot) -> Sizes:
        metas = self._live_files.manifest_list(name, snapshot)
        size_bytes = snapshot.list_bytes.get(name) or 0
        return {name: size_bytes} | {meta.file_name: meta.file_size for meta in metas}

    def lacks_changelog(self, snapshot: Snapshot) -> bool:
        """Whether a branch begins with a snapshot whose changelog expired where it came from: its tag kept none."""
        if self._paths.branch == MAIN_BRANCH or snapshot.changelog_manifest_list is None:
            return False
        is_first = not self._file_io.exists(self._paths.snapshot(snapshot.id - 1))
        path = self._paths.manifest(snapshot.changelog_manifest_list)
        return is_first and not self._file_io.exists(path)

    def of_changelogs(self) -> Sizes:
        """What the changelogs of expired snapshots name, which other clients keep beside the snapshots."""
        sizes: Sizes = {}
        for entry in self._file_io.list(self._paths.changelog_dir):
            if changelog_id(entry.name) is not None:
                path = f"{self._paths.changelog_dir}/{entry.name}"
                snapshot = snapshot_from_json(self._file_io.read(path), path)
                # Without a changelog, its readers are given what it added.
                sizes |= self.of_changelog(snapshot) or self.of_delta(snapshot)
        return sizes

    def of_snapshots(self, snapshots: Sequence[Snapshot], touched: Touched = ALL) -> Sizes:
        """Everything of snapshots. Where one follows from the other, a file that some of them has is live in the first
        one, or one of the others added it. The last one is looked at whole all the same: it would cost most if another
        client broke that rule. So the cost is two sets of live files and the deltas, not one set for each snapshot:

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
        """Everything that they name, live files of what is touched."""
        sizes: Sizes = {}
        for _, named in self.by_branch(touched):
            sizes |= named
        return sizes

    def by_branch(self, touched: Touched = ALL) -> Iterator[tuple[str, Sizes]]:
        """The same for each of the others, by its name."""
        for paths in self._branches():
            if paths != self._paths:
                live_files = self._live_files.of_branch(paths)
                branch = NamedFiles(self._file_io, paths, live_files, strict=self._strict)
                yield paths.branch, branch._of_all(touched)

    def of_table(self) -> Sizes:
        """All that this branch and the others name. One look: see `steady`."""
        return self._of_all(ALL) | self.of_other_branches()

    def _of_all(self, touched: Touched) -> Sizes:
        """Snapshots before tags: a tag counts only if its snapshot was there after it.
        So one whose snapshot had gone when the ids were listed was written before that, and is
        seen by the listing of tags that follows.
        """
        store = SnapshotStore(self._file_io, self._paths)
        try:
            if self._paths.branch == MAIN_BRANCH or is_whole(self._file_io, self._paths):
                store.latest_id()  # raises where snapshots are lost
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

    def steady(self, look: Callable[[], Sizes]) -> Sizes:
        """What `look` finds while no branch and no tag goes.

            look      reads main, which has no x ──────────────────► lists the branches: b is not there
            others                 fast_forward: main gets x of b, b goes

        Names of all looks are kept: too many cost a file that stays until the next cleaning, too
        few a file that is needed. What comes meanwhile does not matter: it is made of what was
        there.
        """
        sizes: Sizes = {}
        for _ in range(_LOOKS):
            before = self._names_of_branches()
            sizes |= look()
            if before <= self._names_of_branches():
                return sizes
        raise ConflictError(
            self._paths.shared_root,
            found=f"branches or tags that went during each of {_LOOKS} looks at what is needed",
            expected="one look during which none goes; nothing was deleted",
            action="Call it again when nobody deletes branches or tags.",
        )

    def _names_of_branches(self) -> set[tuple[str, str]]:
        """(branch, tag) of all, and (branch, nothing)."""
        return {
            (paths.root, tag)
            for paths in self._branches()
            for tag in ("", *TagStore(self._file_io, paths).names())
        }

    def _branches(self) -> list[TablePaths]:
        """Main and all directories of branches, whole or not."""
        entries = self._file_io.list(self._paths.branch_dir)
        names = (branch_name(entry.name) for entry in entries)
        return [self._paths.of_branch(name) for name in (MAIN_BRANCH, *filter(None, names))]

    def tags(self) -> list[tuple[str, Snapshot]]:
        """Name and snapshot of all tags, by snapshot id; those that are deleted meanwhile left out."""
        tags = TagStore(self._file_io, self._paths).all(strict=self._strict)
        return sorted(tags.items(), key=lambda tag: (tag[1].id, tag[0]))

    def of_tag(self, name: str, snapshot: Snapshot, touched: Touched = ALL) -> Sizes:
        """As `of_snapshot`; nothing when the tag is deleted meanwhile."""
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
    """The files of entries, with those that belong to them.
    Of entries of any kind, ADD or DELETE.
    """
    return {
        name: entry.file.file_size if name == entry.file.file_name else 0
        for entry in entries
        for name in file_names(entry)
    }


def file_names(entry: ManifestEntry) -> Iterator[str]:
    """A data file and the files that lie beside it for it (file indexes)."""
    yield entry.file.file_name
    yield from entry.file.extra_files
