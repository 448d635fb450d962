"""Which files snapshots, tags, changelogs and branches name: whatever of them is asked for must not be deleted.

Out: names without directories; they are unique in a table. Raises NotFoundError when a snapshot expired while it was
looked at, DamagedError when a file that one names is missing or broken: then nobody can say what is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from widetable.commit.live_files import Buckets, LiveFiles, Partitions
from widetable.commit.snapshot_store import SnapshotStore
from widetable.errors import DamagedError, NotFoundError
from widetable.format.index_manifest import index_file_names
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.snapshot import Snapshot, snapshot_from_json
from widetable.operations.tags import TagStore
from widetable.paths import TablePaths, changelog_id
from widetable.storage.file_io import FileIO

_BRANCH_PREFIX: Final = "branch-"


class NamedFiles:
    """Of one table. Without state but the caches of `live_files`.

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

    def of_snapshot(
        self,
        snapshot: Snapshot,
        partitions: Partitions | None = None,
        buckets: Buckets | None = None,
    ) -> set[str]:
        """What a reader of its rows opens: live files (of these partitions and buckets), all metadata."""
        live = self._live_files.live_entries(snapshot, partitions, buckets)
        return data_names(live) | self.metadata_of(snapshot)

    def metadata_of(self, snapshot: Snapshot) -> set[str]:
        """Its lists with their manifests, the changelog's not among them; index files and statistics."""
        names = {meta.file_name for meta in self._live_files.manifests(snapshot)}
        names |= {snapshot.base_manifest_list, snapshot.delta_manifest_list}
        if snapshot.index_manifest is not None:
            names |= {snapshot.index_manifest, *self.index_files_of(snapshot)}
        return names if snapshot.statistics is None else names | {snapshot.statistics}

    def index_files_of(self, snapshot: Snapshot) -> list[str]:
        """Names of the files that its index manifest lists."""
        if snapshot.index_manifest is None:
            return []
        path = self._paths.manifest(snapshot.index_manifest)
        return index_file_names(self._file_io.read(path), path)

    def of_delta(self, snapshot: Snapshot) -> set[str]:
        """What it added: files, their list and manifests."""
        added = [entry for entry in self._live_files.delta_entries(snapshot) if entry.kind == ADD]
        return data_names(added) | self._list_names(snapshot.delta_manifest_list, snapshot)

    def of_changelog(self, snapshot: Snapshot) -> set[str]:
        """Its changelog files, their list and manifests; nothing when it has none."""
        if snapshot.changelog_manifest_list is None:
            return set()
        emitted = self._live_files.changelog_entries(snapshot)
        return data_names(emitted) | self._list_names(snapshot.changelog_manifest_list, snapshot)

    def _list_names(self, name: str, snapshot: Snapshot) -> set[str]:
        return {name, *(meta.file_name for meta in self._live_files.manifest_list(name, snapshot))}

    def of_changelogs(self) -> set[str]:
        """What the changelogs of expired snapshots name, which other clients keep beside the snapshots."""
        return self._of_changelogs_at(self._paths)

    def _of_changelogs_at(self, paths: TablePaths) -> set[str]:
        names: set[str] = set()
        for entry in self._file_io.list(paths.changelog_dir):
            if changelog_id(entry.name) is not None:
                path = f"{paths.changelog_dir}/{entry.name}"
                snapshot = snapshot_from_json(self._file_io.read(path), path)
                # Without a changelog, its readers are given what it added.
                names |= self.of_changelog(snapshot) or self.of_delta(snapshot)
        return names

    def of_branches(self) -> set[str]:
        """What the snapshots, tags and changelogs of branches name; their data is among the table's."""
        names: set[str] = set()
        for entry in self._file_io.list(self._paths.branch_dir):
            if not entry.name.startswith(_BRANCH_PREFIX):
                continue
            branch = self._paths.branch(entry.name[len(_BRANCH_PREFIX) :])
            store = SnapshotStore(self._file_io, branch)
            for snapshot in (store.load(id) for id in store.ids()):
                names |= self.of_snapshot(snapshot) | self.of_delta(snapshot)
                names |= self.of_changelog(snapshot)
            for _, snapshot in self._tags_at(branch):
                names |= self.of_snapshot(snapshot)
            names |= self._of_changelogs_at(branch)
        return names

    def tags(self) -> list[tuple[str, Snapshot]]:
        """Name and snapshot of all tags, by snapshot id; those that are deleted meanwhile left out."""
        return self._tags_at(self._paths)

    def _tags_at(self, paths: TablePaths) -> list[tuple[str, Snapshot]]:
        tags = TagStore(self._file_io, paths).all(strict=self._strict)
        return sorted(tags.items(), key=lambda tag: (tag[1].id, tag[0]))

    def of_tag(
        self,
        name: str,
        snapshot: Snapshot,
        partitions: Partitions | None = None,
        buckets: Buckets | None = None,
    ) -> set[str]:
        """As `of_snapshot`; nothing when the tag is deleted meanwhile."""
        try:
            return self.of_snapshot(snapshot, partitions, buckets)
        except (NotFoundError, DamagedError) as cause:
            if not self._file_io.exists(self._paths.tag(name)):
                return set()
            raise DamagedError(
                f"tag {name!r} of {self._paths.root}",
                found=f"files of its snapshot {snapshot.id} that are missing or broken: {cause.subject}",
                expected="every file that the tag keeps",
                action="Restore the file, or delete the tag; nothing was deleted.",
            ) from cause


def data_names(entries: list[ManifestEntry]) -> set[str]:
    """The files of entries, with those that belong to them."""
    return {name for entry in entries for name in file_names(entry)}


def file_names(entry: ManifestEntry) -> Iterator[str]:
    """A data file and the files that lie beside it for it (file indexes)."""
    yield entry.file.file_name
    yield from entry.file.extra_files
