"""Replace damaged data files of a table by what can be read of them, and say exactly which rows are lost.

    find the damaged live files ─► salvage each into new files ─► one OVERWRITE: deletes the damaged, adds the new ones

    process ends           on the storage
    while salvaging        new files that nothing names: orphans; the table is unchanged
    after the commit       the table without the damaged files; they stay until the snapshots before expire

The repair is a new commit: history, tags and the identifiers of commit users stay. Rows in the new files keep their
level and sequence numbers. Readers of changes skip the commit, as every overwrite. Raises ConflictError
when other commits were faster several times, DamagedError for metadata that cannot be read, UnsupportedError,
StorageError: a file that the storage refuses to read is not damaged, and nothing is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import flag
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, InvalidError, UnsupportedError
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.snapshot import Snapshot
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.file_origins import Origin, origins
from widetable.operations.handle.newest_snapshot import held_newest
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.health.file_damage import Damage, DamagedFile, damaged_files
from widetable.operations.health.salvage import LostRows, Salvaged, salvage
from widetable.operations.health.whole_snapshot import whole_snapshot
from widetable.storage.paths import POSTPONED
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.table_state import TableState

_ROUNDS: Final = 5
_log = logging.getLogger("widetable")


@dataclass(frozen=True)
class RepairedFile:
    """One damaged file of a repair.

    Attributes
    ----------
    damage : DamagedFile
        The file, and what is wrong with it.
    kept_rows : int
        How many rows could be read.
    lost : tuple of LostRows
        The rows that could not.
    origin : Origin
        The commits that wrote rows of the file.
    """

    __module__ = "widetable"

    damage: DamagedFile
    kept_rows: int
    lost: tuple[LostRows, ...]
    origin: Origin

    @property
    def lost_rows(self) -> int:
        """The number of rows that are lost."""
        return sum(lost.rows for lost in self.lost)


@dataclass(frozen=True)
class RepairResult:
    """What `Table.repair` found and committed.

    Attributes
    ----------
    path : str
        The directory of the table.
    snapshot_id : int or None
        The snapshot of the repair. None: nothing was committed, in a dry run or without damage.
    files : tuple of RepairedFile
        The damaged files.
    whole_snapshot_id : int or None
        A snapshot with the same rows in undamaged files; a rollback to it loses nothing. None: there is none.
    """

    __module__ = "widetable"

    path: str
    snapshot_id: int | None
    files: tuple[RepairedFile, ...]
    whole_snapshot_id: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as values that JSON has.

        Returns
        -------
        dict of str to any
            The fields, by name; nested results are dicts.
        """
        return asdict(self)


def repair(table: OpenTable, dry_run: bool = False, *, deep: bool = True) -> RepairResult:
    """Take damaged live data files out of the table, and keep what can be read of them.

    The result says which rows are lost, by key and sequence number, and which commits wrote them. The repair is one new
    commit, an overwrite that readers of changes skip; without damage there is no commit. If the newer row of a key is
    lost, readers see the older one.

    If there is a copy of a file, restore it instead. Or roll back to the snapshot that the result names, which loses
    nothing.

    Parameters
    ----------
    dry_run : bool, default False
        Only say what would be done.
    deep : bool, default True
        Read every live file to find the damaged ones, which takes as long as a scan. False: use a listing, and the
        errors that compactions of this process have met.

    Returns
    -------
    RepairResult
        The damaged files with their lost rows; its `snapshot_id` is None when nothing was committed.

    Raises
    ------
    UnsupportedError
        The table is under barriers, or has an option that this version does not honour.
    DamagedError
        Metadata is damaged.
    ConflictError
        Other commits were faster several times.
    """
    is_deep, is_dry = flag(deep, "deep"), flag(dry_run, "dry_run")
    return _repair(table._state(), table._committer, deep=is_deep, dry_run=is_dry)


def _repair(table: TableState, committer: Committer, *, deep: bool, dry_run: bool) -> RepairResult:
    accept(table.schema, Use.MAINTAIN, Use.REPLACE, path=table.paths.root)
    wait_for_compactions(table.paths.root)
    for _ in range(_ROUNDS):
        with held_newest(table, committer) as latest:
            if latest is None:
                break
            entries = committer.live_files.uncached().live_entries(latest)
            damage = list(damaged_files(table, entries, latest.id, deep=deep))
            if not damage:
                break
            # These come before anything is written, because they raise if metadata is damaged.
            by_name = origins(committer)
            names = {entry.file.file_name for entry, _ in damage}
            whole_id = whole_snapshot(table, committer, latest, names, deep=deep)
            replaced = [each.entry for each in damage]
            if not dry_run:
                replaced = _replaced(entries, names)
            salvaged = _salvaged(table, replaced, dry_run=dry_run)
        files = _reported(damage, salvaged, by_name)
        if dry_run:
            return RepairResult(table.paths.root, None, files, whole_id)
        waiting = _waiting(entries, {each.partition for each in replaced if _waits(each)})
        behind = _Behind(committer, _messages(replaced, salvaged), waiting)
        snapshot_id = _committed(table, behind)
        if snapshot_id is not None:
            _log_lost(files)
            return RepairResult(table.paths.root, snapshot_id, files, whole_id)
    else:
        raise ConflictError(
            table.paths.root,
            found=f"{_ROUNDS} repairs that lost against other commits",
            expected="one repair that commits before the others",
            action="Repair again, or stop what compacts and overwrites the table.",
        )
    return RepairResult(table.paths.root, None, ())


