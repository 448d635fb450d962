"""The columns that have a time of their own: for each feature, the column that says when it happened.

    table                                       event_times                    groups
    fields.clicked_at.sequence-group = clicks   {"clicked_at": "micros"}       clicked_at: clicks, clicked_at
    sequence.field = at (TIMESTAMP)             None                           at: all columns

A column of a sequence group has the time of its group. In a table without groups, and for columns outside of groups, it
is the column that the caller names, or `sequence.field`. Columns of times are TIMESTAMP or DATE, or numbers with a
unit. Where several columns order the records, one of them is the time, and the others decide between equal times.

A record alone says the value of a column that it replaces; not of one that a function computes from many records, such
as a sum, nor of one that keeps its value where the record has none. Rows count for these, and no records.

In: the schema and what a caller gives. Out: groups of features. Pure. Raises InvalidError for a feature without a time
and for a time without a unit, NotFoundError for a missing column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from widetable.arguments import mapping, names, one_of, refused
from widetable.errors import InvalidError
from widetable.merge.aggregate_functions import function_of
from widetable.merge.engine import engine_of
from widetable.merge.widened_rules import replaces
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema

# Micros of a unit; nanoseconds are divided.
UNITS: Final = ("seconds", "millis", "micros", "nanos")


class EventGroup(NamedTuple):
    """Features that one column dates. unit: of numbers; None for a column of times. ties: the other columns that order
    records, in their order; is_descending: whether the smallest value of these wins. by_rows: records do not count.
    """

    time: str
    unit: str | None
    features: tuple[str, ...]
    ties: tuple[str, ...] = ()
    is_descending: bool = False
    by_rows: bool = False


def event_groups(
    schema: TableSchema, event_times: Any, features: Sequence[str]
) -> list[EventGroup]:
    """Divide the features by the column that dates them."""
    units = time_units(schema, event_times)
    dated = {name: _time_of(schema, name, units) for name in features}
    undated = next((name for name, time in dated.items() if time is None), None)
    if undated is not None:
        raise InvalidError(
            f"column {undated!r}",
            found="a feature without a time of its own",
            expected="features of which event_times, a sequence group or sequence.field names the time",
            action="Name the column of its time in event_times, or leave the feature out of columns.",
        )
    members: dict[tuple[str, bool], list[str]] = {}
    for name, time in dated.items():
        if time is not None:
            members.setdefault((time, not _is_replaced(schema, name)), []).append(name)
    return [
        EventGroup(time, units.get(time), tuple(group), *_ties(schema, time), by_rows)
        for (time, by_rows), group in members.items()
    ]


def time_units(schema: TableSchema, event_times: Any) -> dict[str, str | None]:
    """Return the columns of times, and the unit of those that are numbers."""
    if event_times is None:
        groups = [name for group in schema.sequence_groups for name in group.sequence]
        candidates = dict.fromkeys([*groups, *schema.sequence_fields])
        return {name: None for name in candidates if _is_time(schema, name)}
    if isinstance(event_times, list | tuple):
        event_times = dict.fromkeys(names(event_times, "event_times"))
    units: dict[str, str | None] = {}
    for name, unit in mapping(event_times, "event_times").items():
        schema.field(name)
        if unit is not None:
            one_of(unit, UNITS, f"event_times[{name!r}]")
        is_number = pa.types.is_integer(schema.arrow_field(name).type)
        if not is_number and not _is_time(schema, name):
            raise refused(name, "event_times", "columns of type TIMESTAMP, DATE, INT or BIGINT")
        if is_number == (unit is None):
            expected = (
                f"one of {', '.join(UNITS)}" if is_number else "None: it is a column of times"
            )
            raise refused(unit, f"event_times[{name!r}]", expected)
        units[name] = unit
    return units


def _is_time(schema: TableSchema, name: str) -> bool:
    kind = schema.arrow_field(name).type
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _time_of(schema: TableSchema, name: str, units: dict[str, str | None]) -> str | None:
    """Return the column that dates a feature, None without one."""
    for group in schema.sequence_groups:
        if name in group.columns:
            return next((time for time in group.sequence if time in units), None)
    grouped = {column for group in schema.sequence_groups for column in group.columns}
    return next((time for time in units if time not in grouped), None)


def _ties(schema: TableSchema, time: str) -> tuple[tuple[str, ...], bool]:
    """Return the columns that order records of one time, and whether their smallest value wins."""
    for group in schema.sequence_groups:
        if time in group.sequence:
            return tuple(name for name in group.sequence if name != time), False
    if time not in schema.sequence_fields:
        return (), False
    is_descending = schema.typed_options.get(opt.SEQUENCE_SORT_ORDER) == "descending"
    return tuple(name for name in schema.sequence_fields if name != time), is_descending


def _is_replaced(schema: TableSchema, name: str) -> bool:
    """Return whether the newest record alone says the value of a column."""
    filled = engine_of(schema).filled_columns(schema).get(name)
    if filled is not None:
        return replaces(filled, function_of(filled))
    # A null of another column of partial-update leaves the value as it is.
    return bool(schema.groups_of([name]) or engine_of(schema).effective_nulls(schema, [name]))
