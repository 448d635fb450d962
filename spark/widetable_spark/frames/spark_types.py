"""Arrow batches of a table ↔ the exact Arrow schema that Spark asks for.

Spark compares the first batch of a reader with its own Arrow form of the schema, including types, nullability and
order, so every batch is cast to that form. Source: pyspark `to_arrow_schema`; spark.md sections 1 and 2.

    table               Spark                     batches that Spark expects
    time32[ms]          time(6)                   time64[ns]
    timestamp[ns]       timestamp_ntz             timestamp[us]              refused where nanoseconds would be lost
    timestamp[ms, UTC]  timestamp                 timestamp[us, UTC]
    list<timestamp>     array<timestamp_ntz>      list<element: timestamp[us]>
    decimal128(5, 2)    decimal(5,2)              decimal128(5, 2)

Spark checks only the first batch of a reader, so another type in a later one would not be noticed: hence each is cast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from widetable import InvalidError, UnsupportedError
from widetable.connector import BATCH_BYTES, counted, pieces
from widetable_spark.startup.spark_version import HAS_TIME, IN_UTC, VERSION

# The size of Spark's own Arrow batches (maxRecordsPerBatch); larger ones were slower in sinks (spark.md section 6).
_ROWS_PER_BATCH: Final = 10_000
# Text that is compared by its bytes, which is what Spark has by default.
_BINARY: Final = "UTF8_BINARY"


def spark_schema(arrow: pa.Schema) -> StructType:
    """Return Spark's schema for a table's Arrow schema.

    Times become TIME(6), timestamps TIMESTAMP (with zone) or TIMESTAMP_NTZ. Nullability is the table's. Raises
    UnsupportedError for a TIME column where Spark has no such type.
    """
    types = {field.type for field in arrow}  # few, of thousands of columns
    sides = {t: pa.schema([pa.field("t", _spark_type(t))]) for t in types}
    kinds = {t: from_arrow_schema(side, prefer_timestamp_ntz=True)[0] for t, side in sides.items()}
    return StructType(
        [StructField(field.name, kinds[field.type].dataType, field.nullable) for field in arrow]
    )


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of the batches that Spark expects from a reader of `schema`.

    Zones are UTC, whatever the session's is. Raises ValueError or PySparkException for a type that no Arrow type holds.
    """
    try:
        return to_arrow_schema(schema, **IN_UTC)
    except ValueError:
        # Elements of `array()` are VOID and not nullable.
        return to_arrow_schema(with_nullable_voids(schema), **IN_UTC)


def checked_arrow_schema(schema: StructType, action: str) -> pa.Schema:
    """Return `arrow_schema` of columns that a caller gives. Raises UnsupportedError that names a column without an
    Arrow type.
    """
    try:
        return arrow_schema(schema)
    except (PySparkException, ValueError) as cause:
        field = next(field for field in schema if not _has_arrow_type(field))
        raise UnsupportedError(
            f"column {field.name!r}",
            found=f"the type {field.dataType.simpleString()}, which Spark does not pass to Python functions",
            expected="a type that Spark's Arrow batches have",
            action=action,
        ) from cause


def _has_arrow_type(field: StructField) -> bool:
    try:
        arrow_schema(StructType([field]))
    except (PySparkException, ValueError):
        return False
    return True


def with_nullable_voids(kind: Any) -> Any:
    """Return the type in which every VOID may be null, except in keys of maps, as pyarrow requires."""
    if isinstance(kind, ArrayType):
        element = with_nullable_voids(kind.elementType)
        return ArrayType(element, kind.containsNull or isinstance(element, NullType))
    if isinstance(kind, MapType):
        value = with_nullable_voids(kind.valueType)
        nullable = kind.valueContainsNull or isinstance(value, NullType)
        return MapType(with_nullable_voids(kind.keyType), value, nullable)
    if isinstance(kind, StructType):
        fields = ((field, with_nullable_voids(field.dataType)) for field in kind)
        return StructType(
            [
                StructField(f.name, type_, f.nullable or isinstance(type_, NullType), f.metadata)
                for f, type_ in fields
            ]
        )
    return kind


