"""Measures what a table occupies on the storage, and who keeps it: the answer to "why does the table grow".

    snapshot    the newest one: its data files, with their metadata and its changelog
    retention   older ones that the options keep (`snapshot.num-retained.*`, `snapshot.time-retained`)
    read, pin, barriers, consumer         older ones that a holder still needs, from `snapshot_id` on
    tag, branch, changelog                what only these name; `changelog`: those that other clients keep longer
    expiry      snapshots that the next expiry removes
    nobody      files that nothing names: of running writers, of an interrupted expiry, or orphans

Each line counts what no line above it needs, so the lines add up to the whole table. Of the holders of snapshots the
one that keeps the fewest comes first: a line shows what is freed when its holder and all below it release theirs.

    ids 1 to 9, 9 the newest; the options keep 7 and 8; b needs 5, a needs 2
    retention   7 8     b   5 6     a   2 3 4     expiry   1

In: snapshots, tags and branches with their manifests, and, for `nobody`, a listing of the data directories. Sizes
are the recorded ones where nothing is listed. Raises what `named_files` raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from widetable.commit.transaction.committer import Committer
from widetable.errors import NotFoundError
from widetable.format.manifest_entry import DELETE
from widetable.format.snapshot import Snapshot
from widetable.operations.history.named_files import NamedFiles, Sizes, data_sizes
from widetable.operations.history.orphans import TableFile
from widetable.operations.history.snapshot_holders import Holder
from widetable.write.table_state import TableState

SNAPSHOT: Final = "snapshot"
RETENTION: Final = "retention"
TAG: Final = "tag"
BRANCH: Final = "branch"
CHANGELOG: Final = "changelog"
EXPIRY: Final = "expiry"
NOBODY: Final = "nobody"
_ATTEMPTS: Final = 10


@dataclass(frozen=True)
class HeldBytes:
    """One line of `Inspector.space`: files that one holder keeps.

    Attributes
    ----------
    holder : str
        The kind of holder, such as `snapshot`, `tag` or `consumer`.
    name : str or None
        The name of the consumer, tag, branch or process, or of the query with its join. None: the holder has no name.
    snapshot_id : int or None
        The first snapshot that is kept. None: the holder keeps no snapshot.
    files, bytes : int
        Number and size of the files that no earlier line counts.
    """

    __module__ = "widetable"

    holder: str
    name: str | None
    snapshot_id: int | None
    files: int
    bytes: int


@dataclass(frozen=True)
class Keeping:
    """Who keeps which snapshots.

    due: those that the next expiry removes; free: those that the options do not keep, due or not. ended_tags: those
    whose time is over, which do not count.
    """

    due: frozenset[int]
    free: frozenset[int]
    holders: Sequence[Holder]
    ended_tags: frozenset[str] = frozenset()

    def keeper(self, id: int) -> Holder:
        """Return the holder of a snapshot that is not the newest. snapshot_id of `retention` and `expiry`: this one."""
        if id in self.due:
            return Holder(EXPIRY, None, id)
        needing = [one for one in self.holders if one.snapshot_id <= id]
        if id not in self.free or not needing:
            return Holder(RETENTION, None, id)
        return max(needing, key=lambda one: one.snapshot_id)


def held_bytes(
    state: TableState,
    committer: Committer,
    keeping: Keeping,
    listed: Sequence[TableFile] = (),
) -> tuple[HeldBytes, ...]:
    """Return a line per holder. listed: all files in the data directories; without them no line is `nobody`."""
    for attempt in range(_ATTEMPTS):
        try:
            return _Count(state, committer, keeping, listed).lines()
        except NotFoundError:  # a snapshot expired meanwhile
            if attempt == _ATTEMPTS - 1:
                raise
    raise AssertionError("the last attempt returns or raises")


class _Count:
    """One count of the table."""

    def __init__(
        self,
        state: TableState,
        committer: Committer,
        keeping: Keeping,
        listed: Sequence[TableFile],
    ) -> None:
        self._store = committer.snapshots
        self._live_files = committer.live_files
        self._named = NamedFiles(state.file_io, state.paths, committer.live_files, strict=False)
        self._keeping = keeping
        self._listed = {file.name: file.size_bytes for file in listed}
        self._seen: set[str] = set()
        self._lines: dict[tuple[str, str | None], HeldBytes] = {}

    def lines(self) -> tuple[HeldBytes, ...]:
        """Return the lines in the order of the module's list."""
        snapshots = [self._store.load(id) for id in self._store.ids()]
        self._count_snapshots(snapshots)
        for name, snapshot in self._named.tags():
            if name not in self._keeping.ended_tags:
                self._count(TAG, name, snapshot.id, self._named.of_tag(name, snapshot))
        for name, sizes in self._named.by_branch():
            self._count(BRANCH, name, None, sizes)
        self._count(CHANGELOG, None, None, self._named.of_changelogs())
        self._count_snapshots(snapshots, are_due=True)
        self._count(NOBODY, None, None, self._listed)
        return tuple(line for line in self._lines.values() if line.files)

    def _count_snapshots(self, snapshots: Sequence[Snapshot], *, are_due: bool = False) -> None:
        """Count snapshots from the newest back: an older one adds what the one after it deleted."""
        whole = self._named.had_branches()
        behind: Snapshot | None = None
        for snapshot in reversed(snapshots):
            if (snapshot.id in self._keeping.due) is are_due:
                keeper = (
                    Holder(SNAPSHOT, None, snapshot.id)
                    if behind is None
                    else self._keeping.keeper(snapshot.id)
                )
                follows = behind is not None and behind.id == snapshot.id + 1 and not whole
                sizes = self._named.of_changelog(snapshot) | self._named.metadata_of(snapshot)
                sizes |= (
                    self._deleted(behind)
                    if follows and behind is not None
                    else self._named.of_snapshot(snapshot)
                )
                self._count(keeper.kind, keeper.name, keeper.snapshot_id, sizes)
            behind = snapshot

    def _deleted(self, snapshot: Snapshot) -> Sizes:
        entries = self._live_files.delta_entries(snapshot)
        return data_sizes(entry for entry in entries if entry.kind == DELETE)

    def _count(
        self, holder: str, name: str | None, snapshot_id: int | None, sizes: Mapping[str, int]
    ) -> None:
        """Add sizes to a line. snapshot_id: the smallest one counts."""
        fresh = [each for each in sizes if each not in self._seen]
        self._seen.update(fresh)
        before = self._lines.get((holder, name))
        first_id = (
            snapshot_id
            if before is None
            else min(filter(None, (before.snapshot_id, snapshot_id)), default=None)
        )
        self._lines[holder, name] = HeldBytes(
            holder,
            name,
            first_id,
            len(fresh) + (0 if before is None else before.files),
            sum(self._listed.get(each, sizes[each]) for each in fresh)
            + (0 if before is None else before.bytes),
        )
