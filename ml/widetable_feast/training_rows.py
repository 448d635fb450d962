"""Reads the features of views for rows of entities, one view after the other, as Feast's rule asks.

    Feast                                       here
    newest event time <= entity time            basis "event" of the source's timestamp field
    and >= entity time - ttl, inclusive         ttl
    equal event times: larger created time      versions of later commits
    filter_by_created_timestamp                 as_known

A source whose timestamp field is `_from` is read by commits: basis "known". In: entities as Arrow, requests. Out: the
entities, in their order, with a column for each feature. Raises NotFoundError for a missing column of the entities,
InvalidError for keys of another type, and what `Table.point_in_time` raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from feast.repo_config import RepoConfig

from widetable import InvalidError, NotFoundError, Table
from widetable_feast.table_source import COMMIT_TIME
from widetable_feast.view_request import ViewRequest

# Before the features while they are read: an entity may have a column with the name of one.
_PREFIX: Final = "feature "


def training_rows(
    config: RepoConfig,
    requests: Sequence[ViewRequest],
    entities: pa.Table,
    at: str,
    *,
    as_known: bool = False,
) -> pa.Table:
    """Add the features of all requests to the entities. at: the column of entity times.

    as_known: of sources with a created timestamp, count only what had been committed; Feast asks nothing of others.
    """
    for request in requests:
        table = request.source.opened(config)
        keys = {k: table_column(entities, name, table, k) for name, k in request.on.items()}
        how: dict[str, Any] = {"basis": "known"}
        if request.source.timestamp_field != COMMIT_TIME:
            units = {request.source.timestamp_field: request.source.timestamp_unit}
            counts_known = as_known and bool(request.source.created_timestamp_column)
            how = {"basis": "event", "event_times": units, "as_known": counts_known}
        given = pa.table({**keys, at: entities[at]})
        columns = list(request.columns)
        rows = table.point_in_time(given, at, columns, ttl=request.ttl, prefix=_PREFIX, **how)
        for name, column in zip(request.names, columns, strict=True):
            entities = entities.append_column(name, rows[_PREFIX + column])
    return entities


def table_column(rows: pa.Table, name: str, table: Table, column: str) -> pa.ChunkedArray:
    """Return a column of Feast's rows with the type that a column of the table has."""
    if name not in rows.column_names:
        raise NotFoundError(
            f"column {name!r} of the rows",
            found=f"the columns {', '.join(rows.column_names)}",
            expected=f"the values of {column!r} of {table.path}",
            action="Add the column, or map the join key to another one.",
        )
    type = table.schema.arrow_field(column).type
    try:
        return rows[name].cast(type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        raise InvalidError(
            f"column {name!r} of the rows",
            found=f"{rows[name].type}, of which a value is no {type}: {cause}",
            expected=f"values of {column!r} of {table.path}",
            action="Give the column the type of the table's.",
        ) from cause
