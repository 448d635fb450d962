"""What a job says of itself: its tables, the log that it has read, and the log that the server holds for it. Pure.

shop: log at 0/1A2B3C8, server at 0/1A2B3C8, 0 B behind, 24.0 KiB held (reserved)
public.orders -> shop.orders: streaming, at 0/1A2B3C8
public.users -> shop.users: copying, 3 of 8 chunks
public.tags -> shop.tags: parked: the key column id changed its type. widetable cdc resume FILE public.tags --recopy

shop: at binlog 3:154 (mariadb)
shop.orders -> mirror.orders: streaming, at binlog 3:154
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from widetable.connector import size_text
from widetable_cdc.copying.chunk_plan import ChunkPlan
from widetable_cdc.embedded.binlog_position import position_text
from widetable_cdc.jobs.followed_states import FollowedState, Status
from widetable_cdc.source.lsn import lsn_text
from widetable_cdc.source.slot import SlotStatus


@dataclass(frozen=True)
class SyncedTable:
    """The state of one table of a job.

    Attributes
    ----------
    relation : str
        The table of the source, as schema.table.
    target : str
        The table that follows it, as `db.table`.
    status : Status
        Copying, streaming, parked, paused or gone.
    reason : str
        Why it is parked, paused or gone; else empty.
    position : int or None
        The LSN up to which the target has the changes; None before the first one.
    chunks, chunks_done : int
        The number of ranges of the full copy, and how many are in the target; 0 if nothing is copied.
    """

    relation: str
    target: str
    status: Status
    reason: str
    position: int | None
    chunks: int
    chunks_done: int

    def line(self) -> str:
        """Write the state as one line.

        Returns
        -------
        str
            The line, without its end.
        """
        start = f"{self.relation} -> {self.target}: {self.status.value}"
        if self.status is Status.COPYING:
            return f"{start}, {self.chunks_done} of {self.chunks} chunks"
        if self.status in (Status.PARKED, Status.PAUSED):
            return f"{start}: {self.reason}. widetable cdc resume FILE {self.relation} --recopy"
        at = "no change yet" if self.position is None else f"at {lsn_text(self.position)}"
        return f"{start}, {at}"


def synced_tables(
    states: Iterable[FollowedState],
    plans: Mapping[int, ChunkPlan],
    positions: Mapping[str, int | None],
) -> tuple[SyncedTable, ...]:
    """Return the states of tables. plans: of those that are copied, by oid. positions: of targets, by relation."""
    tables = []
    for state in states:
        plan = plans.get(state.form.table.oid)
        chunks = 0 if plan is None else len(plan.states)
        tables.append(
            SyncedTable(
                state.relation,
                state.target,
                state.status,
                state.reason,
                positions[state.relation],
                chunks,
                0 if plan is None else chunks - len(plan.to_read()),
            )
        )
    return tuple(tables)


@dataclass(frozen=True)
class SyncStatus:
    """The state of a job.

    Attributes
    ----------
    name : str
        The job's name.
    confirmed_lsn : int or None
        The LSN up to which the server may forget the log; None without a slot.
    server_lsn : int
        The LSN at which the server's log ends.
    held_bytes : int
        How much of the log the server keeps for the slot.
    wal_status : str or None
        The standing of the slot: reserved, extended, unreserved or lost; None without a slot.
    errors : int
        The number of bad rows of the job in `__cdc_errors`.
    tables : tuple of SyncedTable
        The tables, in the order of their names.
    """

    name: str
    confirmed_lsn: int | None
    server_lsn: int
    held_bytes: int
    wal_status: str | None
    errors: int
    tables: tuple[SyncedTable, ...]

    @staticmethod
    def of(name: str, slot: SlotStatus, errors: int, tables: tuple[SyncedTable, ...]) -> SyncStatus:
        """Return the state of a job.

        Parameters
        ----------
        name : str
            The job's name.
        slot : SlotStatus
            The standing of its slot.
        errors : int
            The number of its bad rows.
        tables : tuple of SyncedTable
            Its tables.

        Returns
        -------
        SyncStatus
            The state.
        """
        lsn, kept = slot.confirmed_lsn, slot.held_bytes
        return SyncStatus(name, lsn, slot.server_lsn, kept, slot.wal_status, errors, tables)

    @property
    def behind_bytes(self) -> int:
        """The bytes of log between the confirmed position and the end of the server's log."""
        return 0 if self.confirmed_lsn is None else max(0, self.server_lsn - self.confirmed_lsn)

    @property
    def needs_attention(self) -> bool:
        """Whether somebody must act: a table is parked, or the slot is in danger."""
        is_parked = any(one.status is Status.PARKED for one in self.tables)
        return is_parked or self.wal_status in ("unreserved", "lost")

    def lines(self) -> list[str]:
        """Write the state for people.

        Returns
        -------
        list of str
            A line for the job, one for each table, and one for bad rows if there are any.
        """
        at = "no slot" if self.confirmed_lsn is None else f"log at {lsn_text(self.confirmed_lsn)}"
        first = (
            f"{self.name}: {at}, server at {lsn_text(self.server_lsn)}, {size_text(self.behind_bytes)} behind, "
            f"{size_text(self.held_bytes)} held ({self.wal_status or 'no slot'})"
        )
        lines = [first, *(one.line() for one in self.tables)]
        if self.errors:
            lines.append(f"{self.errors} bad rows are in the table of errors")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the state as values of JSON.

        Returns
        -------
        dict of str to any
            The attributes, with tables as dicts, and `behind_bytes`.
        """
        value = asdict(self) | {"behind_bytes": self.behind_bytes}
        value["tables"] = [{**asdict(one), "status": one.status.value} for one in self.tables]
        return value


@dataclass(frozen=True)
class SyncProgress:
    """What a run of a job has done since it began, and the state of the job.

    Attributes
    ----------
    rows_copied : int
        The rows of the full copy that were committed.
    bytes_copied : int
        Their size in memory, as Arrow has them.
    chunks_copied : int
        The number of their ranges.
    changes : int
        The changes of the log.
    commits : int
        The commits of rounds, one for each table that a round touched.
    status : SyncStatus
        The state of the job.
    """

    rows_copied: int
    bytes_copied: int
    chunks_copied: int
    changes: int
    commits: int
    status: SyncStatus

    def to_dict(self) -> dict[str, Any]:
        """Return the progress as values of JSON.

        Returns
        -------
        dict of str to any
            The attributes, with those of the state beside them.
        """
        counts = {name: value for name, value in vars(self).items() if name != "status"}
        return counts | self.status.to_dict()


@dataclass(frozen=True)
class EngineStatus(SyncStatus):
    """The state of a job whose database Debezium reads. LSNs are positions in the binlog.

    Attributes
    ----------
    connector : str
        The connector of Debezium.
    """

    connector: str = ""

    def lines(self) -> list[str]:
        """Write the state for people.

        Returns
        -------
        list of str
            A line for the job, one for each table, and one for bad rows if there are any.
        """
        at = "in the full copy" if self.confirmed_lsn is None else _place(self.confirmed_lsn)
        lines = [f"{self.name}: {at} ({self.connector})", *map(_line, self.tables)]
        if self.errors:
            lines.append(f"{self.errors} bad rows are in the table of errors")
        return lines


def _line(table: SyncedTable) -> str:
    start = f"{table.relation} -> {table.target}: {table.status.value}"
    if table.status is Status.COPYING:
        return start
    at = "no change yet" if table.position is None else _place(table.position)
    return f"{start}, {at}"


def _place(position: int) -> str:
    return f"at {position_text(position)}"
