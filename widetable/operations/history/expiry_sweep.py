"""Deletes the files that only expired snapshots named, working from the notes of them (retired_snapshots).

    notes whose snapshot file is gone ─► what they deleted ─► minus what others name ─► data and changelog files,
    ─► manifests ─► lists, index manifests, statistics ─► the notes

Every step can be repeated: what is deleted already is passed over. A note whose manifests are gone was swept before,
because manifests go only after all data files. Tags are looked up after the notes: a tag that is made of a snapshot
counts only when that snapshot's file is there afterwards (`tags`), so one that counts is seen here; what moves between
branches is, too (`named_files`). Raises NotFoundError, DamagedError and ConflictError when it is not known what others
name, before anything is deleted; StorageError.
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

# How often the snapshots are looked at again because another expiry removed the earliest one.
_LOOKS: Final = 10
_log = logging.getLogger("widetable")


@dataclass(frozen=True)
class _Waste:
    """What nobody needs. data: entries of data and changelog files. metadata: bytes of metadata files, by path, in
    groups that go one after the other.
    """

    snapshots: list[Snapshot] = field(default_factory=list)
    kept: Container[str] = frozenset()
    data: list[ManifestEntry] = field(default_factory=list)
    metadata: tuple[dict[str, int], ...] = ()


class ExpirySweep:
    """For one table.

    What nobody reads is found by deletes: what the earliest kept snapshot no longer has was
    deleted by its delta or an expired one's. A file that only moved is deleted and added there,
    and named by the earliest one.
    """

    def __init__(self, state: TableState, committer: Committer, retired: RetiredSnapshots) -> None:
        self._state = state
        self._file_io = state.file_io
        self._paths = state.paths
        self._snapshots = committer.snapshots
        self._live_files: LiveFiles = committer.live_files
        # What a damaged tag kept is not known: it must not stop what frees the disk.
        self._named = NamedFiles(state.file_io, state.paths, committer.live_files, strict=False)
        self._retired = retired

    def run(self) -> tuple[int, int]:
        """Delete what the notes name and nobody else; then the notes. How many files went, and their bytes: of data
        files, changelog files and manifests, as their entries say.
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
                    WarningCode.FILE_OUTSIDE,
                    "%s is outside of the table and stays",
                    entry.file.external_path,
                )
                continue
            for name, size_bytes in data_sizes([entry]).items():
                if name not in waste.kept:
                    sizes[self._state.data_file(entry.bucket_id, name)] = size_bytes
        return sizes

    def _find(self) -> _Waste:
        for look in range(_LOOKS):
            earliest_id = self._snapshots.earliest_id()
            if earliest_id is None:
                return _Waste()
            retired = self._retired.gone(earliest_id)
            if not retired:
                return _Waste()
            try:
                return self._waste(retired, self._snapshots.load(earliest_id))
            except NotFoundError:
                # The earliest one went while its files were looked up: the next one's are as good.
                if look == _LOOKS - 1:
                    raise
        raise AssertionError("the last look returns or raises")

    def _waste(self, retired: list[Snapshot], earliest: Snapshot) -> _Waste:
        deltas, changelogs = self._live_files.delta_entries(earliest), []
        for snapshot in retired:
            try:
                changed = self._live_files.delta_entries(snapshot)
                emitted = self._live_files.changelog_entries(snapshot)
            except NotFoundError:
                continue  # swept before, by an expiry that did not end
            deltas.extend(changed)
            changelogs.extend(emitted)
        kept = self._named.steady(lambda: self._kept(retired[0].id, earliest, deltas))
        return _Waste(
            retired, kept, unread_files(deltas, changelogs, kept), self._metadata(retired, kept)
        )

    def _kept(self, first_id: int, earliest: Snapshot, deltas: Iterable[ManifestEntry]) -> Sizes:
        """What others name. Of tags: those of the expired snapshots, and the one before them; a file that an expired
        snapshot had and an older tag has is in that one too, as an older file of a snapshot is in the earliest one. Not
        so where there were branches (`had_branches`): all are looked at then.
        """
        deleted = [entry for entry in deltas if entry.kind == DELETE]
        touched = (
            frozenset(entry.partition for entry in deleted),
            frozenset(entry.bucket for entry in deleted),
        )
        is_one_history = not self._named.had_branches()
        kept = self._named.of_snapshot(earliest, touched)
        if not is_one_history:
            later = [self._snapshots.load(id) for id in self._snapshots.ids() if id > earliest.id]
            kept |= self._named.of_snapshots(later, touched)
        kept |= self._named.of_changelogs() | self._named.of_other_branches(touched)
        tags = {tag.id: (name, tag) for name, tag in self._named.tags() if tag.id < earliest.id}
        before = [id for id in tags if id < first_id]
        if is_one_history:
            before = before[-1:]
        for id in [*before, *(id for id in tags if id >= first_id)]:
            kept |= self._named.of_tag(*tags[id], touched)
        if not self._file_io.exists(self._paths.snapshot(earliest.id)):
            raise NotFoundError(
                self._paths.snapshot(earliest.id),
                found="no such file any more",
                expected="the earliest snapshot",
                action="Look again.",
            )
        return kept

    def _metadata(
        self, retired: list[Snapshot], kept: Container[str]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Manifests first: a list that is there says which of them may be left."""
        manifests: dict[str, int] = {}
        last: dict[str, int] = {}
        for snapshot in retired:
            for name, size in snapshot.list_bytes.items():
                if name in kept:
                    continue
                last[self._paths.manifest(name)] = size or 0
                with contextlib.suppress(NotFoundError):  # a list that is gone
                    for meta in self._live_files.manifest_list(name, snapshot):
                        if meta.file_name not in kept:
                            manifests[self._paths.manifest(meta.file_name)] = meta.file_size
            if snapshot.index_manifest is not None and snapshot.index_manifest not in kept:
                with contextlib.suppress(NotFoundError):
                    for each, size_bytes in self._named.index_files_of(snapshot).items():
                        if each not in kept:
                            manifests[self._paths.index(each)] = size_bytes
                last[self._paths.manifest(snapshot.index_manifest)] = 0
            if snapshot.statistics is not None and snapshot.statistics not in kept:
                last[self._paths.statistics(snapshot.statistics)] = 0
        return manifests, last
