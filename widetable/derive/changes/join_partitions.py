"""The partitions that a lookup join reads: the grammar of its argument `partitions`.

    None                     all; the partition columns are columns of the key that the left rows carry
    max_pt()                 the newest one, by its values
    max_two_pt()             the two newest ones; a key in both has the row of the newer one
    a=1,b=2;a=2,b=3          these; a key in several has the row of the newest of them

The joined snapshot says which partitions are the newest. The partition columns must be part of the primary key; the
join then does not compare them. Source: Paimon `scan.partitions` of lookup joins. Pure. Raises InvalidError.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from widetable.arguments import text
from widetable.errors import InvalidError
from widetable.format.binary_row import decode_row, encode_rows, with_arity
from widetable.format.parsed_text import parsed_texts
from widetable.format.plain_value import plain_column, row_order
from widetable.schema.table_schema import TableSchema
from widetable.schema.types import DataField

_NEWEST: Final = {"max_pt()": 1, "max_two_pt()": 2}
_WORDS: Final = "max_pt(), max_two_pt(), or partitions as in a=1,b=2;a=2,b=3"


@dataclass(frozen=True)
class JoinPartitions:
    """A parsed choice. newest: the number of newest partitions. fixed: named partitions instead, as BinaryRows."""

    newest: int
    fixed: tuple[bytes, ...]

    def chosen(self, partitions: Iterable[bytes], schema: TableSchema) -> tuple[bytes, ...]:
        """Return the chosen partitions, newest first. partitions: all that the snapshot has."""
        types = [field.type for field in partition_fields(schema)]
        order = row_order(types)
        distinct = set(self.fixed or partitions)
        rows = sorted(distinct, key=lambda row: order(decode_row(row, types)), reverse=True)
        return tuple(rows if self.fixed else rows[: self.newest])


def parse_partitions(value: Any, schema: TableSchema) -> JoinPartitions | None:
    """Parse the argument `partitions` of a join with a table of this schema."""
    if value is None:
        return None
    words = text(value, "partitions").strip()
    keys = schema.partition_keys
    if not keys or not set(keys) <= set(schema.primary_keys):
        raise InvalidError(
            "partitions",
            found=f"{value!r} for a table with the partition columns {list(keys)} and "
            f"the primary key {list(schema.primary_keys)}",
            expected="a partitioned table whose partition columns are in its primary key",
            action="Omit partitions=.",
        )
    if words in _NEWEST:
        return JoinPartitions(_NEWEST[words], ())
    return JoinPartitions(0, tuple(_fixed(part, schema) for part in words.split(";")))


def partition_fields(schema: TableSchema) -> list[DataField]:
    """Return the partition columns in their order."""
    return [schema.field(name) for name in schema.partition_keys]


def partition_values(partition: bytes, schema: TableSchema) -> dict[str, pa.Scalar]:
    """Return the value of each partition column."""
    fields = partition_fields(schema)
    row = decode_row(partition, [field.type for field in fields])
    return {
        field.name: plain_column([value], field.type)[0]
        for field, value in zip(fields, row, strict=True)
    }


def _fixed(words: str, schema: TableSchema) -> bytes:
    """Return the partition that `a=1,b=2` names."""
    pairs = dict(part.partition("=")[::2] for part in words.split(","))
    named = {name.strip(): value.strip() for name, value in pairs.items()}
    fields = partition_fields(schema)
    if set(named) != {field.name for field in fields} or len(named) != len(words.split(",")):
        raise InvalidError(
            "partitions",
            found=repr(words),
            expected=f"{_WORDS}; each of {', '.join(schema.partition_keys)} once",
            action="Correct the argument.",
        )
    columns = [_value(named[field.name], field) for field in fields]
    types = [field.type for field in fields]
    return with_arity(encode_rows(columns, types).row(0), len(fields))


def _value(words: str, field: DataField) -> pa.Array:
    try:
        return parsed_texts(pa.array([words], pa.string()), field.type)
    except InvalidError as cause:
        raise InvalidError(
            "partitions",
            found=f"{field.name}={words}",
            expected=cause.expected,
            action="Correct the argument.",
        ) from cause
