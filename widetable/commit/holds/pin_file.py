"""Files of pins of lookup joins: what stands in them, and for how long they hold it.

On disk (other clients never look there), one file per query, join of it and batch:

    service/widetable-lookup-pin-<query id>-<join>-<batch id> = JSON object
        {"snapshot_id": what the batch joins, or 0: the table had no snapshot,
         "schema_id", "time_millis": of that snapshot, 0 where there was none,
         "partitions": of those that it joins the BinaryRows in hex digits, newest first, between commas, or null: all,
         "others": where tables are read beside it, <what it is to the join>:<snapshot id, or 0>:<time_millis>,..
         "expires_millis": wall clock since the epoch}

A pin whose time is up holds nothing, but says what it pinned: the newest of a join stays for a year after its time, as
the mark of how far the query has come. `lookup_pin` says who makes pins, and when. Raises DamagedError for a pin that
cannot be read, StorageError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from widetable.commit.notes.clock import Clock, SystemClock
from widetable.commit.notes.json_note import JsonNote, is_id, is_text, is_whole
from widetable.commit.notes.lease_term import Held, LeaseState, NotedLease, held
from widetable.errors import DamagedError
from widetable.schema.retention_options import LOOKUP_PIN_RETENTION
from widetable.storage.file_io import FileIO
from widetable.storage.paths import TablePaths, lookup_pin_of
from widetable.write.table_state import TableState

# For how long a pin whose time is up stays as a mark.
_MARK_MILLIS: Final = 365 * 86_400_000
# index:7:2000,pending:0:0
_OTHERS: Final = re.compile(r"^([a-z]+:\d{1,18}:-?\d{1,18}(,(?!$)|$))+$")
# Behind a series: that it is a hold, and which one (`lookup_pin`).
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
    "Delete it if its batch may join the newest snapshot; else start the query with a new checkpoint.",
)


class OtherSnapshot(NamedTuple):
    """Of a table that is read beside the joined one. role: what it is to the join. snapshot_id: 0 where it had none."""

    role: str
    snapshot_id: int
    time_millis: int


@dataclass(frozen=True)
class LookupPin:
    """What a batch joins. snapshot_id: 0 where the table had none. partitions: BinaryRows, newest first; None: all."""

    snapshot_id: int
    schema_id: int
    time_millis: int
    partitions: tuple[bytes, ...] | None
    others: tuple[OtherSnapshot, ...] = ()

    def other(self, role: str) -> OtherSnapshot:
        """The snapshot of the table with this role."""
        nothing = OtherSnapshot(role, 0, 0)
        return next((other for other in self.others if other.role == role), nothing)

    def other_id(self, role: str) -> int:
        """Its id; 0 for none."""
        return self.other(role).snapshot_id


# Of a table that had none: nothing is found.
NO_SNAPSHOT: Final = LookupPin(0, 0, 0, None)


def hold_series(series: str, token: str) -> str:
    """Of a hold of a series. token: 32 hex digits."""
    return f"{series}@{token}"


def held_series(series: str) -> str:
    """The series whose pin or hold it is."""
    return _HOLD.sub("", series)


def pinned_snapshots(table: TableState, clock: Clock | None = None) -> list[int]:
    """The snapshots that pins hold which are in force, ascending."""
    found = noted_pins(table, clock)
    return sorted(
        pin.snapshot_id for pin in found if pin.lease_state is LeaseState.ACTIVE and pin.snapshot_id
    )


def forget_pins(
    table: TableState, expired_for_millis: int, clock: Clock | None = None
) -> list[str]:
    """Remove pins that stopped to hold at least so long ago, unreadable ones too, but no newest one of a join within
    a year; their paths.
    """
    clock = clock or SystemClock()
    now_millis = clock.now_nanos() // 1_000_000
    pins = list(_pins(table, clock))
    newest: dict[str, int] = {}
    for series, batch_id, _ in pins:
        newest[series] = max(batch_id, newest.get(series, 0))
    found = []
    for series, batch_id, pin in pins:
        is_mark = batch_id == newest[series] and not _HOLD.search(series)
        least_millis = max(expired_for_millis, _MARK_MILLIS if is_mark else 0)
        if pin.ended_millis is None or now_millis - pin.ended_millis < least_millis:
            continue
        if table.file_io.delete(pin.path):
            found.append(pin.path)
    return found


def noted_pins(table: TableState, clock: Clock | None = None) -> list[NotedLease]:
    """All that can be read, in force or not. owner: the query and its join."""
    found = _pins(table, clock)
    return [pin.noted._replace(owner=series) for series, _, pin in found if pin.noted is not None]


def damaged_pins(file_io: FileIO, paths: TablePaths) -> list[DamagedError]:
    """Pins that cannot be read."""
    return _NOTE.damaged(file_io, (path for path, *_ in pin_files(file_io, paths)))


def pin_to_json(path: str, pin: LookupPin, expires_millis: int) -> bytes:
    """The file of a pin."""
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
    """What a file says; None where there is none."""
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


def _pins(table: TableState, clock: Clock | None) -> Iterator[tuple[str, int, Held]]:
    """(series, batch id, what the file says) of all."""
    file_io, clock = table.file_io, clock or SystemClock()
    # For which a pin is made at most.
    longest_millis = table.options.get(LOOKUP_PIN_RETENTION)
    for path, series, batch_id, millis in pin_files(file_io, table.paths):
        found = held("pin", _NOTE, file_io, path, millis, longest_millis, clock)
        if found is not None:
            yield series, batch_id, found


def pin_files(file_io: FileIO, paths: TablePaths) -> list[tuple[str, str, int, int]]:
    """(path, series, batch id, modified_millis) of all."""
    found = []
    for entry in file_io.list(paths.service_dir):
        named = lookup_pin_of(entry.name)
        if named is not None:
            path = f"{paths.service_dir}/{entry.name}"
            found.append((path, *named, entry.modified_millis))
    return found
