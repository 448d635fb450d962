"""The manifests and lists that one commit writes, kept from attempt to attempt as far as they still fit.

The delta manifest and its list, and those of the changelog, depend on the commit only, so a lost
race does not cost them again. The base list is the lists of the newest snapshot, one after the
other (format.md section 3), with a fold of manifests where `manifest_merge` finds one due; it is
written anew on every attempt, the fold only when its inputs are gone. Raises StorageError,
DamagedError and NotFoundError (live_files).

    attempt 1 on snapshot 7     delta-list D (manifest d)   base-list: a b c        lost to another 8
    attempt 2 on snapshot 8     delta-list D                base-list: a b c x      x: what the other one added

With a fold of `a b` into `f` attempt 1 lists `f c`, and attempt 2 `f c x`: `a b` still stand side
by side in what snapshot 8 has. Had its winner folded them itself, `f` is deleted and another fold
chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from widetable.commit.snapshots.live_files import LiveFiles
from widetable.commit.snapshots.manifest_merge import choose_fold, folded, split_evenly
from widetable.commit.snapshots.manifest_writer import ManifestWriter
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.manifest_file import ManifestFileMeta
from widetable.format.snapshot import Snapshot
from widetable.schema import options as opt
from widetable.schema.options import TableOptions


@dataclass(frozen=True)
class ListFile:
    """A manifest list. manifests: what it names.

    name: of its file, which is written. The manifests are in order, oldest first.
    """

    name: str
    size_bytes: int
    manifests: tuple[ManifestFileMeta, ...]


class CommitFiles:
    """Of one commit. Every file it wrote is in `writer.written`.

    But for those that an attempt replaced: they are deleted at once, as no snapshot names them. For one
    thread.
    """

    def __init__(
        self, writer: ManifestWriter, live_files: LiveFiles, options: TableOptions
    ) -> None:
        self.writer = writer
        self._live_files = live_files
        self._target_size_bytes = options.get(opt.MANIFEST_TARGET_FILE_SIZE)
        self._min_count = options.get(opt.MANIFEST_MERGE_MIN_COUNT)
        self._delta: ListFile | None = None
        self._delta_entries: tuple[ManifestEntry, ...] = ()
        self._changelog: ListFile | None = None
        self._base: ListFile | None = None
        # Names of manifests, and those that replace them, both in order.
        self._folded: tuple[list[str], tuple[ManifestFileMeta, ...]] | None = None

    def delta(self, entries: tuple[ManifestEntry, ...]) -> ListFile:
        """The list of what this commit adds and deletes: one manifest, none when there is nothing.

        An overwrite may delete other files in another attempt, so entries are compared.
        """
        if self._delta is None or entries != self._delta_entries:
            self._drop(self._delta, self._delta.manifests if self._delta else ())
            self._delta = None
            self._delta = self._list((self.writer.manifest(entries),) if entries else ())
            self._delta_entries = entries
        return self._delta

    def changelog(self, entries: tuple[ManifestEntry, ...]) -> ListFile | None:
        """The list of the commit's changelog files; None without any. The same in every attempt."""
        if self._changelog is None and entries:
            self._changelog = self._list((self.writer.manifest(entries),))
        return self._changelog

    def base(self, latest: Snapshot | None, *, reclaim: bool) -> ListFile:
        """The list of all that was there before. reclaim: see `choose_fold`."""
        self._drop(self._base, ())  # of an attempt that lost
        self._base = None
        self._base = self._list(() if latest is None else self._fold(latest, reclaim=reclaim))
        return self._base

    def _fold(self, latest: Snapshot, *, reclaim: bool) -> tuple[ManifestFileMeta, ...]:
        """The manifests of a snapshot, with a stretch of them folded, where one is due. The order of entries stays
        that of time, which `live` goes by: outputs stand where their inputs stood.
        """
        metas = self._live_files.manifests(latest)
        if self._folded is not None:
            names, outputs = self._folded
            at = _position(names, metas)
            if at is not None:
                return metas[:at] + outputs + metas[at + len(names) :]
            self._drop(None, outputs)
            self._folded = None
        start = choose_fold(
            metas,
            target_size_bytes=self._target_size_bytes,
            min_count=self._min_count,
            reclaim=reclaim,
        )
        if start is None:
            return metas
        inputs = metas[start:]
        entries = folded(
            entry for meta in inputs for entry in self._live_files.manifest(meta, latest).entries
        )
        outputs = tuple(self.writer.manifest(part) for part in split_evenly(entries))
        self._folded = [meta.file_name for meta in inputs], outputs
        return metas[:start] + outputs

    def _list(self, manifests: tuple[ManifestFileMeta, ...]) -> ListFile:
        name, size_bytes = self.writer.manifest_list(manifests)
        return ListFile(name, size_bytes, manifests)

    def _drop(self, list_file: ListFile | None, manifests: Sequence[ManifestFileMeta]) -> None:
        names = [meta.file_name for meta in manifests]
        self.writer.discard(names if list_file is None else [list_file.name, *names])


def _position(inputs: Sequence[str], metas: Sequence[ManifestFileMeta]) -> int | None:
    """Where these manifests stand in a row, None when they do not.
    Names are unique, so the first one says where.
    """
    names = [meta.file_name for meta in metas]
    if inputs[0] not in names:
        return None
    at = names.index(inputs[0])
    return at if names[at : at + len(inputs)] == list(inputs) else None
