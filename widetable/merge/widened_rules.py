"""Rules for the columns that a widener writes, and for those that each of its records must carry. Pure.

    widened    the last record replaces the value: no aggregate function but last_value, nullable, no circle of options
    carried    columns that no record may lack besides the key, with the row's values: no aggregate function, which
               would count them twice; none at all under barriers, where newer records may have other values

A widener writes its own records into the wide table: the key, its columns and a sequence,
and the columns that a batch must have. These records must change nothing else of the row, and
later ones must replace the values of earlier ones.

    a widens by x, b widens by a's y     in order: b waits for a
    a widens by b's z, b by a's y        a circle: each waits for the other

Raises InvalidError that names the option.
"""

from __future__ import annotations

from itertools import chain
from typing import Final

from widetable.errors import InvalidError
from widetable.merge.aggregate_columns import aggregate_column
from widetable.merge.aggregate_function import Aggregate, AggregateColumn, Grouping
from widetable.merge.aggregate_functions import AGGREGATES, function_of
from widetable.merge.engine import ENGINES, unchecked_engine
from widetable.schema import options as opt
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.derived_options import (
    WidenOption,
    check_column,
    widen_options,
    wrong_option,
)
from widetable.schema.table_schema import TableSchema
from widetable.storage.paths import check_name

# The length of the other parts of a file name that contains a foreign key's name.
_AROUND_NAME_BYTES: Final = 64


def check_widened(schema: TableSchema) -> None:
    """Check all widen options of a table, as far as the other tables are not needed.

    `derive.widen_schema`, which can read the dimension, checks that it has these columns and a key that fits.
    """
    options = widen_options(schema.options)
    for widen in options:
        _check_group(schema, widen)
    for widen in options:
        _check_columns(schema, widen)
        _check_carried(schema, widen)
        _check_no_circle(widen, options)


def carried_columns(schema: TableSchema, option: WidenOption) -> list[str]:
    """Return the key, and the columns that no batch may lack, with the rest of their sequence groups."""
    required = {*schema.required_names, *schema.sequence_fields}
    groups = [group.columns for group in schema.sequence_groups]
    names = (*schema.primary_keys, *required, *chain(*(g for g in groups if required & set(g))))
    return [name for name in dict.fromkeys(names) if name not in option.columns]


def _check_group(schema: TableSchema, widen: WidenOption) -> None:
    """Check that the columns exist and form a separate sequence group, under the engine that has such groups."""
    check_column(schema, widen.key, widen.column)
    # Names of leases contain it.
    check_name(widen.column, "widened foreign key", _AROUND_NAME_BYTES)
    if not unchecked_engine(schema.typed_options).has_groups:
        key = opt.MERGE_ENGINE.key
        engines = " or ".join(repr(n) for n, each in ENGINES.items() if each.has_groups)
        expected = f"{engines}, which {widen.key!r} requires"
        raise wrong_option(key, repr(schema.options.get(key)), expected)
    # The group must have exactly these columns: any other would be written without its sequence.
    own = (widen.sequence, *widen.columns)
    for name in own:
        check_column(schema, widen.key, name)
    groups = {group.sequence: set(group.protected) for group in schema.sequence_groups}
    if groups.get((widen.sequence,)) != set(widen.columns):
        listed = ",".join(widen.columns)
        raise wrong_option(
            widen.key,
            "columns that do not form a separate sequence group",
            f"fields.{widen.sequence}.sequence-group = {listed}",
        )
    if widen.column in widen.columns:
        raise wrong_option(
            widen.key, f"{widen.column!r} among the columns", "columns besides the foreign key"
        )


def _check_columns(schema: TableSchema, widen: WidenOption) -> None:
    for name in (*widen.columns, widen.sequence):
        if not schema.field(name).type.nullable:
            raise _wrong(widen, f"the column {name!r} NOT NULL, which it widens", "a nullable one")
        column = aggregate_column(schema, name)
        if column is not None and not replaces(column, function_of(column)):
            replacing = [repr(n) for n, each in AGGREGATES.items() if replaces(column, each)]
            raise _wrong(
                widen,
                f"the function {column.function!r} of the column {name!r}, which it widens",
                f"none, or {' or '.join(replacing)}",
            )


def replaces(column: AggregateColumn, function: Aggregate) -> bool:
    """Return whether the last record replaces the value of the column."""
    return function.grouping(column) is Grouping.LAST


def _check_carried(schema: TableSchema, widen: WidenOption) -> None:
    is_at_barriers = schema.typed_options.get(BARRIER_INTERVAL) is not None
    for name in carried_columns(schema, widen):
        if name in schema.primary_keys or name in schema.sequence_fields:
            continue
        if is_at_barriers:
            raise _wrong(
                widen,
                f"a column NOT NULL that each record carries ({name!r}), and {BARRIER_INTERVAL.key}",
                "nullable columns besides the key",
            )
        function = aggregate_column(schema, name)
        if function is not None:
            raise _wrong(
                widen,
                f"the function {function.function!r} of {name!r}, which each record carries, as one is NOT NULL",
                "nullable columns besides the key, or no function",
            )


def _check_no_circle(widen: WidenOption, options: list[WidenOption]) -> None:
    """Raise when options form a circle: each waits for the option that writes its foreign key.

    The check follows the chain from `widen`; a circle that the chain enters without `widen` being
    part of it is detected from one of its members.
    """
    path = [widen]
    while True:
        before = next((one for one in options if path[-1].column in one.columns), None)
        if before is None or before in path[1:]:
            return
        if before is widen:
            keys = ", ".join(repr(one.key) for one in path)
            raise _wrong(
                widen, f"a circle: each of {keys} writes the foreign key of another", "none"
            )
        path.append(before)


def _wrong(widen: WidenOption, finding: str, expected: str) -> InvalidError:
    return InvalidError(
        f"option {widen.key!r}", found=finding, expected=expected, action="Correct the table."
    )
