"""Checks which options and operations a table under barriers excludes. Pure.

Raises UnsupportedError for an operation or option that would change a complete barrier or is not cut at one,
InvalidError for rows without a writer.
"""

from __future__ import annotations

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
    join_options.HISTORY_OF,
    join_options.SAMPLES_OF,
    join_options.TILES_FROM,
    opt.DELETION_VECTORS_ENABLED,
)
# `full-compaction` emits only with full compactions: the changelog would not match the records that moved up (0042).
_PRODUCERS: Final = ("none", "input", "lookup")


def check_barriers(schema: TableSchema) -> None:
    """Refuse options that cannot be combined with barriers."""
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
    """Refuse rows that are appended without a writer."""
    if schema.typed_options.get(BARRIER_INTERVAL) is not None:
        raise InvalidError(
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
