"""One chunk of the full copy as a task: plan it here, carry it out in any thread or process, commit it here.

    the job     next_task(table) ─► ChunkTask, pickled to where it runs
    anywhere    task.run(): BEGIN, LOCK, snapshot ─► does it count? ─► rows ─► files ─► ChunkFiles, pickled to the job
    the job     CapturedTable.commit_chunk ─► one snapshot of the target ─► the state of the chunk

A task is a function of its values: it opens connections and the target by itself. One that is killed, or that runs
twice, leaves files that no snapshot names. No round is applied to a table between the plan of a task and its commit:
the snapshot must see what was applied when the task was planned, and a round behind it could bring a change that the
snapshot does not see. What is committed later counts as later, so chunks may be committed in any order.

`run` raises nothing that a person must act on: such an error is its outcome, so that a failed chunk ends no other one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import Catalog, WidetableError
from widetable_cdc.applying.chunk_files import ChunkFiles
from widetable_cdc.applying.error_rows import KeptErrors
from widetable_cdc.applying.target import WriteNumbers
from widetable_cdc.copying.chunk_states import ChunkState
from widetable_cdc.copying.visibility import counts
from widetable_cdc.jobs.captured_table import CapturedTable
from widetable_cdc.jobs.clock_barriers import ClockBarriers
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.jobs.followed_states import FollowedState
from widetable_cdc.jobs.target_table import opened
from widetable_cdc.source.chunk_rows import read_chunk

# What became of a chunk: its files; None where the snapshot was too old to count; or why it cannot be read.
ChunkOutcome = ChunkFiles | WidetableError | None


@dataclass(frozen=True)
class ChunkTask:
    """Reads one chunk, and writes its rows into files; picklable, and its text holds no secret.

    state: of the table. database: of the source. position, may_hold_rows, applied, floor_xid: of the `CapturedTable`
    when the task was planned. numbers: of the target's commit.
    """

    config: SyncConfig
    state: FollowedState
    database: str
    chunk: ChunkState
    position: int
    may_hold_rows: bool
    applied: npt.NDArray[np.uint32]
    floor_xid: int
    numbers: WriteNumbers

    @property
    def key(self) -> tuple[int, int]:
        """The relation and the number of the chunk."""
        return self.chunk.relation, self.chunk.chunk

    def run(self) -> ChunkOutcome:
        """Read the chunk and write its files. If that fails, it deletes them; those of a killed process stay."""
        try:
            return self._read()
        except WidetableError as error:
            return error

    def _read(self) -> ChunkFiles | None:
        config, key_range = self.config, self.chunk.key_range
        catalog = Catalog(config.target.warehouse)
        errors = KeptErrors(catalog, config.target.database, config.name)
        barriers = ClockBarriers(config.user)
        table = opened(catalog, config, self.state, errors, barriers, self.database)
        dsn = config.source.dsn
        with read_chunk(dsn, config.name, table.source, table.selected(), key_range) as read:
            if not counts(read.snapshot, self.applied, self.floor_xid):
                return None
            replaces = None
            if self.may_hold_rows:
                replaces = table.condition(key_range)
            rows = _Counted(table.typed(read))
            messages = table.target.write_chunk(rows, self.position, replaces, self.numbers)
        bad = tuple(errors.rows)
        return ChunkFiles(read.snapshot, read.lsn, messages, bad, rows.rows, rows.bytes)


def next_task(
    table: CapturedTable, config: SyncConfig, database: str, reading: Collection[int]
) -> ChunkTask | None:
    """Plan the next chunk of a table that is copied; None if none may be read now. reading: chunks that are read."""
    assert table.plan is not None, "a table that is copied has a plan"
    # Two writers of dynamic buckets would put one key into two buckets.
    if reading and table.target.table.schema.num_buckets < 1:
        return None
    chunk = next((each for each in table.plan.to_read() if each.chunk not in reading), None)
    if chunk is None:
        return None
    return ChunkTask(
        config,
        table.state,
        database,
        chunk,
        position=table.position,
        may_hold_rows=table.may_hold_rows,
        applied=table.applied,
        floor_xid=table.floor_xid,
        numbers=WriteNumbers.taken(table.target.table),
    )


class _Counted:
    """Batches, counted while they are taken."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.rows = 0
        self.bytes = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.rows += batch.num_rows
            self.bytes += batch.nbytes
            yield batch
