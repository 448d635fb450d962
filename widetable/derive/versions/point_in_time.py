"""Adds to each row of a training set the features that were known at its time: `Table.point_in_time`.

    snapshots      10:00 city=Oslo        10:05 city=Rome        10:07 deleted
    rows           09:59 null    10:04 Oslo    10:05 Rome    10:08 null

A feature is what a lookup would have returned at the row's time, so nothing that was written later is in it.
In: rows in any form that `write` takes. Out: an Arrow table. Raises NotFoundError rather than answering with nulls for
a time whose snapshots have expired, and what wanted_features and lookups raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final

import pyarrow as pa

from widetable.derive.versions.age_rule import AgeRule
from widetable.derive.versions.held_past import HeldPast, held_past
from widetable.derive.versions.wanted_features import WantedFeatures, wanted_features
from widetable.operations.handle.open_table import OpenTable

# Metadata of the result.
BASIS: Final = "widetable.basis"
FINAL_BEFORE: Final = "widetable.final_before_micros"


def point_in_time(
    table: OpenTable,
    entities: Any,
    at: str = "event_timestamp",
    columns: Sequence[str] | None = None,
    *,
    on: Any = None,
    basis: str = "known",
    ttl: Any = None,
    event_times: Any = None,
    prefix: str = "",
    as_known: bool = False,
) -> pa.Table:
    """Add to each row of a training set the features of its key at its time, and nothing that came later.

    The values come from the history of the table (option `history.table`) and from the snapshots that are kept.

    Parameters
    ----------
    entities : Arrow data, frame, dict of columns or list of dicts
        Rows with the primary key and a time; other columns, such as labels, are kept. A key may come twice.
    at : str, default "event_timestamp"
        The column of times: TIMESTAMP of any unit, or DATE. Without a zone it is UTC.
    columns : list of str, default None
        The columns of the table to add, in this order. None: all but the primary key.
    on : list of str or dict of str to str, default None
        The columns of `entities` that hold the primary key, or a dict of them to key columns. None: equal names.
    basis : str, default "known"
        `known`: what a lookup would have returned at the time. `event`: the newest value whose own time is not later.
    ttl : timedelta, str or int, default None
        The highest age of a feature, such as "60 min", or milliseconds; an older one is null. None: any age.
    event_times : list of str or dict of str to str, default None
        For `event`: the columns of times; numbers with `seconds`, `millis`, `micros` or `nanos`. None: those that
        order sequence groups, and `sequence.field`, if they are TIMESTAMP or DATE.
    prefix : str, default ""
        A text before the name of each added column.
    as_known : bool, default False
        For `event`: count only what had been committed by the time.

    Returns
    -------
    pyarrow.Table
        One row per row of `entities`, in their order, with their columns first. Features are null for a key that was
        not there. Later commits change no answer for a time before `widetable.final_before_micros` (metadata).

    Raises
    ------
    NotFoundError
        A time is before the oldest version that is kept, or there is no such column.
    InvalidError
        A time is null, an argument does not fit, or an added column has the name of one of `entities`.

    Examples
    --------
    >>> rows = {"id": [2], "at": pa.array(["2100-01-01"]).cast(pa.date32()), "label": [1]}
    >>> users.point_in_time(rows, "at").select(["id", "label", "city"]).to_pylist()
    [{'id': 2, 'label': 1, 'city': 'Bergen'}]
    """
    rule = AgeRule(basis, ttl, event_times, as_known)
    return _read(table, wanted_features(table.schema, entities, at, columns, on, prefix), rule)


def _read(table: OpenTable, wanted: WantedFeatures, rule: AgeRule) -> pa.Table:
    with ExitStack() as stack:
        return answered(held_past(table, stack), wanted, rule)


def answered(past: HeldPast, wanted: WantedFeatures, rule: AgeRule) -> pa.Table:
    """Return the rows of a checked call with their features, while the past is held."""
    columns = rule.columns(past, wanted.given, wanted.features)
    return pa.Table.from_arrays(
        [*wanted.given.rows.columns, *columns],
        schema=pa.schema(
            [*wanted.given.rows.schema, *wanted.fields], metadata=metadata_of(past, rule)
        ),
    )


def metadata_of(past: HeldPast, rule: AgeRule) -> dict[str, str]:
    """Return what the result says about itself."""
    metadata = {BASIS: rule.basis}
    if rule.is_final:
        metadata[FINAL_BEFORE] = str(past.moments.final_before_micros)
    return metadata
