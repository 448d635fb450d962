"""Which tables are and may be under barriers, and what is not done to them. Pure. Raises UnsupportedError for what
would break a complete barrier, or is not cut at one; InvalidError for rows without a writer, and for a table that is
under none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.schema import join_options
from widetable.schema import options as opt
from widetable.schema import retention_options as retention
from widetable.schema.barrier_options import BARRIER_INTERVAL, BARRIER_STAGE
from widetable.schema.option import Option
from widetable.schema.table_schema import TableSchema

# What takes rows away, makes rows without a writer, or finds rows by what changes without a
# commit of a writer. Asked by truth: an option that is given and says no, as
# `deletion-vectors.enabled` = false, is none.
_NOT_BESIDE: Final[tuple[Option[Any], ...]] = (
    retention.RECORD_LEVEL_EXPIRE_TIME,
    retention.PARTITION_EXPIRATION_TIME,
    join_options.LEFT,
    join_options.INDEX_OF,
    opt.DELETION_VECTORS_ENABLED,
)
# `full-compaction` emits with full compactions only: what moved up would not be what was emitted
# (0042).
_PRODUCERS: Final = ("none", "input", "lookup")


def interval_of(schema: TableSchema, path: str) -> int:
    """Of a table that must be under barriers, milliseconds. path: for messages."""
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
    """Of tables that come to the same barriers: that of each, by name, None for a table under none. subject: for
    messages.
    """
    first = next(iter(intervals.values()), None)
    if first is None or set(intervals.values()) != {first}:
        raise InvalidError(
            subject,
            found=", ".join(f"{name} with {_of(interval)}" for name, interval in intervals.items())
            or "none",
            expected=f"tables with one and the same {BARRIER_INTERVAL.key}",
            action="Name others, or put those that have no interval under barriers (docs/consistency.md, 'An existing "
            "table').",
        )
    return first


def _of(interval: int | None) -> str:
    return "no interval" if interval is None else f"the interval {interval} ms"


def check_barriers(schema: TableSchema) -> None:
    """Refuse options that do not go together with barriers.
    For a schema that is about to be published, and before writes, as another client may have
    published the newest one.
    """
    options = schema.typed_options
    if options.get(BARRIER_INTERVAL) is None:
        if options.get(BARRIER_STAGE):
            raise InvalidError(
                f"option {BARRIER_STAGE.key!r}",
                found=f"it without {BARRIER_INTERVAL.key}: no commit completes a barrier",
                expected="a table under barriers",
                action="Leave it out.",
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
    """Refuse what takes rows away or moves them between buckets: those of a complete barrier are where they were."""
    if schema.typed_options.get(BARRIER_INTERVAL) is not None:
        raise UnsupportedError(
            path,
            found=f"a commit that takes rows away or moves them, and {BARRIER_INTERVAL.key}",
            expected="appends and compactions",
            action="Write -D records with Catalog.writer, or use a table without the option.",
        )


def check_needs_no_writer(schema: TableSchema, path: str) -> None:
    """Refuse rows that nobody says the barrier of, before they are written."""
    if schema.typed_options.get(BARRIER_INTERVAL) is not None:
        raise no_writer(path)


def no_writer(path: str) -> InvalidError:
    """Of such rows."""
    return InvalidError(
        path,
        found=f"an append without a writer to a table with {BARRIER_INTERVAL.key}",
        expected="a writer that says to which barrier its records belong",
        action="Write with Catalog.writer.",
    )


def _unsupported(key: str, found: str, expected: str) -> UnsupportedError:
    return UnsupportedError(
        f"option {key!r}",
        found=f"{found}, and {BARRIER_INTERVAL.key}",
        expected=expected,
        action="Leave one of the two out.",
    )
