"""Files of pins of lookup joins: their content, and how long they keep a snapshot.

On disk (other clients ignore these files), one file per query, join and batch:

    service/widetable-lookup-pin-<query id>-<join>-<batch id> = JSON object
        {"snapshot_id": the snapshot that the batch joins, or 0: the table had none,
         "schema_id", "time_millis": of that snapshot, 0 without one,
         "partitions": the BinaryRows of those that it joins in hex digits, newest first, between commas, or null: all,
         "others": only if the join reads other tables: <role in the join>:<snapshot id, or 0>:<time_millis>,..
         "expires_millis": wall clock since the epoch}

A pin whose time is up keeps nothing, but still records the snapshot: the newest pin of a join stays for a year after
its time as the mark of how far the query has come. `lookup_pin` describes who makes pins, and when. Raises DamagedError
for a pin that cannot be read, StorageError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.json_note import JsonNote, is_id, is_text, is_whole
from widetable.commit.notes.lease_term import Hold, LeaseState, NotedLease, read_hold
from widetable.errors import DamagedError
from widetable.schema.retention_options import LOOKUP_PIN_RETENTION
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths, lookup_pin_of
from widetable.write.table_state import TableState

# How long a pin whose time is up stays as a mark.
_MARK_MILLIS: Final = 365 * 86_400_000
# index:7:2000,pending:0:0
_OTHERS: Final = re.compile(r"^([a-z]+:\d{1,18}:-?\d{1,18}(,(?!$)|$))+$")
# The suffix of a series that marks a hold (`lookup_pin`).
_HOLD: Final = re.compile(r"@[0-9a-f]{32}$")


def _is_snapshot(value: Any) -> bool:
    return (value == 0 and is_whole(value)) or is_id(value)


def _is_partitions(value: Any) -> bool:
    if value is None:
        return True
    try:
        return is_text(value) and bool([bytes.fromhex(row) for row in value.split(",")])
    except ValueError:
        return False


def _is_others(value: Any) -> bool:
    return value is None or (is_text(value) and _OTHERS.match(value) is not None)


_NOTE: Final = JsonNote(
    "pin of a lookup join",
    {
        "snapshot_id": _is_snapshot,
        "schema_id": is_whole,
        "time_millis": is_whole,
        "partitions": _is_partitions,
        "others": _is_others,
        "expires_millis": is_whole,
    },
    "Delete the file if its batch may join the newest snapshot; else start the query with a new checkpoint.",
)


class OtherSnapshot(NamedTuple):
    """The snapshot of another table that the join reads. role: of the table in the join. snapshot_id: 0 without one."""

    role: str
    snapshot_id: int
    time_millis: int


@dataclass(frozen=True)
class LookupPin:
    """The snapshots that a batch joins.

    Attributes
    ----------
    snapshot_id, schema_id, time_millis : int
        The snapshot of the joined table, its schema and its time; 0 if the table had none.
    partitions : tuple of bytes or None
        The partitions as BinaryRows, newest first. None: all.
    others : tuple of OtherSnapshot
        The snapshots of an index and of waiting rows.
    """

    snapshot_id: int
    schema_id: int
    time_millis: int
    partitions: tuple[bytes, ...] | None
    others: tuple[OtherSnapshot, ...] = ()

    def other(self, role: str) -> OtherSnapshot:
        """Return the snapshot of another table.

        Parameters
        ----------
        role : str
            The role of the table.

        Returns
        -------
        OtherSnapshot
            Its snapshot, with id 0 for none.
        """
        nothing = OtherSnapshot(role, 0, 0)
        return next((other for other in self.others if other.role == role), nothing)

    def other_id(self, role: str) -> int:
        """Return the id of the snapshot of another table.

        Parameters
        ----------
        role : str
            The role of the table.

        Returns
        -------
        int
            The id; 0 for none.
        """
        return self.other(role).snapshot_id


# The pin of a table without snapshots: the join finds no rows.
NO_SNAPSHOT: Final = LookupPin(0, 0, 0, None)


def hold_series(series: str, token: str) -> str:
    """Return the series of a hold. token: 32 hex digits."""
    return f"{series}@{token}"


def pinned_series(series: str) -> str:
    """Return the series of a pin, without the token of a hold."""
    return _HOLD.sub("", series)


def pinned_snapshots(table: TableState, clock: Clock | None = None) -> list[int]:
    """Return the snapshots that active pins keep, ascending."""
    pins = noted_pins(table, clock)
    return sorted(
        pin.snapshot_id for pin in pins if pin.lease_state is LeaseState.ACTIVE and pin.snapshot_id
    )


def forget_pins(
    table: TableState, expired_for_millis: int, clock: Clock | None = None
) -> list[str]:
    """Remove pins that ceased to keep snapshots at least so long ago, also unreadable ones; return their paths.

    The newest pin of a join stays for a year.
    """
    clock = clock or SystemClock()
    now_millis = clock.now_nanos() // 1_000_000
    pins = list(_pins(table, clock))
    newest: dict[str, int] = {}
    for series, batch_id, _ in pins:
        newest[series] = max(batch_id, newest.get(series, 0))
    removed = []
    for series, batch_id, pin in pins:
        is_mark = batch_id == newest[series] and not _HOLD.search(series)
        least_millis = max(expired_for_millis, _MARK_MILLIS if is_mark else 0)
        if pin.ended_millis is None or now_millis - pin.ended_millis < least_millis:
            continue
        if table.file_io.delete(pin.path):
            removed.append(pin.path)
    return removed


def noted_pins(table: TableState, clock: Clock | None = None) -> list[NotedLease]:
    """Return all pins that can be read, active or not. owner: the query and its join."""
    pins = _pins(table, clock)
    return [pin.noted._replace(owner=series) for series, _, pin in pins if pin.noted is not None]


def damaged_pins(file_io: FileIO, paths: TablePaths) -> list[DamagedError]:
    """Return an error for each pin that cannot be read."""
    return _NOTE.damaged(file_io, (path for path, *_ in pin_files(file_io, paths)))


def pin_to_json(path: str, pin: LookupPin, expires_millis: int) -> bytes:
    """Return the bytes of the file of a pin."""
    rows = None if pin.partitions is None else ",".join(row.hex() for row in pin.partitions)
    others = ",".join(f"{o.role}:{o.snapshot_id}:{o.time_millis}" for o in pin.others)
    values = {
        "snapshot_id": pin.snapshot_id,
        "schema_id": pin.schema_id,
        "time_millis": pin.time_millis,
        "partitions": rows,
        **({"others": others} if others else {}),
        "expires_millis": expires_millis,
    }
    return _NOTE.to_json(path, values)


def read_pin(file_io: FileIO, path: str) -> LookupPin | None:
    """Read a pin; None if there is no file."""
    values = _NOTE.read(file_io, path)
    if values is None:
        return None
    rows = values["partitions"]
    partitions = None if rows is None else tuple(map(bytes.fromhex, filter(None, rows.split(","))))
    parts = [each.split(":") for each in (values["others"] or "").split(",") if each]
    others = tuple(OtherSnapshot(role, int(id), int(millis)) for role, id, millis in parts)
    return LookupPin(
        values["snapshot_id"], values["schema_id"], values["time_millis"], partitions, others
    )


def _pins(table: TableState, clock: Clock | None) -> Iterator[tuple[str, int, Hold]]:
    """Yield (series, batch id, content) of all pins."""
    file_io, clock = table.file_io, clock or SystemClock()
    # The longest duration of a pin.
    longest_millis = table.options.get(LOOKUP_PIN_RETENTION)
    for path, series, batch_id, millis in pin_files(file_io, table.paths):
        pin = read_hold("pin", _NOTE, file_io, path, millis, longest_millis, clock)
        if pin is not None:
            yield series, batch_id, pin


def pin_files(file_io: FileIO, paths: TablePaths) -> list[tuple[str, str, int, int]]:
    """Return (path, series, batch id, modified_millis) of all pins and holds."""
    files = []
    for entry in file_io.list(paths.service_dir):
        named = lookup_pin_of(entry.name)
        if named is not None:
            path = f"{paths.service_dir}/{entry.name}"
            files.append((path, *named, entry.modified_millis))
    return files
