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

from widetable.errors import InvalidError
from widetable.merge.aggregate_rules import aggregate_column
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.schema.derived_options import WidenOption, widen_options
from widetable.schema.table_schema import TableSchema

_REPLACES = "last_value"


def check_widened(schema: TableSchema) -> None:
    """Check all widen options of a table."""
    options = widen_options(schema.options)
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


def _check_columns(schema: TableSchema, widen: WidenOption) -> None:
    for name in (*widen.columns, widen.sequence):
        if not schema.field(name).type.nullable:
            raise _wrong(widen, f"the column {name!r} NOT NULL, which it widens", "a nullable one")
        function = aggregate_column(schema, name)
        if function is not None and function.function != _REPLACES:
            raise _wrong(
                widen,
                f"the function {function.function!r} of the column {name!r}, which it widens",
                f"none, or {_REPLACES!r}",
            )


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
