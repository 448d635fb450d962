"""What a task of `cdc_apply` does: it reads the records of its partition, and writes their rows into files.

    Arrow batches ─► Records ─► Changes ─► StateRows ─► files        CdcMessage(files, bad records, counts)
                                   └─ the table lacks a column ─►    CdcMessage(forms), without files

A task has all records of a partition of the topic, in their order, so it knows the last state of each of their keys.
In: batches with the columns key, value and, of Kafka, partition and offset. Raises what `widetable_cdc` raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from widetable import CommitMessage, Table
from widetable_cdc.debezium.bad_records import joined
from widetable_cdc.debezium.connect_schema import RecordForm
from widetable_cdc.debezium.debezium_apply import DebeziumJob
from widetable_cdc.debezium.last_delete import LastDelete
from widetable_cdc.debezium.records import Records
from widetable_cdc.debezium.target_columns import table_change
from widetable_spark.startup.worker_heap import settle

PARTITION: Final = "partition"
OFFSET: Final = "offset"
# The number of a record: its partition, and 44 bits of its offset.
_OFFSET_BITS: Final = 44


@dataclass(frozen=True)
class CdcMessage:
    """What a task has done. forms: of the records, in their order. partitions: those that the records came from. bad:
    records that cannot be applied. needs_table: whether nothing was written, because the table lacks what the forms
    have. files: what it wrote, not committed yet. has_truncate: whether there was a truncate. last_delete: the delete
    that ended the records, if any.
    """

    forms: tuple[RecordForm, ...]
    partitions: frozenset[int]
    bad: pa.Table
    needs_table: bool = False
    files: tuple[CommitMessage, ...] = ()
    has_truncate: bool = False
    last_delete: LastDelete | None = None


@dataclass(frozen=True)
class CdcTask:
    """Writes the rows of one partition; picklable. table: None if there is none yet. sequence_base, schema_id: what all
    tasks of a batch share.
    """

    job: DebeziumJob
    table: Table | None
    sequence_base: int
    schema_id: int

    def write(self, batches: Iterator[pa.RecordBatch]) -> CdcMessage:
        """Write all rows of the task. If it fails, it deletes the files that it has written."""
        settle()
        partitions: set[int] = set()
        changes = self.job.read(_records(batches, partitions), self.table)
        message = CdcMessage(changes.forms, frozenset(partitions), joined(changes.bad))
        if not changes.batches:
            return message
        if self.table is None or self._lacks(self.table, changes.forms):
            return replace(message, needs_table=True)
        rows = self.job.state_rows(self.table, changes)
        context = TaskContext.get()
        with self.table.new_writer(
            rows.columns,
            task=context.partitionId() if context else 0,
            tasks=None,
            sequence_base=self.sequence_base,
            schema_id=self.schema_id,
        ) as writer:
            for batch in rows.batches():
                writer.write(batch)
            files = tuple(writer.finish())
        bad = joined([message.bad, *rows.bad])
        return replace(
            message,
            files=files,
            bad=bad,
            has_truncate=rows.has_truncate,
            last_delete=changes.last_delete,
        )

    @staticmethod
    def _lacks(table: Table, forms: tuple[RecordForm, ...]) -> bool:
        return bool(table_change(forms, table.arrow_schema, table.schema.primary_keys))


def _records(batches: Iterator[pa.RecordBatch], partitions: set[int]) -> Iterator[Records]:
    """Yield the records of a task. Those of Kafka are numbered by partition and offset, others from 0.

    partitions: gets those of the records; 0 for files.
    """
    first = 0
    for batch in batches:
        names = batch.schema.names
        if PARTITION in names and OFFSET in names:
            numbers = np.asarray(batch.column(PARTITION)).astype(np.int64)
            partitions.update(np.unique(numbers).tolist())
            ordinals = (numbers << _OFFSET_BITS) | np.asarray(batch.column(OFFSET))
        else:
            ordinals = np.arange(first, first + batch.num_rows, dtype=np.int64)
            first += batch.num_rows
            partitions.add(0)
        keys = batch.column("key") if "key" in names else None
        yield Records.of(keys, batch.column("value"), ordinals)