def _waits(entry: ManifestEntry) -> bool:
    return entry.bucket == POSTPONED


def _waiting(
    entries: Iterable[ManifestEntry], partitions: Collection[bytes]
) -> tuple[ManifestEntry, ...]:
    """Return the files of rows that wait for a bucket in these partitions, in the order of their commits."""
    return tuple(each for each in entries if _waits(each) and each.partition in partitions)


def _replaced(live: Sequence[ManifestEntry], damaged: Collection[str]) -> list[ManifestEntry]:
    """Return the files that a repair replaces, in their order: the damaged ones, and the whole files of waiting rows
    behind them. Their order is that of the commits, so new files must come in the place of the old ones.

        waiting files   a  b (damaged)  c        live after the repair   a  b' c'
    """
    replaced, begun = [], set()
    for entry in live:
        is_behind = _waits(entry) and entry.partition in begun
        if is_behind or entry.file.file_name in damaged:
            replaced.append(entry)
            if _waits(entry):
                begun.add(entry.partition)
    return replaced


def _salvaged(
    table: TableState, entries: Sequence[ManifestEntry], *, dry_run: bool
) -> dict[str, Salvaged]:
    """Salvage each file, by name. If one fails, the new files are removed."""
    salvaged: dict[str, Salvaged] = {}
    try:
        for entry in entries:
            salvaged[entry.file.file_name] = salvage(table, entry, dry_run=dry_run)
    except BaseException:
        discard(table, _messages(entries[: len(salvaged)], salvaged))
        raise
    return salvaged


def _messages(
    entries: Sequence[ManifestEntry], salvaged: Mapping[str, Salvaged]
) -> list[CommitMessage]:
    """Return one message for each replaced file. The commit deletes only these files, so concurrent appends are no
    conflict unless they wait behind them; a compaction that has removed one of them is.
    """
    return [
        CommitMessage(
            *entry.bucket_id,
            entry.total_buckets,
            new_files=salvaged[entry.file.file_name].files,
            deleted_files=(entry.file,),
        )
        for entry in entries
    ]


class _Behind(NamedTuple):
    """The messages of one commit, valid while no more rows wait in the partitions. waiting: what waited there."""

    committer: Committer
    messages: Sequence[CommitMessage]
    waiting: tuple[ManifestEntry, ...]

    def follow(self, latest: Snapshot | None) -> Sequence[CommitMessage]:
        """Return the messages. Raises ConflictError where a file came behind those that are replaced."""
        partitions = frozenset(each.partition for each in self.waiting)
        if partitions:
            live = self.committer.live_files.live_entries(latest, partitions)
            if _waiting(live, partitions) != self.waiting:
                raise ConflictError(
                    "the repair",
                    found="rows that were committed meanwhile and wait for a bucket",
                    expected="no rows behind those of a damaged file",
                    action="Repair again.",
                )
        return self.messages


def _committed(table: TableState, behind: _Behind) -> int | None:
    """Commit, and return the snapshot id, or None if another commit was faster. The new files stay after an error that
    leaves open whether the commit happened.
    """
    try:
        return behind.committer.rewrite(behind.follow).snapshot_id
    except (ConflictError, InvalidError, UnsupportedError) as lost:
        discard(table, behind.messages)
        if not isinstance(lost, ConflictError):
            raise
        _log.info("retrying the repair of %s after a conflict: %s", table.paths.root, lost)
        return None


def _reported(
    damage: Sequence[Damage], salvaged: Mapping[str, Salvaged], by_name: Mapping[str, Origin]
) -> tuple[RepairedFile, ...]:
    return tuple(
        RepairedFile(
            one.file,
            salvaged[name].kept_rows,
            salvaged[name].lost,
            by_name.get(name, Origin()),
        )
        for one in damage
        for name in [one.entry.file.file_name]
    )


def _log_lost(files: Sequence[RepairedFile]) -> None:
    for file in files:
        warn(
            _log,
            WarningCode.ROWS_LOST,
            "repaired, %s lost: %s",
            counted(file.lost_rows, "row"),
            file.damage,
        )
