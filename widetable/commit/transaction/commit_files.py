"""The manifests and lists that one commit writes, reused from attempt to attempt while they still fit.

The delta manifest and its list, and those of the changelog, depend on the commit only, so they are not written again
after a lost race. The base list joins the lists of the newest snapshot (format.md section 3), with a fold of manifests
if `manifest_merge` finds one due. It is rewritten on every attempt, the fold only when its inputs are gone. Raises
StorageError, DamagedError and NotFoundError (live_files).

    attempt 1 on snapshot 7     delta-list D (manifest d)   base-list: a b c        lost to another 8
    attempt 2 on snapshot 8     delta-list D                base-list: a b c x      x: the other commit's manifest

With a fold of `a b` into `f` attempt 1 lists `f c`, and attempt 2 `f c x`: `a b` are still neighbours in the lists of
snapshot 8. If the winner has folded them itself, `f` is deleted and another fold is chosen.
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
    """A manifest list. name: of its file, which is written. manifests: in the list, oldest first."""

    name: str
    size_bytes: int
    manifests: tuple[ManifestFileMeta, ...]


class CommitFiles:
    """The files of one commit. For one thread. The files that it wrote are in `writer.written`, except those that an
    attempt replaced: they are deleted at once, as no snapshot names them.
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
        # Names of folded manifests, and the manifests that replace them, both in order.
        self._folded: tuple[list[str], tuple[ManifestFileMeta, ...]] | None = None

    def delta(self, entries: tuple[ManifestEntry, ...]) -> ListFile:
        """Return the list of the commit's delta: one manifest, none without entries.

        An overwrite may delete other files in another attempt, so the entries are compared with the last ones.
        """
        if self._delta is None or entries != self._delta_entries:
            self._drop(self._delta, self._delta.manifests if self._delta else ())
            self._delta = None
            self._delta = self._list((self.writer.manifest(entries),) if entries else ())
            self._delta_entries = entries
        return self._delta

    def changelog(self, entries: tuple[ManifestEntry, ...]) -> ListFile | None:
        """Return the list of the commit's changelog files, which is equal in every attempt; None without any."""
        if self._changelog is None and entries:
            self._changelog = self._list((self.writer.manifest(entries),))
        return self._changelog

    def base(self, latest: Snapshot | None, *, reclaim: bool) -> ListFile:
        """Return the list of all manifests of `latest`. reclaim: see `choose_fold`."""
        self._drop(self._base, ())  # that of an attempt that lost
        self._base = None
        self._base = self._list(() if latest is None else self._fold(latest, reclaim=reclaim))
        return self._base

    def _fold(self, latest: Snapshot, *, reclaim: bool) -> tuple[ManifestFileMeta, ...]:
        """Return the manifests of a snapshot, folded if a fold is due. The outputs take the place of their inputs, so
        the entries stay in the order of time, as `live` requires.
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
    """Return the index at which these manifests follow one another, None if they do not.

    Names are unique, so the first one gives the index.
    """
    names = [meta.file_name for meta in metas]
    if inputs[0] not in names:
        return None
    at = names.index(inputs[0])
    return at if names[at : at + len(inputs)] == list(inputs) else None
