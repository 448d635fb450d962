"""Checks that a table of large tiles can be kept from one of small tiles, and says how their keys fit.

    fine     user, tile | clicks sum, top max, note last_value     widetable.tile-size = 1 h
    coarse   user, tile | clicks sum, top max                      widetable.tile-size = 1 d, tiles.from = db.fine

Both have one key, which ends with the start of a tile. Each column of the coarse table is one of the fine table, of the
same type and function. The function does not go by the order of events, so the value of all events is that of the
values of their tiles. In: both schemas. Out: a `CoarsePlan`. Pure. Raises InvalidError for the option or column.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import pyarrow as pa

from widetable.errors import InvalidError
from widetable.merge.aggregate_functions import function_of
from widetable.merge.engine import engine_of
from widetable.operations.windows.window_plan import MICROS
from widetable.schema import options as opt
from widetable.schema.join_options import TILES_FROM
from widetable.schema.table_schema import TableSchema

# More fine tiles in a coarse one would make each late event cost too much: keep a size between.
_MOST_TILES: Final = 1 << 14


class CoarsePlan(NamedTuple):
    """key: of both tables, the tile last. values: the other columns. Sizes are in microseconds."""

    key: tuple[str, ...]
    values: tuple[str, ...]
    fine_size: int
    coarse_size: int

    @property
    def tile(self) -> str:
        """The column with the start of the tile."""
        return self.key[-1]

    @property
    def columns(self) -> list[str]:
        """All columns of the coarse table that are written."""
        return [*self.key, *self.values]


def coarse_plan(fine: TableSchema, coarse: TableSchema, fine_name: str) -> CoarsePlan:
    """Return the plan of a coarse table. fine_name: for errors."""
    sizes = _size(fine, fine_name), _size(coarse, "this table")
    tiles = sizes[1] // sizes[0]
    if sizes[1] % sizes[0] or not 1 < tiles <= _MOST_TILES:
        raise _unfit(
            f"option {opt.TILE_SIZE.key!r}",
            f"tiles of {sizes[1] // MICROS} ms, made of tiles of {sizes[0] // MICROS} ms",
            f"a multiple of them, 2 to {_MOST_TILES} times as long",
            "Choose another size, or make a table of a size between.",
        )
    keys = [
        [(name, _type(schema, name)) for name in schema.primary_keys] for schema in (fine, coarse)
    ]
    if keys[0] != keys[1] or not pa.types.is_timestamp(keys[0][-1][1]):
        printed = [", ".join(f"{name} {kind}" for name, kind in key) for key in keys]
        raise _unfit(
            "primary key",
            printed[1],
            f"that of {fine_name}, which ends with a TIMESTAMP: {printed[0]}",
            "Make the table with that primary key.",
        )
    values = tuple(name for name in coarse.names if name not in coarse.primary_keys)
    for name in values:
        _check_column(fine, coarse, name, fine_name)
    return CoarsePlan(tuple(coarse.primary_keys), values, *sizes)


def _size(schema: TableSchema, name: str) -> int:
    millis = schema.typed_options.get(opt.TILE_SIZE)
    if millis is None:
        raise _unfit(
            f"option {opt.TILE_SIZE.key!r} of {name}",
            "no value",
            "the length of its tiles",
            "Set the option.",
        )
    return millis * MICROS


def _check_column(fine: TableSchema, coarse: TableSchema, name: str, fine_name: str) -> None:
    sides = [engine_of(schema).filled_columns(schema).get(name) for schema in (fine, coarse)]
    printed = [
        "no column" if side is None else f"{_type(side.schema, name)} with {side.function}"
        for side in sides
    ]
    of_fine = sides[0]
    if of_fine is None or printed[0] != printed[1] or function_of(of_fine).by_order(of_fine):
        raise _unfit(
            f"column {name!r}",
            f"{printed[1]} here, {printed[0]} in {fine_name}",
            "one type and function in both, such as sum, min or max, which do not go by the order of events",
            "Leave the column out.",
        )


def _type(schema: TableSchema, name: str) -> pa.DataType:
    return schema.arrow_field(name).type


def _unfit(subject: str, actual: str, expected: str, action: str) -> InvalidError:
    return InvalidError(
        f"{subject}, with {TILES_FROM.key}", found=actual, expected=expected, action=action
    )
