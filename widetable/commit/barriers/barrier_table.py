"""The barrier interval of a table, and that of tables that share barriers. Pure.

Raises InvalidError for a table that is not under barriers, and for tables without a common interval.
`acceptance.barrier_rules` has the options and operations that barriers exclude.
"""

from __future__ import annotations

from collections.abc import Mapping

from widetable.errors import InvalidError
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.table_schema import TableSchema


def tick_of(time_millis: int, interval_millis: int) -> int:
    """Return the begin of the interval that contains a time, epoch milliseconds."""
    return time_millis // interval_millis * interval_millis


def interval_of(schema: TableSchema, path: str) -> int:
    """Return the barrier interval of a table.

    Parameters
    ----------
    schema : TableSchema
        The schema of the table.
    path : str
        Its path, for messages.

    Returns
    -------
    int
        Milliseconds.

    Raises
    ------
    InvalidError
        The table is not under barriers.
    """
    interval = schema.typed_options.get(BARRIER_INTERVAL)
    if interval is None:
        raise InvalidError(
            path,
            found=f"a table without {BARRIER_INTERVAL.key}",
            expected="a table under barriers",
            action="Write with Table.write and scan a snapshot, or set the option.",
        )
    return interval


def one_interval(subject: str, intervals: Mapping[str, int | None]) -> int:
    """Return the common interval of tables that share barriers, or raise.

    intervals: of each table by name, None for a table that is not under barriers. subject: for messages.
    """
    first = next(iter(intervals.values()), None)
    if first is None or set(intervals.values()) != {first}:
        raise InvalidError(
            subject,
            found=", ".join(
                f"{name} with {_interval_text(interval)}" for name, interval in intervals.items()
            )
            or "none",
            expected=f"tables with the same {BARRIER_INTERVAL.key}",
            action="Name other tables, or put those without an interval under barriers (docs/consistency.md, 'An "
            "existing table').",
        )
    return first


def _interval_text(interval: int | None) -> str:
    return "no interval" if interval is None else f"the interval {interval} ms"
