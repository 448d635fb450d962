"""What may not change in a table whose columns are filled by functions: what was merged before and what is merged later
would follow two rules (docs/decisions/0031).

In: the schema before and after. Raises InvalidError naming the column or option.
"""

from __future__ import annotations

from collections.abc import Mapping

from widetable import options as opt
from widetable.errors import InvalidError, WidetableError
from widetable.merge.aggregate_function import AggregateColumn
from widetable.merge.aggregate_functions import columns_of_aggregation, columns_of_groups
from widetable.merge.engine import engine_of
from widetable.schema import TableSchema


def check_functions(old: TableSchema, new: TableSchema) -> None:
    """Columns keep their functions; and the changelog producer `lookup`, with which levels hold whole rows, stays."""
    try:
        engine = engine_of(old)
    except WidetableError:
        return  # what another client left without a meaning may be mended
    before, after = _functions(old), _functions(new)
    for column in old.fields:
        left = next((each.name for each in new.fields if each.id == column.id), None)
        if left is not None and before.get(column.id) != after.get(column.id):
            raise InvalidError(
                f"column {left!r}",
                found="a change of the function that fills it, or of its options",
                expected="what it has had since it was added",
                action="Add a new column with the other function, or make a new table and copy the rows.",
            )
    if engine.counts_newest_full_row(old) != engine.counts_newest_full_row(new):
        raise InvalidError(
            f"option {opt.CHANGELOG_PRODUCER.key!r}",
            found="a change from or to 'lookup' in a table with aggregate functions",
            expected="the producer that the table was made with",
            action="Make a new table with the other producer and copy the rows.",
        )


def _functions(schema: TableSchema) -> Mapping[int, tuple[object, ...]]:
    """By the id of a column: its function and what its options say."""
    is_aggregation = schema.typed_options.get(opt.MERGE_ENGINE) == "aggregation"
    columns = (columns_of_aggregation if is_aggregation else columns_of_groups)(schema)
    return {column.field.id: _of(column) for column in columns.values()}


def _of(column: AggregateColumn) -> tuple[object, ...]:
    return (column.function, *column.values())
