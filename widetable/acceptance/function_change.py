"""Refuses changes of a table whose columns are filled by functions, if values merged before and after would follow two
different rules (docs/decisions/0031).

    allowed                                      refused
    rename the column or a field within it       another function, another option of it
    drop the column, add another one             a type that orders or distinguishes otherwise, where that counts
    add a column with a function                 the producer from or to `lookup`

Columns and fields are compared by id, so a new name is not a change. In: the schema before and after; the new one is
valid by itself. Raises InvalidError, which names the column or option.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from widetable.acceptance.value_order import keeps_apart, keeps_order
from widetable.errors import InvalidError, WidetableError
from widetable.merge.aggregate_function import (
    COLUMN_OPTIONS,
    NESTED_KEY,
    NESTED_SEQUENCE,
    TS_FIELD,
    AggregateColumn,
    nested_fields,
)
from widetable.merge.aggregate_functions import function_of
from widetable.merge.engine import engine_of, unchecked_engine
from widetable.schema import options as opt
from widetable.schema.table_schema import TableSchema

_NAMING: Final = (NESTED_KEY, NESTED_SEQUENCE, TS_FIELD)


def check_functions(old: TableSchema, new: TableSchema) -> None:
    """Refuse to change the function of a column, and the changelog producer from or to `lookup`."""
    try:
        engine = engine_of(old)
    except WidetableError:
        return  # options of another client without effect may be corrected
    before, after = _columns(old), _columns(new)
    names = {each.id: each.name for each in new.fields}
    # left: the name that the column has now, None for a dropped one. A column that gains or loses
    # a function differs as well.
    for field_id, left in ((each.id, names.get(each.id)) for each in old.fields):
        was, now = before.get(field_id), after.get(field_id)
        if left is not None and (was and _compared_parts(was)) != (now and _compared_parts(now)):
            raise InvalidError(
                f"column {left!r}",
                found="a change of the function that fills it, or of its options",
                expected="the function and options that it has had since it was added",
                action="Add a new column with the other function, or create a new table and copy the rows.",
            )
        if was is not None and now is not None:
            _check_nested_orders(was, now)
            _check_distinct(was, now)
    if engine.counts_newest_full_row(old) != engine.counts_newest_full_row(new):
        raise InvalidError(
            f"option {opt.CHANGELOG_PRODUCER.key!r}",
            found="a change from or to 'lookup' in a table with aggregate functions",
            expected="the producer with which the table was created",
            action="Create a new table with the other producer, and copy the rows.",
        )


def _columns(schema: TableSchema) -> Mapping[int, AggregateColumn]:
    """Return the columns with a function, by their id."""
    columns = unchecked_engine(schema.typed_options).filled_columns(schema)
    return {column.field.id: column for column in columns.values()}


def _check_nested_orders(old: AggregateColumn, new: AggregateColumn) -> None:
    """Check that fields which distinguish or order elements keep doing so in the same way."""
    before = {each.id: each.type for each in nested_fields(old).values()}
    fields = nested_fields(new)
    for name in (*new.get(NESTED_KEY), *new.get(NESTED_SEQUENCE)):
        kind, old_type = fields[name].type, before[fields[name].id]
        if not keeps_order(old_type, kind):
            raise InvalidError(
                f"column {new.name!r}",
                found=f"a change from {old_type} to {kind} of {name!r}, by which its function orders or finds elements",
                expected="a type with the same order: a wider integer, a decimal",
                action="Add a field of the new type instead.",
            )


def _check_distinct(old: AggregateColumn, new: AggregateColumn) -> None:
    """Check that elements which are kept once remain distinct, whether they were merged before or are merged later."""
    tells_apart = function_of(new).tells_apart(new)
    if tells_apart and not keeps_apart(old.field.type, new.field.type):
        raise InvalidError(
            f"column {new.name!r}",
            found="a change that makes different elements equal, in a list that has each once",
            expected="elements that keep their fields; integers that become wider, or decimals",
            action="Add a new column instead.",
        )


def _compared_parts(column: AggregateColumn) -> tuple[object, ...]:
    """Return what must stay: function, options, and the fields of elements and values by id, as their names may change.

    None separates the lists, so that a field which moves from one to the other is noticed.
    """
    time = function_of(column).time_field(column)
    named = (*column.get(NESTED_KEY), None, *column.get(NESTED_SEQUENCE), None, time)
    ids = {name: each.id for name, each in nested_fields(column).items()}
    options = (column.get(each) for each in COLUMN_OPTIONS if each not in _NAMING)
    return (column.function, *options, *(ids.get(name or "") for name in named))
