"""A checked call of a point-in-time read: the rows of a training set, and the features that they get.

    entities    user  at  label          columns ["city"], prefix "user_"       result: user, at, label, user_city

In: rows in any form that `write` takes, and the names that a caller gives. Out: the rows, the features as columns of
the table, and what they are called in the result. Raises InvalidError for a feature that has the name of a column of
the rows and for one that the history leaves out, NotFoundError for a column that the table does not have, and what
`entity_rows` raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from widetable.arguments import text
from widetable.derive.versions.entity_rows import EntityRows, entity_rows
from widetable.errors import InvalidError
from widetable.schema.history_columns import check_kept, kept_columns
from widetable.schema.table_schema import TableSchema


class WantedFeatures(NamedTuple):
    """A checked call. features: columns of the table. fields: what they are called in the result."""

    given: EntityRows
    features: tuple[str, ...]
    fields: list[pa.Field]


def wanted_features(
    schema: TableSchema,
    entities: Any,
    at: str,
    columns: Sequence[str] | None,
    on: Any,
    prefix: str,
    same_name: Callable[[str], str] = str,
) -> WantedFeatures:
    """Check a call. same_name: maps names that count as the same name to one text."""
    given = entity_rows(entities, at, on, schema)
    features = _features(columns, schema)
    fields = _added(given, features, text(prefix, "prefix"), schema, same_name)
    return WantedFeatures(given, features, fields)


def _features(columns: Sequence[str] | None, schema: TableSchema) -> tuple[str, ...]:
    if columns is None:
        return tuple(name for name in kept_columns(schema) if name not in schema.primary_keys)
    chosen = schema.chosen(columns)
    check_kept(schema, chosen)
    return chosen


def _added(
    given: EntityRows,
    features: Iterable[str],
    prefix: str,
    schema: TableSchema,
    same_name: Callable[[str], str],
) -> list[pa.Field]:
    """Return the fields of the features. Raises InvalidError for one that `entities` has already."""
    fields = []
    taken = {same_name(name): name for name in given.rows.column_names}
    for name in features:
        field = schema.arrow_field(name).with_name(prefix + name).with_nullable(True)
        if same_name(field.name) in taken:
            raise InvalidError(
                f"column {taken[same_name(field.name)]!r} of entities",
                found="the name of a feature",
                expected="columns with other names than the features",
                action="Pass a prefix, rename the column, or leave the feature out of columns.",
            )
        fields.append(field)
    return fields
