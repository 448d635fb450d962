"""Refuses changes of a table after which the records of a key would be merged in another order than before. Pure.

    allowed                                   refused
    a column that orders records: wider       a type with another order
    a new column in a group of its own        a column that enters, leaves or changes its sequence group

Columns are compared by id, so a new name is not a change. Raises InvalidError, which names the column.
"""

from __future__ import annotations

from widetable.acceptance.value_order import keeps_order
from widetable.errors import InvalidError, WidetableError
from widetable.merge.engine import engine_of
from widetable.schema.table_schema import TableSchema


def check_orders(old: TableSchema, new: TableSchema) -> None:
    """Check that the records of a key stay in their order, even when files of before and after are merged.

    A column that begins to order records with this step is compared with its own type, as it has no order to keep.
    """
    groups = (name for group in new.sequence_groups for name in group.sequence)
    before = {column.id: column.type for column in old.fields}
    for name in (*new.sequence_fields, *groups):
        column = new.field(name)
        old_type = before.get(column.id, column.type)
        if not keeps_order(old_type, column.type):
            raise InvalidError(
                f"column {name!r}",
                found=f"a change from {old_type} to {column.type} of a column that orders records",
                expected="a type with the same order: a wider integer, a decimal, more digits of the second",
                action="Add a column of the new type instead.",
            )


def check_groups(old: TableSchema, new: TableSchema) -> None:
    """Check that a column that may have values stays in its sequence group.

    Otherwise values merged before and after would follow two rules, and values without a sequence would be lost at
    the next merge (decision 0024). Options of another client without effect may be corrected.
    """
    try:
        has_groups = engine_of(old).has_groups
    except WidetableError:
        return
    if not has_groups:
        return
    before, after = _groups_by_column(old), _groups_by_column(new)
    remaining = {column.id: column.name for column in new.fields}
    for column in old.fields:
        if column.id in remaining and before.get(column.id) != after.get(column.id):
            raise InvalidError(
                f"column {remaining[column.id]!r}",
                found="a change of its sequence group",
                expected="the group, or none, that it has had since it was added",
                action="Add new columns for the group, or create a new table and copy the rows.",
            )


def _groups_by_column(schema: TableSchema) -> dict[int, tuple[int, ...]]:
    """Return, by the id of a column, the ids of the sequence columns of its group."""
    return {
        schema.field(name).id: tuple(schema.field(each).id for each in group.sequence)
        for group in schema.sequence_groups
        for name in group.columns
    }
