"""A request that a lookup session has answered, as it is handed to a log of such requests.

In: what the session has at hand after the answer. Out: values; nothing is copied. `RequestLog` is what a session asks
of a log: it knows no more of it. Pure. Raises nothing.

    session.lookup([7, 9])        keys id 7, 9      values clicks 3, null      asked Lookup(clicks)
    session.windows([7], ..)      keys user 7       values clicks_7d 12        asked Windows(clicks_7d: ..)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa

from widetable.commit.snapshots.snapshot_mark import mark_of
from widetable.format.snapshot import Snapshot
from widetable.operations.windows.window import TimeWindow


class AnsweringSnapshot(NamedTuple):
    """The snapshot that answered, and the schema with which its rows were read.

    id: None for a table that had no snapshot. mark: tells it from another snapshot that has got its id.
    """

    id: int | None
    mark: str | None
    schema_id: int


class Lookup(NamedTuple):
    """What was asked: these columns of the rows."""

    columns: tuple[str, ...]


class CoarseTiles(NamedTuple):
    """A table of larger tiles that served a part of the windows. path: its directory. size: in microseconds."""

    path: str
    size: int
    answered: AnsweringSnapshot


class Windows(NamedTuple):
    """What was asked: features by their names in the answer. tile_size: in microseconds."""

    features: tuple[tuple[str, TimeWindow], ...]
    tile: str
    tile_size: int
    empty_zero: bool
    coarse: tuple[CoarseTiles, ...]


Asked: TypeAlias = Lookup | Windows


class ServedRequest(NamedTuple):
    """A request and its answer. keys: the key columns, in the types of the table; values: one row for each.

    at: the time for which the answer is, in microseconds.
    """

    keys: pa.RecordBatch
    values: pa.Table
    at: int
    asked: Asked
    answered: AnsweringSnapshot


class RequestLog(Protocol):
    """Where a session logs what it gave."""

    def check(self, keys: Sequence[pa.Field], values: Sequence[pa.Field]) -> None:
        """Make sure that the log takes these columns. Raises InvalidError that names one that does not fit."""

    def add(self, request: ServedRequest) -> None:
        """Log a request; raise if it cannot be kept."""

    def flush(self) -> None:
        """Write all requests so far; raise if that fails."""


def answering(snapshot: Snapshot | None, schema_id: int) -> AnsweringSnapshot:
    """Return what a log keeps of a snapshot."""
    if snapshot is None:
        return AnsweringSnapshot(None, None, schema_id)
    return AnsweringSnapshot(snapshot.id, mark_of(snapshot), schema_id)
