"""Takes damaged data files out of a table, keeps what can be read of them, and says exactly what is gone.

    find the damaged live files ─► salvage each into new files ─► one OVERWRITE: the damaged go, the new ones come

    process ends           on the storage
    while salvaging        new files that nobody names: orphans; the table is as it was
    after the commit       the table without the damaged files; they stay until the snapshots before expire

The commit goes forward: history, tags and what is remembered of commit users stay. Rows at the new files have the
level and the numbers that they had. Readers of changes pass the commit by, as every overwrite. Raises ConflictError
when other commits were faster again and again, DamagedError for metadata that cannot be read, UnsupportedError,
StorageError: a file that the storage does not give is not damaged, and nothing is changed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from widetable.arguments import flag
from widetable.commit.barriers.barrier_table import check_rows_stay
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, InvalidError, UnsupportedError
from widetable.messages.counted import counted
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.handle.compaction_threads import wait_for_compactions
from widetable.operations.handle.file_origins import Origin, origins
from widetable.operations.handle.newest_snapshot import held_newest
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.handle.supported import check_writable
from widetable.operations.health.file_damage import Damage, DamagedFile, damaged_files
from widetable.operations.health.salvage import LostRows, Salvaged, salvage
from widetable.operations.health.whole_snapshot import whole_snapshot
from widetable.write.commit_message import CommitMessage
from widetable.write.discard import discard
from widetable.write.table_state import TableState

_ROUNDS: Final = 5
_log = logging.getLogger("widetable")


@dataclass(frozen=True)
class RepairedFile:
    """kept_rows: that could be read. lost: the others. origin: the commits that wrote rows of the file."""

    __module__ = "widetable"

    damage: DamagedFile
    kept_rows: int
    lost: tuple[LostRows, ...]
    origin: Origin

    @property
    def lost_rows(self) -> int:
        """How many rows are gone."""
        return sum(lost.rows for lost in self.lost)


@dataclass(frozen=True)
class RepairResult:
    """snapshot_id: of the repair; None when nothing was committed: a dry run, or nothing is damaged. whole_snapshot_id:
    that has the same rows in files that are whole: a rollback to it loses nothing; None where there is none.
    """

    __module__ = "widetable"

    path: str
    snapshot_id: int | None
    files: tuple[RepairedFile, ...]
    whole_snapshot_id: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As values of JSON."""
        return asdict(self)


def repair(table: OpenTable, dry_run: bool = False, *, deep: bool = True) -> RepairResult:
    """Take damaged live data files out of the table, and keep what can be read of them.

    It says what is gone: which rows, by key and sequence number, and which commits wrote them. The repair is one
    commit that goes forward, an overwrite that readers of changes pass by; without damage there is none. A newer row
    that is lost gives way to the older one of its key.

    Restore a file from a copy instead where there is one. Or go back to the snapshot that the result names, which
    loses nothing.

    Parameters
    ----------
    dry_run : bool, default False
        Only say what would be done.
    deep : bool, default True
        Read every live file to find the damaged ones, which takes as long as a scan. False: take what a
        listing shows, and what compactions of this process have met.

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
        Other commits were first again and again.
    """
    is_deep, is_dry = flag(deep, "deep"), flag(dry_run, "dry_run")
    return _repair(table._state(), table._committer, deep=is_deep, dry_run=is_dry)


def _repair(table: TableState, committer: Committer, *, deep: bool, dry_run: bool) -> RepairResult:
    check_writable(table.schema)
    check_rows_stay(table.schema, table.paths.root)
    wait_for_compactions(table.paths.root)
    for _ in range(_ROUNDS):
        with held_newest(table, committer) as latest:
            if latest is None:
                break
            entries = committer.live_files.uncached().live_entries(latest)
            found = list(damaged_files(table, entries, latest.id, deep=deep))
            if not found:
                break
            # Before anything is written: it may raise, for metadata that is damaged.
            by_name = origins(committer)
            names = {entry.file.file_name for entry, _ in found}
            whole_id = whole_snapshot(table, committer, latest, names, deep=deep)
            salvaged = _salvaged(table, found, dry_run=dry_run)
        files = _reported(found, salvaged, by_name)
        if dry_run:
            return RepairResult(table.paths.root, None, files, whole_id)
        snapshot_id = _committed(table, committer, _messages(found, salvaged))
        if snapshot_id is not None:
            _log_lost(files)
            return RepairResult(table.paths.root, snapshot_id, files, whole_id)
    else:
        raise ConflictError(
            table.paths.root,
            found=f"{_ROUNDS} repairs that lost against other commits",
            expected="to be first once",
            action="Repair again, or stop what compacts and overwrites the table.",
        )
    return RepairResult(table.paths.root, None, ())


def _salvaged(table: TableState, found: Sequence[Damage], *, dry_run: bool) -> list[Salvaged]:
    """What is kept of each file. What was written is removed when one fails.
    In the order of `found`.
    """
    salvaged: list[Salvaged] = []
    try:
        for damage in found:
            salvaged.append(salvage(table, damage.entry, dry_run=dry_run))
    except BaseException:
        discard(table, _messages(found[: len(salvaged)], salvaged))
        raise
    return salvaged


def _messages(found: Sequence[Damage], salvaged: Sequence[Salvaged]) -> list[CommitMessage]:
    """One for each damaged file. Only these are deleted, so appends meanwhile are no conflict; a
    compaction that took the file away before is.
    """
    return [
        CommitMessage(
            *entry.bucket_id,
            entry.total_buckets,
            new_files=kept.files,
            deleted_files=(entry.file,),
        )
        for (entry, _), kept in zip(found, salvaged, strict=True)
    ]


def _committed(
    table: TableState, committer: Committer, messages: Sequence[CommitMessage]
) -> int | None:
    """The id of the commit; None when it lost. An error that leaves open whether it is in leaves the new files."""
    try:
        return committer.restore(messages, None).snapshot_id
    except (ConflictError, InvalidError, UnsupportedError) as lost:
        discard(table, messages)
        if not isinstance(lost, ConflictError):
            raise
        _log.info("the repair of %s is planned again: %s", table.paths.root, lost)
        return None


def _reported(
    found: Sequence[Damage], salvaged: Sequence[Salvaged], by_name: Mapping[str, Origin]
) -> tuple[RepairedFile, ...]:
    return tuple(
        RepairedFile(
            damage.file,
            kept.kept_rows,
            kept.lost,
            by_name.get(damage.entry.file.file_name, Origin()),
        )
        for damage, kept in zip(found, salvaged, strict=True)
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
