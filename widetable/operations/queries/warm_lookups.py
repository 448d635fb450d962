"""Imports and loads what lookups need, in a process that is forked for them: its children have it from the start.

The loops of a lookup are compiled and run over a few rows in memory, for keys of the types BIGINT and
STRING; what keys of other types need is loaded on first use. No table is touched, no cache opened,
no thread started. Raises what compiling a kernel raises.
"""

from __future__ import annotations

import contextlib
import importlib

import numpy as np
import pyarrow as pa

from widetable.format.row_batch import row_batch_schema
from widetable.kernels.gather import take
from widetable.kernels.jit import Kernel
from widetable.kernels.key_match import match_keys
from widetable.merge.engine import engine_of
from widetable.merge.numbered_merge import NumberedRows, merge_numbered
from widetable.operations.queries.lookup_keys import key_rows
from widetable.operations.queries.requested_keys import request_keys
from widetable.schema.new_schema import new_schema
from widetable.schema.table_schema import TableSchema

_ROWS = 64


def warm_lookups() -> None:
    """Compile the kernels of lookups. May be called more than once, by one thread.

    While it runs, kernels of the whole process are compiled, not interpreted, however small their arrays are.
    """
    with contextlib.suppress(ImportError):  # it is an optional package
        importlib.import_module("widetable_lookup")
    interprets, Kernel.interprets = Kernel.interprets, False
    try:
        for values in (pa.array(range(_ROWS)), pa.array([f"key {n:03}" for n in range(_ROWS)])):
            fields = {"k": values.type, "number": pa.int64(), "text": pa.string()}
            _look_up(
                values,
                new_schema(pa.schema(fields), primary_key=["k"], options={"bucket": "2"}),
            )
    finally:
        Kernel.interprets = interprets


def _look_up(values: pa.Array, schema: TableSchema) -> None:
    """Look up keys as if two sorted runs had all of them, because one alone would not be merged.

    It takes the steps of `LookupView.lookup` without a table: keys by bucket, a match of key columns as in a file,
    the merge, the `take` of each type.
    """
    requested = request_keys(key_rows(values, schema), schema)
    keys = requested.keys.take(pa.array(np.argsort(requested.keys.column(0).to_pylist())))
    numbers, _ = match_keys(keys.columns, keys.columns)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array(range(_ROWS)),
            pa.array([0] * _ROWS, pa.int8()),
            keys.column(0),
            pa.array(range(_ROWS)),
            pa.array(["text"] * _ROWS),
        ],
        schema=row_batch_schema(schema, schema.names),
    )
    run = [NumberedRows(numbers, rows)]
    [merged] = merge_numbered([run, run], schema, engine_of(schema), schema.names)
    for column in merged.rows.columns:
        take(pa.chunked_array([column]), requested.places)
