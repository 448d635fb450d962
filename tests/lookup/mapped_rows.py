"""Rows written as a cache holds them, mapped again: what the tests of the lookup package share."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from widetable_lookup.key_columns import KeyColumns, fences_between, is_number_key
from widetable_lookup.row_map import (
    LAYOUT,
    PAGES,
    ROWS,
    RowMap,
    buffer_count,
    index_rows,
    layout_from_bytes,
)


def write_rows(directory: Path, batches: Sequence[pa.RecordBatch]) -> None:
    """rows.arrow, rows.layout and rows.pages of these batches."""
    with pa.ipc.new_file(str(directory / ROWS), batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    index_rows(str(directory), batches[0].schema)


def map_rows(directory: Path, schema: pa.Schema) -> RowMap:
    layout = layout_from_bytes(
        (directory / LAYOUT).read_bytes(), sum(map(buffer_count, schema.types))
    )
    return RowMap(str(directory), schema, (directory / PAGES).read_bytes(), layout)


def key_columns(rows: RowMap, names: Sequence[str], types: Sequence[pa.DataType]) -> KeyColumns:
    fences = None if is_number_key(types) else fences_between(rows, names)
    return KeyColumns(rows, names, types, fences)


def cut(rows: pa.RecordBatch, ends: Sequence[int]) -> list[pa.RecordBatch]:
    """The rows in batches that end at `ends` and at the end of all, none of them empty."""
    cuts = sorted({0, *ends, rows.num_rows})
    return [rows.slice(start, end - start) for start, end in pairwise(cuts)]
