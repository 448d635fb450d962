"""Plans windows over tile tables of several sizes: whole coarse tiles in the middle, finer ones at both ends.

In: the schema of the finest table and those of the coarser ones. Out: one plan for each table, the finest first. Pure.
Raises InvalidError for sizes that do not divide each other and tables that do not fit, and what `window_plan` raises.

    5 min      user, tile, clicks sum      the windows are planned here; their lengths are multiples of its size
    1 h        user, tile, clicks sum      the same entity, and columns of the same type and function
    1 d        ..
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from widetable.arguments import instance, refused
from widetable.errors import InvalidError, UnsupportedError
from widetable.operations.windows.window_plan import (
    MICROS,
    WindowPlan,
    known_size,
    plan_windows,
)
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema

T = TypeVar("T")


class Sized(NamedTuple):
    """The schema of a coarse tile table. size: as given, None for that of its option."""

    schema: TableSchema
    size: Any


def coarse_tables(coarse: Any, kind: type[T]) -> list[tuple[Any, T]]:
    """Check the coarse tables: a dict of sizes to tables, or a list of tables whose option says the size."""
    is_list = isinstance(coarse, list | tuple)
    if not is_list and not isinstance(coarse, Mapping):
        raise refused(coarse, "coarse", "a list of tables, or a dict of sizes to tables")
    pairs = [(None, each) for each in coarse] if is_list else list(coarse.items())
    for _, each in pairs:
        instance(each, kind, "coarse")
    return pairs


def plan_sizes(
    fine: TableSchema, coarse: Sequence[Sized], features: Any, tile: Any, tile_size: Any
) -> list[WindowPlan]:
    """Return a plan for each table, the finest first. Coarse tables come in any order; each keeps its place."""
    finest = plan_windows(fine, features, tile, tile_size)
    plans = [finest]
    for number, each in enumerate(coarse):
        size = known_size(each.schema, each.size)
        if size is None:
            raise InvalidError(
                f"coarse[{number}]",
                found="a table that does not say how long its tiles are",
                expected=f"the option {opt.TILE_SIZE.key}, or a dict of sizes to tables",
                action="Say how long the tiles are.",
            )
        plan = plan_windows(each.schema, features, tile, None, size)
        _check_same(finest, plan, number)
        plans.append(plan)
    _check_sizes(plans)
    return plans


def _check_same(finest: WindowPlan, plan: WindowPlan, number: int) -> None:
    fields, others = (
        pa.schema([each.schema.arrow_field(name).remove_metadata() for name in each.columns])
        for each in (finest, plan)
    )
    kinds = [[(field.name, field.type) for field in schema] for schema in (fields, others)]
    if set(kinds[0]) != set(kinds[1]):
        raise InvalidError(
            f"coarse[{number}]",
            found=f"a table with {', '.join(f'{name} {kind}' for name, kind in kinds[1])}",
            expected=f"the columns of the finest table: {', '.join(f'{n} {k}' for n, k in kinds[0])}",
            action="Use tables of the same entity and columns.",
        )
    for window in finest.windows:
        if pa.types.is_floating(fields.field(window.column).type) and not window.function.picks:
            raise UnsupportedError(
                f"feature {window.name!r}",
                found=f"a sum of {window.type} values over tiles of several sizes",
                expected="integers or DECIMAL, whose sums do not depend on the tiles that are added",
                action="Leave `coarse` out, or use DECIMAL.",
            )


def _check_sizes(plans: Sequence[WindowPlan]) -> None:
    sizes = [plan.size for plan in plans]
    ascending = sorted(sizes)
    pairs = pairwise(ascending)
    if ascending[0] != sizes[0] or any(large % small or large == small for small, large in pairs):
        raise InvalidError(
            "coarse",
            found=f"tiles of {', '.join(str(size // MICROS) for size in sizes)} ms",
            expected="sizes of which each is a multiple of the one before, the table's own the smallest",
            action="Use tables with other tiles.",
        )
