"""Whether the rows of a table depend on which of two files counts as the later one.

All code that may change the order of files uses this rule: a commit that was overtaken (`commit_order`) and a
compaction that leaves older files behind (`barrier_cut`). The result is a pure function of the schema and of the
contents of the two files. It may be "yes" where the rows would be equal, never "no" where they would differ.

    files with            deduplicate, first-row    partial-update, aggregation
    a delete in one       yes                       yes: a delete may act on any column
    no common column      yes: a row wins whole     no
    a common column       yes                       yes, unless its function gives equal values in any order

An append table with buckets is like deduplicate, one without is never dependent.

Raises what the engine raises for wrong options.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from widetable.merge.engine import engine_of
from widetable.runtime.derived_value import once_per_object
from widetable.schema.table_schema import TableSchema


class Values(NamedTuple):
    """The contents of a file.

    columns: field ids of the value columns in which its records may have values; None when unknown, which counts as
    all. has_deletes: whether a record may be a -U or -D.
    """

    columns: frozenset[int] | None
    has_deletes: bool


UNKNOWN: Final = Values(None, has_deletes=True)


@once_per_object
def ordered_ids(schema: TableSchema) -> frozenset[int] | None:
    """Return field ids of the columns in which the later of two adds decides; None where whole rows win.

    Rows of an append table that lie anywhere have no order; those of a bucket are read in the order of commits.
    """
    if schema.has_free_rows:
        return frozenset()
    names = engine_of(schema).ordered_columns(schema)
    return None if names is None else frozenset(schema.field(name).id for name in names)


def depends_on_order(one: Values, other: Values, ordered: frozenset[int] | None) -> bool:
    """Whether rows may differ when the two files are merged in the other order. ordered: from `ordered_ids`."""
    if ordered is None or one.has_deletes or other.has_deletes:
        return True
    columns = ordered if one.columns is None else one.columns & ordered
    return bool(columns if other.columns is None else columns & other.columns)
