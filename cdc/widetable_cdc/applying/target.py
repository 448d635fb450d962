"""Targets: tables that changes of a source are applied to, each commit once.

    BarrierTarget   a table under barriers; `barrier_line` says which barrier a round belongs to
    PlainTarget     a table without barriers

Either is a mirror of a table of the source, or a group of a wide table, which other streams fill as well.

A round is one commit with the commit user `cdc/<job>`, the LSN of its end as identifier, and the snapshot property
`widetable.cdc.lsn`. The position of a target is its last identifier: the table has all rounds up to there, and a
repeated round commits nothing. A chunk of the full copy has no identifier. It replaces its range, so it may be
repeated.

A chunk under barriers belongs to the barrier that is open, so a session does not show a half copied table, and plain
scans do.

A group takes the LSN into its sequence column, and a -D empties the group alone: the row stays, with nulls in the
group. So a table in which deletes of this group remove whole rows is refused.

Raises InvalidError for such a table, and what writes raise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from widetable import (
    BarrierWriter,
    Catalog,
    CommitMessage,
    CommitResult,
    ConflictError,
    InvalidError,
    Table,
    UnsupportedError,
)
from widetable.connector import ROW_KIND_COLUMN, last_identifier
from widetable_cdc.applying.barrier_line import BarrierLine
from widetable_cdc.applying.last_states import INSERTED
from widetable_cdc.applying.round_rows import Round, RoundRows, deletes, live_keys

LSN_PROPERTY: Final = "widetable.cdc.lsn"
_REMOVING: Final = "partial-update.remove-record-on-sequence-group"


@dataclass(frozen=True)
class WriteNumbers:
    """What the process that commits takes for those that write. sequence_base: of the rows. schema_id: of the names."""

    sequence_base: int
    schema_id: int

    @classmethod
    def taken(cls, table: Table) -> WriteNumbers:
        """Return the numbers of a commit that begins now."""
        return cls(table.sequence_base(), table.schema.id)


class Target(Protocol):
    """A table to which rounds and chunks are applied. One thread uses it."""

    @property
    def table(self) -> Table:
        """The table that rows go to."""

    def position(self) -> int | None:
        """Return the LSN up to which the table has the changes, read now; None if it never had a round."""

    def apply(self, round: Round) -> CommitResult:
        """Commit a round: once, however often it is repeated.

        Changes up to the position are not to be in it. A round that ends below the position is refused: its log is not
        the one that the table has.
        """

    def copy(
        self, rows: Iterable[pa.RecordBatch], lsn: int, replaces: pc.Expression | None = None
    ) -> CommitResult:
        """Commit a chunk of the full copy.

        rows: all rows of the range, with the key. lsn: the target's position when the chunk's snapshot was taken, so
        that changes that the snapshot does not see are later, and those that were applied are not. replaces: the range
        as a condition on keys, if rows of it may be there; live keys of it that `rows` lacks are deleted.
        """

    def write_chunk(
        self,
        rows: Iterable[pa.RecordBatch],
        lsn: int,
        replaces: pc.Expression | None,
        numbers: WriteNumbers,
    ) -> tuple[CommitMessage, ...]:
        """Write the files of a chunk, and commit nothing; any process may do so. rows, lsn, replaces: as in `copy`."""

    def commit_chunk(self, files: Sequence[CommitMessage]) -> CommitResult:
        """Commit the files of a chunk. They are deleted where the commit certainly fails."""

    def complete(self, barrier: int) -> CommitResult | None:
        """Declare that the table has all records up to a barrier; None where nothing is committed for it."""


class _TableTarget(ABC):
    """What both have in common. sequence: the column that takes the LSN, for a group of a partial-update table."""

    def __init__(self, table: Table, user: str, sequence: str | None) -> None:
        """Check that deletes of a group leave the other columns of a row alone."""
        self._table = table
        self._user = user
        self._sequence = sequence
        if sequence is not None:
            _check_group(table, sequence)

    @property
    def table(self) -> Table:
        """The table that rows go to."""
        return self._table

    def position(self) -> int | None:
        """Return the LSN up to which the table has the changes, read now; None if it never had a round."""
        return last_identifier(self._table, self._user)

    def copy(
        self, rows: Iterable[pa.RecordBatch], lsn: int, replaces: pc.Expression | None = None
    ) -> CommitResult:
        """Commit a chunk. A group gets the LSN as its sequence."""
        return self._write(_chunk(self._table, rows, replaces, self._sequence, lsn))

    def write_chunk(
        self,
        rows: Iterable[pa.RecordBatch],
        lsn: int,
        replaces: pc.Expression | None,
        numbers: WriteNumbers,
    ) -> tuple[CommitMessage, ...]:
        """Write the files of a chunk. A group gets the LSN as its sequence."""
        chunk = _chunk(self._table, rows, replaces, self._sequence, lsn)
        return _written(self._table, chunk, numbers)

    def commit_chunk(self, files: Sequence[CommitMessage]) -> CommitResult:
        """Commit the files of a chunk."""
        with _discarded(self._table, files):
            return self._commit(files)

    def _rows(self, round: Round) -> Iterator[pa.RecordBatch]:
        return RoundRows(self._table, round, self._sequence).batches()

    @abstractmethod
    def _write(self, chunk: Iterator[pa.RecordBatch]) -> CommitResult:
        """Commit the rows of a chunk."""

    @abstractmethod
    def _commit(self, files: Sequence[CommitMessage]) -> CommitResult:
        """Commit the files of a chunk."""


class BarrierTarget(_TableTarget):
    """A table under barriers. Chunks are records of the open barrier."""

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        user: str,
        line: BarrierLine,
        group: Sequence[str] | None = None,
        sequence: str | None = None,
    ) -> None:
        """Open the table. user: `cdc/<job>`. With the first commit an older process of it is refused.

        line: which barriers rounds belong to. group: the columns that the job fills in a table of others, with
        `sequence` among them, the column that takes the LSN; None for a table that the job fills alone.
        """
        super().__init__(catalog.table(name), user, sequence)
        self.line = line
        self._join = partial(catalog.writer, name, user, group)
        self._joined: BarrierWriter | None = None

    def apply(self, round: Round) -> CommitResult:
        """Commit a round, and complete its barrier if the line says so, unless the table is still copied."""
        return self._writer.write(
            self._rows(round),
            identifier=round.lsn,
            barrier=self.line.of_round(round.lsn),
            complete=round.completes and self.line.completes_rounds,
            properties={LSN_PROPERTY: str(round.lsn)},
        )

    def complete(self, barrier: int) -> CommitResult | None:
        """Declare that the table has all records of the job up to a barrier."""
        return self._writer.complete(barrier)

    def _write(self, chunk: Iterator[pa.RecordBatch]) -> CommitResult:
        return self._writer.write(chunk, barrier=self.line.open_barrier)

    def _commit(self, files: Sequence[CommitMessage]) -> CommitResult:
        return self._writer.commit_append(files, barrier=self.line.open_barrier)

    # Joining is a commit: a job that starts and has nothing to write makes none.
    @property
    def _writer(self) -> BarrierWriter:
        if self._joined is None:
            self._joined = self._join()
        return self._joined


class PlainTarget(_TableTarget):
    """A table without barriers."""

    def __init__(self, table: Table, user: str, sequence: str | None = None) -> None:
        """Take the table. user: `cdc/<job>`. sequence: the column that takes the LSN, for a group."""
        super().__init__(table, user, sequence)

    def apply(self, round: Round) -> CommitResult:
        """Commit a round."""
        properties = {LSN_PROPERTY: str(round.lsn)}
        return self._table.write(self._rows(round), self._user, round.lsn, properties=properties)

    def complete(self, barrier: int) -> None:
        """Do nothing: without barriers nobody waits for it."""

    def _write(self, chunk: Iterator[pa.RecordBatch]) -> CommitResult:
        return self._table.write(chunk, self._user)

    def _commit(self, files: Sequence[CommitMessage]) -> CommitResult:
        return self._table.commit_append(files, self._user)


def _chunk(
    table: Table,
    rows: Iterable[pa.RecordBatch],
    replaces: pc.Expression | None,
    sequence: str | None = None,
    lsn: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a chunk, then a -D for each live key of its range that they lack.

    Of the rows only the keys are kept until then.
    """
    key = list(table.schema.primary_keys)
    names: list[str] = []
    read: list[pa.RecordBatch] = []
    for batch in rows:
        names = [name for name in batch.schema.names if name not in key]
        if replaces is not None:
            read.append(batch.select(key))
        columns = {name: batch.column(name) for name in (*key, *names)}
        if sequence is not None:
            columns[sequence] = pa.repeat(pa.scalar(lsn, pa.int64()), batch.num_rows)
        columns[ROW_KIND_COLUMN] = pa.repeat(pa.scalar(INSERTED), batch.num_rows)
        yield pa.RecordBatch.from_pydict(columns)
    if replaces is None:
        return
    there = pa.Table.from_batches(read) if read else None
    for keys in live_keys(table, sequence, replaces):
        gone = keys if there is None else _missing(keys, there)
        if gone.num_rows:
            yield deletes(gone, names, table, sequence, lsn)


