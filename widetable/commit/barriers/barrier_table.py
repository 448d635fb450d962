"""Checks which tables may be under barriers, and which operations these refuse. Pure.

Raises UnsupportedError for an operation or option that would change a complete barrier or is not cut at one;
InvalidError for rows without a writer, and for a table that is not under barriers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.messages.error_code import ErrorCode
from widetable.schema import join_options
from widetable.schema import options as opt
from widetable.schema import retention_options as retention
from widetable.schema.barrier_options import BARRIER_INTERVAL, BARRIER_STAGE
from widetable.schema.option import Option
from widetable.schema.table_schema import TableSchema

# Options that remove rows, create rows without a writer, or find rows by data that changes without
# a commit of a writer. Only a true value counts: `deletion-vectors.enabled` = false is allowed.
_NOT_BESIDE: Final[tuple[Option[Any], ...]] = (
    retention.RECORD_LEVEL_EXPIRE_TIME,
    retention.PARTITION_EXPIRATION_TIME,
    join_options.LEFT,
    join_options.INDEX_OF,
    opt.DELETION_VECTORS_ENABLED,
)
# `full-compaction` emits only with full compactions: the changelog would not match the records that moved up (0042).
_PRODUCERS: Final = ("none", "input", "lookup")


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


def check_barriers(schema: TableSchema) -> None:
    """Refuse options that cannot be combined with barriers.

    Called for a schema that is about to be published, and before writes, as another client may have published the
    newest schema.
    """
    options = schema.typed_options
    if options.get(BARRIER_INTERVAL) is None:
        if options.get(BARRIER_STAGE):
            raise InvalidError(
                f"option {BARRIER_STAGE.key!r}",
                found=f"a table without {BARRIER_INTERVAL.key}, in which no commit completes a barrier",
                expected=f"a table under barriers: option {BARRIER_STAGE.key!r} requires {BARRIER_INTERVAL.key}",
                action="Remove the option.",
            )
        return
    producer = options.get(opt.CHANGELOG_PRODUCER)
    if producer not in _PRODUCERS:
        raise _unsupported(
            opt.CHANGELOG_PRODUCER.key, repr(producer), f"one of {', '.join(_PRODUCERS)}"
        )
    if schema.num_buckets < 1:
        raise _unsupported("bucket", str(schema.num_buckets), "a fixed number of buckets")
    for option in _NOT_BESIDE:
        if options.get(option):
            raise _unsupported(option.key, repr(schema.options[option.key]), "no such option")


def check_rows_stay(schema: TableSchema, path: str) -> None:
    """Refuse a commit that removes rows or moves them between buckets: rows of a complete barrier do not change."""
    if schema.typed_options.get(BARRIER_INTERVAL) is not None:
        raise UnsupportedError(
            path,
            found=f"a commit that removes rows or moves them, and {BARRIER_INTERVAL.key}",
            expected="appends and compactions",
            action="Write -D records with Catalog.writer, or use a table without the option.",
        )


def check_needs_no_writer(schema: TableSchema, path: str) -> None:
    """Refuse rows without a barrier before they are written."""
    if schema.typed_options.get(BARRIER_INTERVAL) is not None:
        raise no_writer(path)


def no_writer(path: str) -> InvalidError:
    """Return the error for rows that are appended without a writer."""
    return InvalidError(
        path,
        found=f"an append without a writer to a table with {BARRIER_INTERVAL.key}",
        expected="a writer that labels its records with a barrier",
        action="Write with Catalog.writer.",
        code=ErrorCode.WRITER_NEEDED,
    )


def _unsupported(key: str, value: str, expected: str) -> UnsupportedError:
    return UnsupportedError(
        f"option {key!r}",
        found=f"{value}, and {BARRIER_INTERVAL.key}",
        expected=expected,
        action="Remove one of the two options.",
    )
