"""Checks windows against the schema of a tile table: its key, the functions of its columns, the size of its tiles.

In: the schema, the features by name, and the arguments of a call. Out: a `WindowPlan`. Pure. Raises InvalidError for
features that the table does not have, UnsupportedError for a table of another engine or key, NotFoundError for a
missing column.

    primary key (user, tile)      entity: user, then the start of the tile
    clicks  sum                   window("clicks", "sum" or "count", ..)
    spent   max                   window("spent", "max", ..)
    widetable.tile-size = 1 h     each length is a multiple of it
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.arguments import mapping, refused, text
from widetable.errors import InvalidError, UnsupportedError
from widetable.merge.aggregate_functions import function_of
from widetable.merge.engine import engine_of
from widetable.merge.merge_engine import RowOrigin
from widetable.operations.windows.window import (
    FUNCTIONS,
    TimeWindow,
    WindowFunction,
    duration_millis,
)
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema

MICROS: Final = 1000


class PlannedWindow(NamedTuple):
    """A feature. micros: the length of the window. type: that of its values."""

    name: str
    column: str
    function: WindowFunction
    micros: int
    type: pa.DataType


class WindowPlan(NamedTuple):
    """The features of a tile table. entity: the primary key without the tile, partition columns included. tile: the
    column with the start of the tile. size: that of a tile, in microseconds. extra: further columns that are read.
    """

    schema: TableSchema
    entity: tuple[str, ...]
    tile: str
    size: int
    windows: tuple[PlannedWindow, ...]
    extra: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read: the key, then those of the features, each once."""
        return (*self.entity, self.tile, *self.values)

    @property
    def values(self) -> tuple[str, ...]:
        """The columns of the features, each once, and the further ones."""
        return (*dict.fromkeys(window.column for window in self.windows), *self.extra)

    @property
    def longest(self) -> int:
        """The length of the longest window, in microseconds."""
        return max(window.micros for window in self.windows)

    @property
    def is_together(self) -> bool:
        """Whether all tiles of an entity lie in one bucket, beside one another."""
        schema = self.schema
        first = schema.trimmed_primary_key[: len(self.entity) - len(schema.partition_keys)]
        is_first = set(first) | set(schema.partition_keys) == set(self.entity)
        return is_first and schema.num_buckets > 0 and set(schema.bucket_keys) <= set(self.entity)


def plan_windows(
    schema: TableSchema, features: Any, tile: Any, tile_size: Any, coarse_size: int | None = None
) -> WindowPlan:
    """Check the features of a tile table. tile_size: None for that of the table, or of all lengths. coarse_size: that
    of tiles, in microseconds, that serve only a part of each window.
    """
    accept(schema, Use.LOOK_UP)
    given = checked_features(features)
    tile = text(tile, "tile")
    entity = _entity(schema, tile)
    windows = tuple(_planned(schema, name, window) for name, window in given.items())
    size = coarse_size or _size(schema, windows, tile_size)
    return WindowPlan(schema, entity, tile, size, windows)


def checked_features(features: Any) -> dict[str, TimeWindow]:
    """Check the features by name."""
    given = mapping(features, "features")
    for name, window in given.items():
        if not isinstance(window, TimeWindow):
            raise refused(window, f"feature {name!r}", "a widetable.window")
    if not given:
        raise refused(features, "features", "one feature or more, by name")
    return given


def _entity(schema: TableSchema, tile: str) -> tuple[str, ...]:
    """Return the columns of the entity. Raises for a table whose key does not end with the start of a tile."""
    field = schema.arrow_field(tile)
    keys = schema.primary_keys
    within = schema.trimmed_primary_key
    if not within or within[-1] != tile or len(keys) < 2:
        raise _unfit(
            f"column {tile!r}",
            f"a table with the primary key ({', '.join(keys)})",
            f"a primary key of the entity's columns, and {tile!r} as its last column",
            "Name the column with the start of a tile, or make a tile table.",
        )
    if not pa.types.is_timestamp(field.type):
        raise _unfit(
            f"column {tile!r}",
            f"the type {field.type}",
            "a TIMESTAMP",
            "Make the tile a TIMESTAMP.",
        )
    if engine_of(schema).origin is not RowOrigin.FUNCTIONS:
        raise _unfit(
            "table",
            f"merge-engine = {schema.options.get(opt.MERGE_ENGINE.key, opt.MERGE_ENGINE.default)}",
            "merge-engine = aggregation, which adds up the events of a tile",
            "Use a table of tiles.",
        )
    return tuple(name for name in keys if name != tile)


def _planned(schema: TableSchema, name: str, window: TimeWindow) -> PlannedWindow:
    kind = schema.arrow_field(window.column).type
    function = FUNCTIONS[window.function]
    column = engine_of(schema).filled_columns(schema).get(window.column)
    if column is None or function_of(column) is not function.fills:
        actual = "none, because it orders records or is in the key"
        raise InvalidError(
            f"feature {name!r}",
            found=f"column {window.column!r}, whose aggregate function is "
            f"{actual if column is None else column.function}",
            expected=f"a column with the aggregate function {function.fills_name}, for {window.function!r}",
            action="Name another column or function.",
        )
    if function.counts and not pa.types.is_integer(kind):
        raise InvalidError(
            f"feature {name!r}",
            found=f"column {window.column!r} of the type {kind}",
            expected="a column of integers that counts events, for 'count'",
            action="Name another column, or use 'sum'.",
        )
    result = pa.int64() if function.counts else kind
    return PlannedWindow(name, window.column, function, window.length_millis * MICROS, result)


def known_size(schema: TableSchema, tile_size: Any) -> int | None:
    """Return the size of a tile in microseconds: the given one or the table's, which must agree; None for neither."""
    of_table = schema.typed_options.get(opt.TILE_SIZE)
    if tile_size is None:
        return None if of_table is None else of_table * MICROS
    millis = duration_millis(tile_size, "tile_size")
    if of_table not in (None, millis):
        raise refused(tile_size, "tile_size", f"{opt.TILE_SIZE.key} of the table, {of_table} ms")
    return millis * MICROS


def _size(schema: TableSchema, windows: Sequence[PlannedWindow], tile_size: Any) -> int:
    """Return the size of a tile in microseconds: the known one, or the greatest divisor of the lengths."""
    size = known_size(schema, tile_size) or math.gcd(*(window.micros for window in windows))
    for window in windows:
        if window.micros % size:
            raise InvalidError(
                f"feature {window.name!r}",
                found=f"a window of {window.micros // MICROS} ms over tiles of {size // MICROS} ms",
                expected="a length that is a multiple of the size of a tile",
                action="Correct the length, or tile_size.",
            )
    return size


def _unfit(subject: str, actual: str, expected: str, action: str) -> UnsupportedError:
    return UnsupportedError(subject, found=actual, expected=expected, action=action)
