"""Holds on snapshots besides tags and consumers: read leases, and pins of lookup joins keep snapshots from expiry.

A new pin is published while its publisher has a read lease on the snapshot, which it releases afterwards. So leases are
read first, then pins: a publisher that has released its lease has a pin. Raises StorageError.
"""

from __future__ import annotations

from widetable.commit.holds.pin_file import forget_pins, noted_pins
from widetable.commit.holds.read_lease import forget_expired, noted_read_leases
from widetable.commit.notes.clock import Clock
from widetable.commit.notes.lease_term import LeaseState, NotedLease
from widetable.write.table_state import TableState


def kept_snapshots(table: TableState, clock: Clock | None = None) -> list[int]:
    """Return the snapshots that holds keep, ascending; each also keeps all later snapshots."""
    return sorted(one.snapshot_id for one in holds_in_force(table, clock) if one.snapshot_id)


def holds_in_force(table: TableState, clock: Clock | None = None) -> list[NotedLease]:
    """Return the leases and pins that are active."""
    return [one for one in noted_holds(table, clock) if one.lease_state is LeaseState.ACTIVE]


def noted_holds(table: TableState, clock: Clock | None = None) -> list[NotedLease]:
    """Return the leases and pins that can be read, active or not."""
    return [*noted_read_leases(table.file_io, table.paths, clock), *noted_pins(table, clock)]


def forget_holds(table: TableState, expired_for_millis: int, clock: Clock | None = None) -> None:
    """Remove leases and pins that ended at least so long ago and are no longer needed."""
    forget_expired(table.file_io, table.paths, expired_for_millis, clock)
    forget_pins(table, expired_for_millis, clock)