def _written(
    table: Table, batches: Iterator[pa.RecordBatch], numbers: WriteNumbers
) -> tuple[CommitMessage, ...]:
    """Write the files of batches. If that fails, none is left."""
    first = next(batches, None)
    if first is None:
        return ()
    writer = table.new_writer(
        first.schema.names,
        sequence_base=numbers.sequence_base,
        named=True,
        schema_id=numbers.schema_id,
    )
    with writer:
        writer.write(first)
        for batch in batches:
            writer.write(batch)
        return tuple(writer.finish())


@contextmanager
def _discarded(table: Table, files: Sequence[CommitMessage]) -> Iterator[None]:
    """Delete files where their commit certainly did not happen."""
    try:
        yield
    except (ConflictError, InvalidError, UnsupportedError):
        table.discard(files)
        raise


def _missing(keys: pa.RecordBatch, there: pa.Table) -> pa.RecordBatch:
    """Return the keys that are not there."""
    there = there.cast(keys.schema)
    left = pa.Table.from_batches([keys]).join(there, keys=keys.schema.names, join_type="left anti")
    batches = left.combine_chunks().to_batches()
    return batches[0] if batches else keys.slice(0, 0)


def _check_group(table: Table, sequence: str) -> None:
    """Refuse a column that orders no group, and one by which a -D removes the rows of other groups, too."""
    options = table.schema.options
    removing = options.get(_REMOVING, "").split(",")
    if f"fields.{sequence}.sequence-group" in options and sequence not in removing:
        return
    is_group = f"fields.{sequence}.sequence-group" in options
    raise InvalidError(
        f"table {table.path}",
        found=f"{_REMOVING} = {options[_REMOVING]!r}"
        if is_group
        else f"no option 'fields.{sequence}.sequence-group'",
        expected=f"a group that {sequence!r} alone orders, and whose deletes leave the other columns alone",
        action="Give the source a sequence group of its own in this table.",
    )
