"""Deletes the files that only expired snapshots named, by the notes of these snapshots (retired_snapshots).

    notes whose snapshot file is gone ─► the files they deleted ─► minus files that others name ─► data, changelog files
    ─► manifests ─► lists, index manifests, statistics ─► the notes

Every step can be repeated: deleted files are skipped. A note whose manifests are gone was swept before,
because manifests are deleted after all data files. Tags are listed after the notes: a tag of a snapshot
counts only if that snapshot's file exists then (`tag_store`), so each tag that counts is seen here; so are names that
move between branches (`named_files`). Raises NotFoundError, DamagedError and ConflictError when the files that others
need are unknown, before anything is deleted; StorageError.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Final

from widetable.commit.holds.retired_snapshots import RetiredSnapshots
from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.transaction.committer import Committer
from widetable.errors import NotFoundError
from widetable.format.manifest_entry import DELETE, ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.history.expiry_choice import unread_files
from widetable.operations.history.named_files import NamedFiles, Sizes, data_sizes
from widetable.write.table_state import TableState

# How often the snapshots are read again because another expiry removed the earliest one.
_ATTEMPTS: Final = 10
_log = logging.getLogger("widetable")


@dataclass(frozen=True)
class _Waste:
    """The files that no one needs.

    data: entries of data and changelog files. metadata: bytes of metadata files, by path, in groups that are deleted
    one after the other.
    """

    snapshots: list[Snapshot] = field(default_factory=list)
    kept: Container[str] = frozenset()
    data: list[ManifestEntry] = field(default_factory=list)
    metadata: tuple[dict[str, int], ...] = ()


class ExpirySweep:
    """The sweep of one table.

    Unread files are found by deletes: a file that the earliest kept snapshot lacks was deleted by its delta or by
    that of an expired one. A file that only moved is deleted and added there, and the earliest snapshot names it.
    """

    def __init__(self, state: TableState, committer: Committer, retired: RetiredSnapshots) -> None:
        self._state = state
        self._file_io = state.file_io
        self._paths = state.paths
        self._snapshots = committer.snapshots
        self._live_files: LiveFiles = committer.live_files
        # The files of a damaged tag are unknown; it must not stop a sweep that frees the disk.
        self._named = NamedFiles(state.file_io, state.paths, committer.live_files, strict=False)
        self._retired = retired

    def run(self) -> tuple[int, int]:
        """Delete what only the notes name, then the notes.

        Return the number and bytes of deleted data files, changelog files and manifests, as their entries have them.
        """
        waste, files, size_bytes = self._find(), 0, 0
        for sizes in (self._data_files(waste), *waste.metadata):
            gone = self._file_io.delete_all(sizes)
            files += len(gone)
            size_bytes += sum(sizes[path] for path in gone)
        for snapshot in waste.snapshots:
            self._retired.forget(snapshot.id)
        return files, size_bytes

    def _data_files(self, waste: _Waste) -> dict[str, int]:
        sizes: dict[str, int] = {}
        for entry in waste.data:
            if entry.file.external_path is not None:
                warn(
                    _log,
                    WarningCode.FILE_OUTSIDE_TABLE,
                    "%s is outside of the table and stays",
                    entry.file.external_path,
                )
                continue
            for name, size_bytes in data_sizes([entry]).items():
                if name not in waste.kept:
                    sizes[self._state.data_file(entry.bucket_id, name)] = size_bytes
        return sizes

    def _find(self) -> _Waste:
        for attempt in range(_ATTEMPTS):
            earliest_id = self._snapshots.earliest_id()
            if earliest_id is None:
                return _Waste()
            retired = self._retired.gone(earliest_id)
            if not retired:
                return _Waste()
            try:
                return self._waste(retired, self._snapshots.load(earliest_id))
            except NotFoundError:
                # The earliest one was removed while its files were read: the next one serves as well.
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _waste(self, retired: list[Snapshot], earliest: Snapshot) -> _Waste:
        deltas, changelogs = self._live_files.delta_entries(earliest), []
        for snapshot in retired:
            try:
                changed = self._live_files.delta_entries(snapshot)
                emitted = self._live_files.changelog_entries(snapshot)
            except NotFoundError:
                continue  # swept before, by an interrupted expiry
            deltas.extend(changed)
            changelogs.extend(emitted)
        needed = self._named.steady(lambda: self._named_by_others(retired[0].id, earliest, deltas))
        return _Waste(
            retired,
            needed,
            unread_files(deltas, changelogs, needed),
            self._metadata(retired, needed),
        )

    def _named_by_others(
        self, first_id: int, earliest: Snapshot, deltas: Iterable[ManifestEntry]
    ) -> Sizes:
        """Return the files that others name.

        Of the tags, those of the expired snapshots and the one before them suffice: a file that an expired snapshot
        and an older tag have is in that one too, as an older file of a snapshot is in the earliest one. Where there
        were branches (`had_branches`), this does not hold, and all tags are read.
        """
        deleted = [entry for entry in deltas if entry.kind == DELETE]
        touched = (
            frozenset(entry.partition for entry in deleted),
            frozenset(entry.bucket for entry in deleted),
        )
        is_one_history = not self._named.had_branches()
        names = self._named.of_snapshot(earliest, touched)
        if not is_one_history:
            later = [self._snapshots.load(id) for id in self._snapshots.ids() if id > earliest.id]
            names |= self._named.of_snapshots(later, touched)
        names |= self._named.of_changelogs() | self._named.of_other_branches(touched)
        tags = {tag.id: (name, tag) for name, tag in self._named.tags() if tag.id < earliest.id}
        before = [id for id in tags if id < first_id]
        if is_one_history:
            before = before[-1:]
        for id in [*before, *(id for id in tags if id >= first_id)]:
            names |= self._named.of_tag(*tags[id], touched)
        if not self._file_io.exists(self._paths.snapshot(earliest.id)):
            raise NotFoundError(
                self._paths.snapshot(earliest.id),
                found="a file that no longer exists",
                expected="the earliest snapshot",
                action="Repeat the call.",
            )
        return names

    def _metadata(
        self, retired: list[Snapshot], needed: Container[str]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Return the metadata files to delete: manifests first, because an existing list shows which may be left."""
        manifests: dict[str, int] = {}
        last: dict[str, int] = {}
        for snapshot in retired:
            for name, size in snapshot.list_bytes.items():
                if name in needed:
                    continue
                last[self._paths.manifest(name)] = size or 0
                with contextlib.suppress(NotFoundError):  # a list that was deleted before
                    for meta in self._live_files.manifest_list(name, snapshot):
                        if meta.file_name not in needed:
                            manifests[self._paths.manifest(meta.file_name)] = meta.file_size
            if snapshot.index_manifest is not None and snapshot.index_manifest not in needed:
                with contextlib.suppress(NotFoundError):
                    for each, size_bytes in self._named.index_files_of(snapshot).items():
                        if each not in needed:
                            manifests[self._paths.index(each)] = size_bytes
                last[self._paths.manifest(snapshot.index_manifest)] = 0
            if snapshot.statistics is not None and snapshot.statistics not in needed:
                last[self._paths.statistics(snapshot.statistics)] = 0
        return manifests, last
