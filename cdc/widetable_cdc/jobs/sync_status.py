"""What a job says of itself: its tables, the log that it has read, and the log that the server holds for it. Pure.

shop: log at 0/1A2B3C8, server at 0/1A2B3C8, 0 B behind, 24.0 KiB held (reserved)
public.orders -> shop.orders: streaming, at 0/1A2B3C8
public.users -> shop.users: copying, 3 of 8 chunks
public.tags -> shop.tags: parked: the key column id changed its type. widetable cdc resume FILE public.tags --recopy
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from widetable.connector import size_text
from widetable_cdc.jobs.followed_states import Status
from widetable_cdc.source.lsn import lsn_text


@dataclass(frozen=True)
class SyncedTable:
    """A table. position: the LSN that its target has; None before the first. chunks, chunks_done: of the full copy."""

    relation: str
    target: str
    status: Status
    reason: str
    position: int | None
    chunks: int
    chunks_done: int

    def line(self) -> str:
        """Return the state as one line."""
        start = f"{self.relation} -> {self.target}: {self.status.value}"
        if self.status is Status.COPYING:
            return f"{start}, {self.chunks_done} of {self.chunks} chunks"
        if self.status in (Status.PARKED, Status.PAUSED):
            return f"{start}: {self.reason}. widetable cdc resume FILE {self.relation} --recopy"
        at = "no change yet" if self.position is None else f"at {lsn_text(self.position)}"
        return f"{start}, {at}"


@dataclass(frozen=True)
class SyncStatus:
    """A job. confirmed_lsn: the slot may forget the log up to here. wal_status: of the slot; None without a slot.

    behind_bytes: between the confirmed position and the server's. errors: the number of rows in the table of bad rows.
    """

    name: str
    confirmed_lsn: int | None
    server_lsn: int
    held_bytes: int
    wal_status: str | None
    errors: int
    tables: tuple[SyncedTable, ...]

    @property
    def behind_bytes(self) -> int:
        return 0 if self.confirmed_lsn is None else max(0, self.server_lsn - self.confirmed_lsn)

    @property
    def needs_attention(self) -> bool:
        """Whether somebody must act: a table is parked, or the slot is in danger."""
        is_parked = any(one.status is Status.PARKED for one in self.tables)
        return is_parked or self.wal_status in ("unreserved", "lost")

    def lines(self) -> list[str]:
        """Return the state as lines for people."""
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
        """Return the state as values of JSON."""
        value = asdict(self) | {"behind_bytes": self.behind_bytes}
        value["tables"] = [{**asdict(one), "status": one.status.value} for one in self.tables]
        return value
