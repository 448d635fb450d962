"""One bucket of a table in memory: commits, partial merges and reads, by nothing but `widetable.merge`.

What a writer, compaction and a reader do with row batches, without files. Runs are in the order of their commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tests.support.models.model import Record, Row
from tests.support.models.plain_rows import python_rows
from widetable.format.projection import Projection
from widetable.format.row_batch import in_schema_order, row_batch_schema
from widetable.format.row_budget import BATCH_BYTES, pieces
from widetable.merge.engine import PartialMerge, engine_of
from widetable.merge.sorted_merge import collapse, merge_runs
from widetable.schema.row_kind import TEXTS, is_retraction, parse_texts
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema

Run = list[pa.RecordBatch]


class Bucket:
    """`runs` are the sorted runs, oldest first; `keeps_deletes` notes for the oldest whether anything was dropped."""

    def __init__(self, schema: TableSchema, batch_bytes: int = BATCH_BYTES) -> None:
        self.schema = schema
        self.engine = engine_of(schema)
        self.runs: list[Run] = []
        self.batch_bytes = batch_bytes
        self._next_number = 1

    def write(
        self,
        records: Sequence[Record],
        columns: Sequence[str] | None = None,
        batch_rows: int = 1000,
    ) -> None:
        """One commit of these records, of these columns (all by default), handed over in batches of batch_rows rows."""
        names = self.schema.names if columns is None else tuple(columns)
        self.engine.check_columns(self.schema, names)
        kept = [record for record in records if self._passes_filters(record)]
        batches = []
        for start in range(0, len(kept), batch_rows):
            batch = row_batch(
                self.schema, kept[start : start + batch_rows], names, self._next_number
            )
            self._next_number += batch.num_rows
            batches.append(self.engine.normal_form(self.schema, batch))
        for layer in collapse(batches, self.schema, self.engine):
            self.runs.append(list(_checked(pieces(layer, self.batch_bytes))))

    def compact(self, first: int, last: int) -> bool:
        """Merge the neighbouring runs first to last (exclusive) as far as that is allowed; False if it is not."""
        kinds = [
            batch.column(VALUE_KIND).to_numpy() for run in self.runs[first:last] for batch in run
        ]
        has_deletes = any(is_retraction(np.asarray(k)).any() for k in kinds)
        allowed = self.engine.partial_merge(self.schema, has_deletes=has_deletes)
        if allowed is PartialMerge.NEVER or (allowed is PartialMerge.WITH_BASE and first > 0):
            return False
        keep_deletes = first > 0 or self.engine.keeps_deletes(self.schema)
        self.runs[first:last] = [self._merged(self.runs[first:last], keep_deletes=keep_deletes)]
        return True

    def merge_anyway(self, first: int, last: int, *, keep_deletes: bool) -> None:
        """Merge runs whether it is allowed or not."""
        self.runs[first:last] = [self._merged(self.runs[first:last], keep_deletes=keep_deletes)]

    def rows(self, columns: Sequence[str] | None = None) -> list[Row]:
        """The visible rows in key order, all columns by default."""
        names = self.schema.names if columns is None else tuple(columns)
        needed = {SEQUENCE_NUMBER, VALUE_KIND, *self.engine.needed_columns(self.schema, names)}
        runs = [
            [b.select([n for n in b.schema.names if n in needed]) for b in run] for run in self.runs
        ]
        merged = self._merged(runs, keep_deletes=False, columns=names)
        asked = self.schema.arrow_schema(in_schema_order(self.schema, names))
        return [row for batch in merged for row in python_rows(Projection(asked).of(batch))]

    def _merged(
        self, runs: Sequence[Run], *, keep_deletes: bool, columns: Sequence[str] | None = None
    ) -> Run:
        merged = merge_runs(
            [iter(run) for run in runs],
            self.schema,
            self.engine,
            self.schema.names if columns is None else columns,
            keep_deletes=keep_deletes,
            batch_bytes=self.batch_bytes,
        )
        return list(_checked(merged))

    def _passes_filters(self, record: Record) -> bool:
        kind = self._kind(record)
        options = self.schema.options
        if kind == "-U" and options.get("ignore-update-before") == "true":
            return False
        ignores = ("ignore-delete", "deduplicate.ignore-delete", "partial-update.ignore-delete")
        return kind in ("+I", "+U") or not any(options.get(key) == "true" for key in ignores)

    def _kind(self, record: Record) -> str:
        kind_column = self.schema.options.get("rowkind.field")
        return record[0] if kind_column is None else str(record[1][kind_column]).upper()


def row_batch(
    schema: TableSchema, records: Sequence[Record], columns: Sequence[str], first_number: int
) -> pa.RecordBatch:
    """Records as a row batch with consecutive sequence numbers; kinds from `rowkind.field` if there is one."""
    arrow = row_batch_schema(schema, columns)
    kind_column = schema.options.get("rowkind.field")
    texts = [kind if kind_column is None else row[kind_column] for kind, row in records]
    values: dict[str, Any] = {
        SEQUENCE_NUMBER: range(first_number, first_number + len(records)),
        VALUE_KIND: parse_texts(pa.array(texts, pa.string()), "kind"),
    }
    arrays = [
        pa.array(values.get(f.name, [row.get(f.name) for _, row in records]), f.type) for f in arrow
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def records_of(run: Run) -> list[Record]:
    """The rows of a run with their kinds, deletes too."""
    return [
        (TEXTS[row.pop(VALUE_KIND)], {k: v for k, v in row.items() if k != SEQUENCE_NUMBER})
        for batch in run
        for row in python_rows(batch)
    ]


def _checked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        batch.validate(full=True)
        assert batch.num_rows
        assert not any(
            column.null_count
            for field, column in zip(batch.schema, batch.columns, strict=True)
            if not field.nullable
        )
        yield batch
