"""The layout of a data file's columns in Parquet: names, order, field ids, encodings and statistics. Pure functions.

On disk: field ids never change (Paimon `SpecialFields`, `ParquetSchemaConverter`; grammar in `data_file_writer`).

Field ids of a column c of id 7, c ARRAY<MAP<VARCHAR, INT>>:

    c           7
    element     536878080   = 536870911 + 1024 * 7 + 1
    key         536863741   = 536870911 - 1024 * 7 - 2
    value       536878081   = 536870911 + 1024 * 7 + 2
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.format.int96 import leaf_paths
from widetable.format.row_batch import SYSTEM_FIELDS
from widetable.schema.table_schema import (
    KEY_PREFIX,
    SEQUENCE_NUMBER,
    SYSTEM_FIELD_ID,
    VALUE_KIND,
    TableSchema,
)
from widetable.schema.types import DataField, DataType, arrow_type

FIELD_ID: Final = b"PARQUET:field_id"
# Our own note in the footer: the memory of the decoded rows of the largest row group, in bytes.
GROUP_BYTES: Final = "widetable.group-bytes"
# A row group is filled up to so much Arrow memory (`row_group_bytes` for many columns), or so many rows.
ROW_GROUP_BYTES: Final = 16 << 20
ROW_GROUP_ROWS: Final = 128 << 10
# A file that has so many column chunks is closed: its footer takes about a kilobyte of memory for each, in whoever
# writes or reads it.
MAX_COLUMN_CHUNKS: Final = 1 << 14
PAGE_BYTES: Final = 1 << 20
# For level 0: see `page_bytes`.
_LEVEL0_PAGE_BYTES: Final = 64 << 10
_WIDE_LEVEL0_PAGE_BYTES: Final = 32 << 10
# A table with so many columns is wide: its rows are thousands of small buffers.
WIDE_COLUMNS: Final = 1 << 10
# The least size of a column in a row group, if the budget allows it: a smaller chunk costs more than its values.
_CHUNK_BYTES: Final = 8 << 10
_GROUPS_PER_BUDGET: Final = 16

# On disk: never change.
_SYSTEM_IDS: Final = {SEQUENCE_NUMBER: 2147483646, VALUE_KIND: 2147483645}
_NESTED_BASE_ID: Final = 536870911
_NESTED_IDS_PER_FIELD: Final = 1024

# A string column gets a dictionary when a sample of so many rows suggests at most so many distinct values per row: up
# to that limit, texts of 6 to 40 bytes are encoded faster, decoded as fast, and take at least a third less disk space.
_SAMPLE_ROWS: Final = 2048
_DISTINCT_PER_ROW: Final = 1 / 8

# Wider files keep statistics of the key only: those of 5,000 columns would outweigh the rows of a small file.
_MAX_STATISTICS_COLUMNS: Final = 200


def file_schema(schema: TableSchema, names: Iterable[str], *, key_columns: bool) -> pa.Schema:
    """Return the Arrow schema of a file, with field ids. names: the table columns in it, in the table's order.

    System columns come after the keys, as in Paimon, and files of append tables have none; the caller chooses the table
    columns, which include the key. A `_KEY_` column repeats a key column with an id of its own.
    """
    keys = [schema.field(name) for name in schema.trimmed_primary_key] if key_columns else []
    fields = [_with_id(_field(f), SYSTEM_FIELD_ID + f.id, KEY_PREFIX + f.name) for f in keys]
    if schema.has_key:
        fields += [_with_id(f, _SYSTEM_IDS[f.name], f.name) for f in SYSTEM_FIELDS]
    fields += [_field(schema.field(name)) for name in names]
    return pa.schema(fields)


def row_group_bytes(columns: int, budget_bytes: int) -> int:
    """Return how much Arrow memory fills a row group of so many columns. budget_bytes: of the writer.

        columns   budget 256 MiB     512 MiB
        13        16 MiB             16 MiB
        3,000     16 MiB             23 MiB
        5,000     16 MiB             32 MiB      39 MiB are more than a sixteenth of the budget

    A compaction that emits changes holds about six row groups at once: two that it reads and looks up, their copies,
    one that is pending in the writer of the data file, and one in the writer of the changelog file.

    Windows of a merge are small: many of them fill one group.
    """
    return max(ROW_GROUP_BYTES, min(columns * _CHUNK_BYTES, budget_bytes // _GROUPS_PER_BUDGET))


def page_bytes(table_columns: int, *, is_level0: bool) -> int:
    """Return the bytes of a page before it is compressed. A reader holds one decoded page of each column of each file.

    Level-0 files have small pages, because a merge opens many of them at once. That makes them a twentieth larger, but
    they are soon replaced. A wide table has smaller pages still, because its merges hold more columns. Other tables do
    not: with pages of 16 KiB, writing and merging 20 columns took a sixth longer than with 64 KiB.
    """
    if not is_level0:
        return PAGE_BYTES
    return _WIDE_LEVEL0_PAGE_BYTES if table_columns >= WIDE_COLUMNS else _LEVEL0_PAGE_BYTES


def dictionary_columns(group: pa.Table) -> list[str]:
    """Return string columns with few distinct values, estimated from rows spread over the first row group.

    The estimate is made once per file, by its first row group; later rows may differ. Texts inside
    of other values get no dictionary.
    """
    if group.num_rows < 2:
        return []
    rows = np.unique(np.linspace(0, group.num_rows - 1, _SAMPLE_ROWS).astype(np.int64))
    names = [f.name for f in group.schema if pa.types.is_string(f.type)]
    sample = group.select(names).take(pa.array(rows))
    return [name for name in names if _has_few_values(sample[name], group.num_rows)]


def _has_few_values(sample: pa.ChunkedArray, rows: int) -> bool:
    """Whether a sample has no more distinct values than that of a column whose dictionary just pays.

    The sample does not show how many values a column has, but how many it would show at
    the limit is known: for 131,072 rows the limit is 16,384 values, of which 2,048 random rows show
    about 1,925. So a column gets a dictionary with up to 1,925 distinct values in its sample.
    """
    valid = len(sample) - sample.null_count
    if not valid:
        return True
    distinct = rows * valid / len(sample) * _DISTINCT_PER_ROW
    seen = distinct * -math.expm1(-valid / distinct)
    return bool(pc.count_distinct(sample).as_py() <= seen)


def statistics_columns(schema: pa.Schema, key: Sequence[str]) -> bool | list[str]:
    """Return the columns with minima and maxima per row group: all, or in a wide file those of the key. True: all.

    int96 has none: no reader may order it by its bytes.
    """
    if len(schema) > _MAX_STATISTICS_COLUMNS:
        leaves = [leaf for name in key for leaf in leaf_paths(schema.field(name))]
    else:
        leaves = [leaf for field in schema for leaf in leaf_paths(field)]
    ordered = [path for path, is_int96 in leaves if not is_int96]
    is_all = len(ordered) == len(leaves) and len(schema) <= _MAX_STATISTICS_COLUMNS
    return True if is_all else ordered


def _field(field: DataField) -> pa.Field:
    bare = pa.field(field.name, _type(field.type, field.id, 0), field.type.nullable)
    return _with_id(bare, field.id, field.name)


def _with_id(field: pa.Field, field_id: int, name: str) -> pa.Field:
    return field.with_name(name).with_metadata({FIELD_ID: str(field_id).encode()})


def _type(kind: DataType, field_id: int, depth: int) -> pa.DataType:
    """Return the Arrow type of `kind` with ids on nested fields. field_id: of the enclosing column or ROW field."""
    above = _NESTED_IDS_PER_FIELD * field_id + depth + 1
    if kind.root == "ROW":
        return pa.struct([_field(f) for f in kind.fields])
    plain = arrow_type(kind)
    if kind.root == "ARRAY":
        assert kind.element is not None
        element = _type(kind.element, field_id, depth + 1)
        return pa.list_(
            _with_id(plain.value_field.with_type(element), _NESTED_BASE_ID + above, "element")
        )
    if kind.root in ("MAP", "MULTISET"):
        key, value = (_type(part, field_id, depth + 1) for part in kind.entry)
        return pa.map_(
            _with_id(plain.key_field.with_type(key), _NESTED_BASE_ID - above, "key"),
            _with_id(plain.item_field.with_type(value), _NESTED_BASE_ID + above, "value"),
        )
    return plain
