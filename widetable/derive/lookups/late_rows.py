"""Left rows without a match wait for one: the next batches retry them, then they are output as misses.

    batch b reads the pending table at the snapshot P(b) of its pin, which was chosen before anything of b was written

    rows of b              without a match: stored as (join, key, b); no output yet
    rows of P(b), of any   with a match: output and deleted            one evaluation of the batch does this: the
    batch a < b            b >= a + n: output as misses and deleted    caller elects it
                           otherwise they stay

Output and writes depend only on P(b), the pinned snapshot of the joined table and the rows of b: a replay, with other
partitions too, gives the same. Every write is committed on the condition that nobody wrote its keys after P(b)
(`touched_rows`): of several equal writes the first one counts, and a late write of an earlier batch is dropped. The
decision about a waiting row is written before the row is output.

The key must distinguish the rows of a batch and must not be null, else InvalidError. Two rows of a batch with the same
key are detected within one piece of a task. Elsewhere they are detected unless they are equal in all columns: equal
rows count as one row that was replayed. A row with a null in a column of the join can never match: it is a miss at
once. Raises what joins, reads and commits raise.

    n = 2      batch 5: row x has no match, stored as (join, x, 5)    6: no match either, it stays    7: output

    batch 6              has a match for x: deletes it ── killed, x was not output ──
    batch 6, a replay    x is in P(6): output; its deletion is left out, because it is committed already
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.commit.holds.lookup_pin import PinnedBatch
from widetable.commit.holds.pin_file import LookupPin
from widetable.commit.transaction.commit_identity import Identity
from widetable.derive.changes.row_difference import equal_rows
from widetable.derive.changes.touched_rows import append_untouched
from widetable.derive.lookups.joined_tables import PENDING, LookupJoin
from widetable.derive.lookups.late_table import BATCH, JOIN, LateTable
from widetable.derive.lookups.pinned_join import KeptJoin, PinnedJoin
from widetable.errors import InvalidError
from widetable.format.row_budget import memory_bytes
from widetable.operations.queries.table_at import scan_at, view_at
from widetable.read.filters import parse
from widetable.schema.table_schema import ROW_KIND_COLUMN

_Mask: TypeAlias = npt.NDArray[np.bool_]

# The limits of one piece; each piece is one commit to the pending table.
_PIECE_ROWS: Final = 1 << 16
_PIECE_BYTES: Final = 64 << 20


class LateJoin:
    """The join of one batch, or of a part of its rows, in which rows without a match wait."""

    def __init__(
        self, join: LookupJoin, batch: PinnedBatch, pin: LookupPin, kept: KeptJoin | None = None
    ) -> None:
        assert join.late is not None
        self._late: LateTable = join.late
        self._join = PinnedJoin(join, pin, kept)
        self._left = [name for name, _ in join.plan.keys]
        self._batch = batch
        self._read_id = pin.other_id(PENDING)
        self._notes: list[pa.Table] = []
        self._rows = self._bytes = 0

    def joined(
        self, batches: Iterable[pa.RecordBatch], *, is_elected: bool
    ) -> Iterator[pa.RecordBatch]:
        """Yield joined rows, see `PinnedJoin.joined`. is_elected: output the waiting rows first, once per batch."""
        if is_elected:
            for rows in self._join.joined(self._waiting(), self._retry):
                self._write()
                yield rows.select([name for name in rows.schema.names if name != BATCH])
            self._write()
        yield from self._join.joined(batches, self._first_try)
        self._write()

    def _waiting(self) -> Iterator[pa.RecordBatch]:
        """Return the waiting rows of this join at P(b), with their batches."""
        table = self._late.table
        schema = table.schema
        names = [name for name in schema.names if name != JOIN]
        own_rows = parse(pc.field(JOIN) == pc.scalar(self._batch.series), schema)
        scan = scan_at(table, self._read_id, names, own_rows)
        return iter(scan.to_batches())

    def _retry(self, rows: pa.RecordBatch, has_match: _Mask) -> _Mask:
        """Return bool[n]: the waiting rows that go on waiting. Note the deletion of the others."""
        last = rows.column(BATCH).to_numpy() + self._late.batches
        waits: _Mask = ~has_match & (self._batch.batch_id < last)
        over = rows.filter(pa.array(~waits))
        self._note(over, over.column(BATCH), "-D")
        return waits

    def _first_try(self, rows: pa.RecordBatch, has_match: _Mask) -> _Mask:
        """Return bool[n]: the rows of this batch that begin to wait. Note their insertion."""
        waits = ~has_match
        for name in self._left:
            waits &= np.asarray(rows.column(name).is_valid().to_numpy(zero_copy_only=False))
        chosen = rows.filter(pa.array(waits))
        batches = pa.repeat(pa.scalar(self._batch.batch_id, pa.int64()), chosen.num_rows)
        self._note(chosen, batches, "+I")
        return waits

    def _note(self, rows: pa.RecordBatch, batches: pa.Array, kind: str) -> None:
        if not rows.num_rows:
            return
        names = [name for name in rows.schema.names if name != BATCH]
        noted = pa.Table.from_batches([rows.select(names)])
        for name, value in ((JOIN, self._batch.series), (ROW_KIND_COLUMN, kind)):
            noted = noted.append_column(name, pa.repeat(pa.scalar(value), rows.num_rows))
        self._notes.append(noted.append_column(BATCH, batches).replace_schema_metadata(None))
        self._rows += rows.num_rows
        self._bytes += memory_bytes(rows)
        if self._rows >= _PIECE_ROWS or self._bytes >= _PIECE_BYTES:
            self._write()

    def _write(self) -> None:
        """Commit the noted rows, deletions first.

        If fewer rows are written than noted, some were stored already: by an earlier try of this batch, or by a second
        row with the same key.
        """
        notes, self._notes, self._rows, self._bytes = self._notes, [], 0, 0
        for kind in ("-D", "+I"):
            of_kind = [each for each in notes if each.column(ROW_KIND_COLUMN)[0].as_py() == kind]
            if not of_kind:
                continue
            rows = pa.concat_tables(of_kind, promote_options="permissive")
            if kind == "+I":
                self._check_keys(rows)
            # The commit needs no identifier: its keys show whether it was published.
            written = append_untouched(
                self._late.table, rows, self._read_id, Identity.of(None, None)
            )
            if kind == "+I" and (written or 0) < rows.num_rows:
                self._check_same(rows)

    def _check_keys(self, rows: pa.Table) -> None:
        key = rows.column(self._late.key)
        if key.null_count:
            raise self._wrong_key("null")
        if pc.count_distinct(key).as_py() < rows.num_rows:
            twice = next(each for each in key.value_counts().to_pylist() if each["counts"] > 1)
            raise self._wrong_key(repr(twice["values"]))

    def _check_same(self, rows: pa.Table) -> None:
        """Raise InvalidError unless the stored rows are those of an earlier try of this batch."""
        table = self._late.table
        latest_id = table._committer.snapshots.latest_id()
        assert latest_id is not None
        with closing(view_at(table, latest_id, None)) as view:
            stored = view.lookup(rows.select(list(table.schema.primary_keys)))
        is_stored = np.asarray(stored.column(JOIN).is_valid().to_numpy(), np.bool_)
        ours = rows.select(stored.column_names).cast(stored.schema)
        differs = is_stored & ~equal_rows(ours, stored)
        if differs.any():
            raise self._wrong_key(repr(ours.column(self._late.key)[int(differs.argmax())].as_py()))

    def _wrong_key(self, value: str) -> InvalidError:
        return InvalidError(
            f"column {self._late.key!r} of the left rows, the pending_key",
            found=f"{value}, in {self._batch}"
            if value == "null"
            else f"two rows of {self._batch} with {value}",
            expected="a value that no other row of the batch has, and that is the same in a replay",
            action="Name a column that distinguishes the rows, or omit retry_batches.",
        )
