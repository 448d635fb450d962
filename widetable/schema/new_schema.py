"""Creates the schema of a new table, from Arrow columns, or from names and types.

In: columns, keys, options. Out: schema 0, whose rules `acceptance` checks. Raises InvalidError for arguments of another
form, UnsupportedError for types that tables cannot have.

    {"id": "BIGINT", "r": pa.struct(..)}         a user's names and types; a type may be a text
    pa.schema, texts as metadata of fields       `arrow_schema`: one form for all later steps
    fields with ids, nullable or not             `new_schema`, `column_type`

The text of a type is kept as metadata because an Arrow type has less information: VARCHAR(100) and STRING are both
string. Columns that are added later (`operations.ddl.column_change`) take the same steps.
"""

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from widetable.arguments import names, refused, text
from widetable.errors import InvalidError, UnsupportedError
from widetable.runtime.machine_clock import now_millis
from widetable.schema import options as opt
from widetable.schema.option_checks import option_texts
from widetable.schema.table_schema import TableSchema
from widetable.schema.type_text import type_from_text
from widetable.schema.types import DataField, DataType, arrow_type, assign_field_ids
from widetable.schema.types_from_arrow import type_from_arrow

# The metadata key of an Arrow field for its type's text; never on disk.
_TYPE_TEXT: Final = "widetable.type"
_ALIAS: Final = re.compile(r"(?P<name>.*?)(?:(?P<not>\s+NOT)?\s+NULL)?", re.DOTALL | re.IGNORECASE)


def new_schema(
    arrow: pa.Schema,
    *,
    primary_key: Sequence[str] | None,
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    comment: str | None = None,
) -> TableSchema:
    """Create schema 0 of a new table. Key columns become NOT NULL; nested fields are numbered after their parents.

        dt DATE, id BIGINT, r ROW<a INT, b STRING>, v INT    ids 0, 1, 2 (a: 3, b: 4), 5

    primary_key: None for an append table. No rule is checked: the caller accepts the schema before it is published. The
    uuid tells this table from a later one with its name.
    """
    primary_key = () if primary_key is None else names(primary_key, "primary_key")
    written_out = opt.WRITTEN_OUT if primary_key else opt.WRITTEN_OUT_OF_APPEND
    next_id, fields = 0, []
    for column in arrow_schema(arrow, "schema"):
        nullable = column.nullable and column.name not in primary_key
        # A column, then its nested fields, then the next column: ids of columns have gaps after nested columns.
        parent_id, next_id = next_id, next_id + 1
        numbered, next_id = assign_field_ids(column_type(column, nullable=nullable), next_id)
        fields.append(DataField(parent_id, column.name, numbered))
    return TableSchema(
        id=0,
        fields=tuple(fields),
        highest_field_id=next_id - 1,
        partition_keys=names(partition_by, "partition_by"),
        primary_keys=primary_key,
        options={**written_out, **option_texts(options, "options")},
        comment=None if comment is None else text(comment, "comment"),
        time_millis=now_millis(),
        uuid=str(uuid.uuid4()),
    )


def arrow_schema(value: Any, name: str) -> pa.Schema:
    """Convert a value to an Arrow schema: a schema, fields, (name, type) pairs, or a dict of names to types. A type may
    be a text: Arrow's name, such as int32, or Paimon's SQL, such as VARCHAR(100) NOT NULL.
    """
    try:
        if isinstance(value, pa.Schema):
            return value
        columns = value.items() if isinstance(value, Mapping) else value
        # InvalidError and UnsupportedError for an invalid type text are not caught: they say more than `refused`.
        return pa.schema([_arrow_column(column) for column in columns])
    except (pa.ArrowException, TypeError, ValueError):
        raise refused(
            value, name, "a pyarrow.Schema, fields, or a dict of names to types"
        ) from None


def changed_types(value: Mapping[Any, Any], name: str) -> dict[str, pa.Field]:
    """Convert new types of columns, which have the form of new columns. Raises InvalidError for a text with NULL, which
    is not a part of a type: an altered type does not change the nullability of a column.
    """
    for column, kind in value.items():
        words = kind.upper().split() if isinstance(kind, str) else []
        if words[-1:] == ["NULL"] and words[-2:-1] != ["NOT"]:
            raise InvalidError(
                f"column {column!r}",
                found=f"the type {kind!r}",
                expected="a type, with or without NOT NULL",
                action="Allow nulls with change_nullability, or --nullable.",
            )
    return {field.name: field for field in arrow_schema(value, name)}


def _arrow_column(column: Any) -> Any:
    """Convert a column to an argument of `pa.schema`. The text of a type is kept in its field.

    Arrow's names take precedence, also with NULL or NOT NULL after them: a name of both, such as
    `binary`, is Arrow's type, so BINARY NOT NULL has bytes of any length, as BINARY has.
    """
    if isinstance(column, pa.Field):
        return column
    if isinstance(column, str):  # such as the columns of a frame, which are names without types
        raise TypeError
    name, kind = column
    if not isinstance(kind, str):
        return column
    alias = _ALIAS.fullmatch(kind.strip())
    assert alias is not None  # the pattern matches any text
    with contextlib.suppress(ValueError):
        return pa.field(name, pa.type_for_alias(alias["name"]), alias["not"] is None)
    parsed = type_from_text(kind)
    return pa.field(name, arrow_type(parsed), parsed.nullable, {_TYPE_TEXT: kind})


def column_type(column: pa.Field, *, nullable: bool) -> DataType:
    """Return the type of a new column. Raises UnsupportedError naming it.

    The field's own nullability is ignored: a key is always NOT NULL.
    """
    type_text = (column.metadata or {}).get(_TYPE_TEXT.encode())
    if type_text is not None:
        return replace(type_from_text(type_text.decode()), nullable=nullable)
    try:
        return type_from_arrow(column.type, nullable=nullable)
    except UnsupportedError as cause:
        raise UnsupportedError(
            f"column {column.name!r}",
            found=f"{cause.subject}: {cause.found}",
            expected=cause.expected,
            action=cause.action,
        ) from cause