def check_collations(fields: Iterable[StructField]) -> None:
    """Refuse text that Spark does not compare by its bytes, at any depth: a table does, and stores no collation.

    fields: of a DataFrame, those from which a table takes values or keys.
    """
    for field in fields:
        named = next(_collations(field.dataType), None)
        if named is not None:
            raise UnsupportedError(
                f"column {field.name!r}",
                found=f"text with the collation {named}, by which Spark may take different texts for one",
                expected=f"the collation {_BINARY}: a table compares texts by their bytes",
                action=f"Give the column COLLATE {_BINARY}, or apply lower(..) where case is to be ignored.",
            )


def _collations(kind: DataType) -> Iterator[str]:
    """Yield the collations of a type's texts that are not compared by bytes."""
    if isinstance(kind, StringType) and kind.collation != _BINARY:
        yield kind.collation
    elif isinstance(kind, ArrayType):
        yield from _collations(kind.elementType)
    elif isinstance(kind, MapType):
        yield from _collations(kind.keyType)
        yield from _collations(kind.valueType)
    elif isinstance(kind, StructType):
        for field in kind:
            yield from _collations(field.dataType)


def cast_batch(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    """Return the columns of `target`, in its order and types.

    Raises InvalidError that names a column whose values Spark cannot hold.
    """
    columns = [_cast(batch.column(wanted.name), wanted) for wanted in target]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def spark_batches(batch: pa.RecordBatch, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `cast_batch` in batches of the size that Spark takes."""
    for piece in pieces(batch, BATCH_BYTES, _ROWS_PER_BATCH):
        yield cast_batch(piece, target)


def _cast(column: pa.Array, wanted: pa.Field) -> pa.Array:
    """Cast without loss: a value that does not fit is an error, not another value."""
    if not wanted.nullable and column.null_count:
        raise InvalidError(
            f"column {wanted.name!r}",
            found=f"null in {column.null_count} of {counted(len(column), 'row')}",
            expected="a value in every row, as the columns that Spark has are NOT NULL",
            action="Leave NOT NULL out of .schema(...). If the table allows nulls now, load it or name it again.",
        )
    if column.type == wanted.type:
        return column
    try:
        # Seconds and milliseconds go to microseconds or nanoseconds by way of nanoseconds.
        if pa.types.is_time32(column.type) and pa.types.is_time64(wanted.type):
            return column.cast(pa.time64("ns")).cast(wanted.type)
        return column.cast(wanted.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        raise InvalidError(
            f"column {wanted.name!r}",
            found=f"values of {column.type} that do not fit ({cause})",
            expected=f"values that Spark's {wanted.type} can hold",
            action="Leave the column out, or read it with pyarrow.",
        ) from cause


def _spark_type(t: pa.DataType) -> Any:
    """Return the Arrow type that Spark has for a table's type, at any depth: microseconds, and times in nanoseconds."""
    if pa.types.is_timestamp(t):
        return pa.timestamp("us", tz=t.tz)
    if pa.types.is_time(t):
        if not HAS_TIME:
            raise UnsupportedError(
                "a column of type TIME",
                found=f"Spark {VERSION}, which has no such type",
                expected="Spark 4.1 or newer",
                action="Leave the column out: name the others in widetable_spark.read, or in .schema(...).",
            )
        return pa.time64("ns")
    if pa.types.is_list(t):
        return pa.list_(t.value_field.with_type(_spark_type(t.value_type)))
    if pa.types.is_map(t):
        return pa.map_(
            t.key_field.with_type(_spark_type(t.key_type)),
            t.item_field.with_type(_spark_type(t.item_type)),
        )
    if pa.types.is_struct(t):
        inner = [t.field(i) for i in range(t.num_fields)]
        return pa.struct([f.with_type(_spark_type(f.type)) for f in inner])
    return t
