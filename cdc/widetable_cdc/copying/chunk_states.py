"""States of the chunks of a table, and the rows of `<db>.__cdc_<name>` that keep them. Pure.

    relation  chunk  key_column  key_kind  low    high   status   snapshot     lsn
    16384     0      id          integer   null   5000   copied   750:760:755  24321
    16384     1      id          integer   5000   null   planned  null         null

The primary key of the rows is `KEY`. relation: the oid of the source's table, which a table of the same name that is
made later does not share. lsn: a position behind all that the snapshot sees, as an integer. `to_table` and
`from_table` are each other's inverse. Raises DamagedError for rows that no state has.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

import pyarrow as pa

from widetable import DamagedError, InvalidError
from widetable_cdc.source.chunk_range import ChunkRange, KeyKind
from widetable_cdc.source.source_snapshot import SourceSnapshot

KEY: Final = ("relation", "chunk")
SCHEMA: Final = pa.schema(
    [
        pa.field("relation", pa.int64(), nullable=False),
        pa.field("chunk", pa.int32(), nullable=False),
        pa.field("key_column", pa.string()),
        pa.field("key_kind", pa.string()),
        pa.field("low", pa.int64()),
        pa.field("high", pa.int64()),
        pa.field("status", pa.string()),
        pa.field("snapshot", pa.string()),
        pa.field("lsn", pa.int64()),
    ]
)


class ChunkStatus(Enum):
    """How far a chunk is: not read yet, or its rows are in the target."""

    PLANNED = "planned"
    COPIED = "copied"


@dataclass(frozen=True)
class ChunkState:
    """A chunk. snapshot, lsn: those of the read that is in the target; None while it is planned."""

    relation: int
    chunk: int
    key_range: ChunkRange
    snapshot: SourceSnapshot | None = None
    lsn: int | None = None

    def __post_init__(self) -> None:
        if (self.snapshot is None) != (self.lsn is None):
            raise InvalidError(
                f"chunk {self.chunk} of the relation {self.relation}",
                found="a snapshot without its position, or the other way round",
                expected="both or none",
                action="Pass both as `read_chunk` gives them.",
            )

    @property
    def status(self) -> ChunkStatus:
        return ChunkStatus.PLANNED if self.snapshot is None else ChunkStatus.COPIED

    def copied(self, snapshot: SourceSnapshot, lsn: int) -> ChunkState:
        """Return the state after the rows of that snapshot are in the target."""
        return ChunkState(self.relation, self.chunk, self.key_range, snapshot, lsn)

    def planned(self) -> ChunkState:
        """Return the state of the chunk when it is to be read again."""
        return ChunkState(self.relation, self.chunk, self.key_range)


def to_table(states: Iterable[ChunkState]) -> pa.Table:
    """Return the rows of the states, n of them in the order given."""
    rows = [
        {
            "relation": state.relation,
            "chunk": state.chunk,
            "key_column": state.key_range.column if state.key_range.kind else None,
            "key_kind": state.key_range.kind.value if state.key_range.kind else None,
            "low": state.key_range.low,
            "high": state.key_range.high,
            "status": state.status.value,
            "snapshot": None if state.snapshot is None else str(state.snapshot),
            "lsn": state.lsn,
        }
        for state in states
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def from_table(table: pa.Table) -> tuple[ChunkState, ...]:
    """Return the states of the rows, by relation and chunk. Columns besides those of `SCHEMA` are left aside."""
    rows = table.select(SCHEMA.names).to_pylist()
    try:
        states = [
            ChunkState(
                row["relation"],
                row["chunk"],
                ChunkRange(
                    row["key_column"] or "",
                    KeyKind(row["key_kind"]) if row["key_kind"] else None,
                    row["low"],
                    row["high"],
                ),
                SourceSnapshot.parse(row["snapshot"]) if row["snapshot"] is not None else None,
                row["lsn"],
            )
            for row in rows
        ]
        agree = [
            row["status"] == state.status.value for row, state in zip(rows, states, strict=True)
        ]
    except (ValueError, InvalidError) as error:
        raise _damaged(str(error)) from error
    if not all(agree):
        raise _damaged(f"the status {rows[agree.index(False)]['status']!r} beside another snapshot")
    return tuple(sorted(states, key=lambda state: (state.relation, state.chunk)))


def _damaged(found: str) -> DamagedError:
    return DamagedError(
        "the states of chunks",
        found=found,
        expected="rows as the job writes them",
        action="Delete the rows of the relation, so that the table is copied again.",
    )
