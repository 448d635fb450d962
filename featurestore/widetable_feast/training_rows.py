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

_AT: Final = "__entity_time"


def training_rows(
    config: RepoConfig,
    requests: Sequence[ViewRequest],
    entities: pa.Table,
    at: str,
    *,
    as_known: bool = False,
) -> pa.Table:
    """Add the features of all requests to the entities. at: the column of entity times."""
    for request in requests:
        table = request.source.opened(config)
        keys = {key: _keys(entities, column, table, key) for column, key in request.on.items()}
        rows = features_at(table, request, keys, entities[at], as_known=as_known)
        for name, column in zip(request.names, request.columns, strict=True):
            entities = entities.append_column(name, rows[column])
    return entities


def features_at(
    table: Table, request: ViewRequest, keys: dict[str, Any], times: Any, *, as_known: bool = False
) -> pa.Table:
    """Return the columns of a request for keys at times, a row for each."""
    source = request.source
    how: dict[str, Any] = {"basis": "known"}
    if source.timestamp_field != COMMIT_TIME:
        units = {source.timestamp_field: source.timestamp_unit}
        how = {"basis": "event", "event_times": units, "as_known": as_known}
    given = pa.table({**keys, _AT: times})
    return table.point_in_time(given, _AT, list(request.columns), ttl=request.ttl, **how)


def _keys(entities: pa.Table, column: str, table: Table, key: str) -> pa.ChunkedArray:
    if column not in entities.column_names:
        raise NotFoundError(
            f"column {column!r} of the entities",
            found=f"the columns {', '.join(entities.column_names)}",
            expected=f"the key {key!r} of {table.path}",
            action="Add the column, or map the join key to another one.",
        )
    type = table.schema.arrow_field(key).type
    try:
        return entities[column].cast(type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        raise InvalidError(
            f"column {column!r} of the entities",
            found=f"{entities[column].type}, of which a value is no {type}",
            expected=f"values of the key {key!r} of {table.path}",
            action="Give the column the type of the key.",
        ) from cause
