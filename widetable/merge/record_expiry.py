"""Which merged rows expire: those whose `record-level.time-field` is more than `record-level.expire-time` ago.

In: a schema, the time. Out: for a plan, which of its rows expire. Only rows that are merged from all records of their
key may expire, so an older row never replaces an expired one (docs/decisions/0037).

    INT                          seconds since 1970
    BIGINT                       seconds since 1970, or milliseconds from 10^12 on
    TIMESTAMP, with or without   its seconds, taken as UTC; rounded down, also before 1970
    DATE                         seconds of its midnight, taken as UTC
    null                         stays

Source: Paimon `RecordLevelExpire`, `SchemaValidation`. Pure. `check_record_expiry` raises InvalidError for options that
contradict each other, UnsupportedError for a table whose rows are merged only when they are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable.errors import InvalidError, UnsupportedError
from widetable.kernels.array_types import Mask
from widetable.kernels.arrow_buffers import fixed_values
from widetable.merge.engine import PartialMerge, engine_of
from widetable.merge.plan import MergePlan, Pick
from widetable.merge.window import Window
from widetable.schema import join_options
from widetable.schema import options as opt
from widetable.schema import retention_options as retention
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import TableSchema

# On disk: never change. A BIGINT from here on counts milliseconds: September 2001.
_MIN_MILLIS: Final = 1_000_000_000_000
_PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_TYPES: Final = ("INT", "BIGINT", "DATE", "TIMESTAMP", "TIMESTAMP_LTZ")
_SECONDS_OF_DAY: Final = 86_400
_MIN_INTERVAL_MILLIS: Final = 60_000
_MAX_INTERVAL_MILLIS: Final = 86_400_000


@dataclass(frozen=True)
class RecordExpiry:
    """The rule by which rows expire. column: the time of a row; before_seconds: rows with an earlier time expire.

    Seconds since 1970, UTC. The limit is fixed when a compaction begins, so that it is equal for all
    key ranges.
    """

    column: str
    before_seconds: int

    def is_old(self, values: pa.Array) -> Mask:
        """Return bool[n]: whether each value of the column is too old."""
        if values.null_count == len(values):
            return np.zeros(len(values), np.bool_)
        seconds = _seconds(values)
        old: Mask = seconds < self.before_seconds
        if values.null_count:
            old &= pc.is_valid(values).to_numpy(zero_copy_only=False)
        return old

    def gone(self, window: Window, plan: MergePlan) -> npt.NDArray[np.int64]:
        """Return the places of the rows of a plan that exist and expire."""
        keys = np.flatnonzero(~is_retraction(plan.kinds))
        source = next((each for each in plan.sources if self.column in each.columns), None)
        is_absent = isinstance(source, Pick) and not window.holders(self.column)
        if source is None or is_absent:
            return keys[:0]
        return keys[self.is_old(source.take(window, self.column, keys))]


def record_expiry(schema: TableSchema, now_seconds: int) -> RecordExpiry | None:
    """Return the expiry rule of a table; None where rows never expire."""
    kept_millis = schema.typed_options.get(retention.RECORD_LEVEL_EXPIRE_TIME)
    column = schema.typed_options.get(retention.RECORD_LEVEL_TIME_FIELD)
    if kept_millis is None or column is None:
        return None
    return RecordExpiry(column, now_seconds - kept_millis // 1000)


def expires_records(schema: TableSchema) -> bool:
    """Whether rows may expire because they are too old."""
    return schema.typed_options.get(retention.RECORD_LEVEL_EXPIRE_TIME) is not None


def look_interval_millis(schema: TableSchema) -> int | None:
    """Return how often to check for expired rows: at most a tenth of their time late, but at most once a minute, and at
    least once a day. None: never.

        expire-time   1 min    1 h     1 d      30 d
        check every   1 min    6 min   2.4 h    1 d
    """
    kept_millis = schema.typed_options.get(retention.RECORD_LEVEL_EXPIRE_TIME)
    if kept_millis is None:
        return None
    return int(min(max(kept_millis // 10, _MIN_INTERVAL_MILLIS), _MAX_INTERVAL_MILLIS))


def check_record_expiry(schema: TableSchema) -> None:
    """Refuse options that do not define which rows expire, and a table whose compactions cannot drop them."""
    time, field = retention.RECORD_LEVEL_EXPIRE_TIME, retention.RECORD_LEVEL_TIME_FIELD
    column = schema.typed_options.get(field)
    if column is None:
        if expires_records(schema):
            raise InvalidError(
                f"option {time.key!r}",
                found=f"no {field.key!r}",
                expected="the column that says how old a row is",
                action=f"Set {field.key!r} as well.",
            )
        return
    kind = schema.by_name[column].type.root if column in schema.by_name else None
    if kind not in _TYPES:
        raise InvalidError(
            f"option {field.key!r}",
            found=f"{column!r}, which is " + ("no column" if kind is None else f"of type {kind}"),
            expected="a column of type INT, BIGINT, DATE or TIMESTAMP",
            action="Name another column.",
        )
    if expires_records(schema):
        _check_rows_may_expire(schema)


def _check_rows_may_expire(schema: TableSchema) -> None:
    """Refuse record expiry in a derived table: its rows follow those of others, and a row that
    expired on its own would come back. Refuse it where no compaction merges: no compaction sees
    all records of a key then.
    """
    time = retention.RECORD_LEVEL_EXPIRE_TIME
    derived = (
        join_options.LEFT,
        join_options.INDEX_OF,
        join_options.HISTORY_OF,
        join_options.SAMPLES_OF,
        join_options.TILES_FROM,
    )
    for option in derived:
        other = schema.typed_options.get(option)
        if other is not None:
            raise InvalidError(
                f"option {time.key!r}",
                found=f"{schema.options[time.key]!r} in a table that is derived from {other}",
                expected="the option in that table, whose rows this one follows",
                action="Set the option there.",
            )
    if engine_of(schema).partial_merge(schema, has_deletes=False) is PartialMerge.NEVER:
        raise UnsupportedError(
            f"option {time.key!r}",
            found=f"{schema.options[time.key]!r} next to {opt.SEQUENCE_FIELD.key!r}",
            expected="a table whose compactions merge its rows",
            action="Order the columns by sequence groups (fields.<column>.sequence-group) instead, or delete old rows.",
        )


def _seconds(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return int64[n]: seconds since 1970; the value at a null is undefined."""
    kind = values.type
    if pa.types.is_int32(kind):
        return fixed_values(values, np.int32).astype(np.int64)
    if pa.types.is_date32(kind):
        return fixed_values(values, np.int32).astype(np.int64) * _SECONDS_OF_DAY
    numbers: npt.NDArray[np.int64] = fixed_values(values, np.int64)
    if pa.types.is_timestamp(kind):
        return numbers // _PER_SECOND[kind.unit]
    return np.where(numbers >= _MIN_MILLIS, numbers // 1000, numbers)
