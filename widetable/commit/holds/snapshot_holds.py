"""Who keeps snapshots from expiry besides tags and consumers: read leases, and pins of lookup joins.

A new pin is published while its publisher holds the snapshot by a read lease, which it releases afterwards. So leases
are looked at first, then pins: who has released the lease has a pin. Raises StorageError.
"""

from __future__ import annotations

from widetable.commit.holds.pin_file import forget_pins, noted_pins
from widetable.commit.holds.read_lease import forget_expired, noted_read_leases
from widetable.commit.notes.clock import Clock
from widetable.commit.notes.lease_term import LeaseState, NotedLease
from widetable.write.table_state import TableState


def kept_snapshots(table: TableState, clock: Clock | None = None) -> list[int]:
    """The first snapshots that somebody still needs, ascending; all later ones are needed too."""
    return sorted(one.snapshot_id for one in holds_in_force(table, clock) if one.snapshot_id)


def holds_in_force(table: TableState, clock: Clock | None = None) -> list[NotedLease]:
    """Leases and pins that keep snapshots now."""
    return [one for one in noted_holds(table, clock) if one.lease_state is LeaseState.ACTIVE]


def noted_holds(table: TableState, clock: Clock | None = None) -> list[NotedLease]:
    """Leases and pins that can be read, in force or not."""
    return [*noted_read_leases(table.file_io, table.paths, clock), *noted_pins(table, clock)]


def forget_holds(table: TableState, expired_for_millis: int, clock: Clock | None = None) -> None:
    """Remove what stopped to hold at least so long ago, and is of no use."""
    forget_expired(table.file_io, table.paths, expired_for_millis, clock)
    forget_pins(table, expired_for_millis, clock)
