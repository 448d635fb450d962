"""Which columns one write may touch: the check of `Table.write`, `BarrierWriter`, `StreamSink` and `EtlSink`.

Columns are checked once for each writer, before any row is read. The rules in their order, and what they refuse:

    defaults        every write, if a column of the table has a default value, which this version does not honour
    names           a name that the table does not have (case counts), or a name twice
    owner           a column that only a widener writes (`derived_options`); a column that the writer has not named
    rowkind.field   a column of row kinds beside that of the option; rows without it
    engine          rows without the key, NOT NULL columns, `sequence.field`, or a part of what the merge engine needs
                    together (`MergeEngine.check_columns`)
    place           rows of an append table without the columns that say in which partition and bucket they lie

Whether two jobs may own one column is decided when they are registered (`topology.column_claims`). Rows of one write
with different columns are checked row by row (`row_columns`). Pure. Raises InvalidError naming the column, and
UnsupportedError for default values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.format.row_batch import in_schema_order
from widetable.merge.engine import engine_of
from widetable.runtime.derived_value import once_per_object
from widetable.schema import options as opt
from widetable.schema.derived_options import derived_columns, widen_options
from widetable.schema.table_schema import ROW_KIND_COLUMN, TableSchema

_SHOWN: Final = 20


@dataclass(frozen=True)
class WriteColumns:
    """The columns of one writer. names: table columns in schema order; kind_column: the data's column of row kinds, or
    None if all are +I.
    """

    names: tuple[str, ...]
    kind_column: str | None


def callers_columns(schema: TableSchema, named: Iterable[str] | None = None) -> frozenset[str]:
    """Return the columns that a caller's writer owns besides the key. named: those that it has named; None: all."""
    return frozenset(schema.names if named is None else named) - derived_columns(schema)


def owned_columns(
    schema: TableSchema,
    data_columns: Sequence[str],
    row_kind: str | None = ROW_KIND_COLUMN,
    owned: Collection[str] | None = None,
) -> WriteColumns:
    """Check the columns of data, and return those of its writer.

    data_columns: all column names of the data. row_kind: the name of a column of row kinds (texts or 0 to 3); it counts
    if the data has it and the table has not. owned: the columns that the writer owns besides the key
    (`callers_columns`); None for the package's own writers, which own all.
    """
    _check_defaults(schema)
    has_kinds = row_kind in data_columns and row_kind not in schema.by_name
    kind_column = row_kind if has_kinds else None
    _check_names(schema, data_columns, kind_column)
    names = in_schema_order(schema, [name for name in data_columns if name in schema.by_name])
    if owned is not None:
        check_owned(schema, names, owned)
    from_field = schema.typed_options.get(opt.ROWKIND_FIELD)
    if from_field is not None:
        kind_column = _rowkind_field(from_field, data_columns, kind_column)
    engine_of(schema).check_columns(schema, names)
    if not schema.has_key:
        _check_place(schema, names)
    return WriteColumns(names, kind_column)


def _check_place(schema: TableSchema, names: Collection[str]) -> None:
    for what, columns in (("partition", schema.partition_keys), ("bucket", schema.bucket_keys)):
        for name in columns:
            if name not in names:
                raise _invalid(
                    name,
                    "data without this column",
                    f"a column that says in which {what} a row lies; it may be null",
                    "Add the column.",
                )


def check_owned(schema: TableSchema, names: Iterable[str], owned: Collection[str]) -> None:
    """Raise InvalidError for a column of another writer. Otherwise the rows of a barrier would depend on which of the
    two writers came first (rule R3).
    """
    for name in names:
        if name in owned or name in schema.primary_keys:
            continue
        for widen in widen_options(schema.options):
            if name in (*widen.columns, widen.sequence):
                raise _invalid(
                    name,
                    f"a value for a column that is widened by option {widen.key!r}",
                    "columns that only this writer writes",
                    "Leave it out: it follows the foreign key.",
                )
        raise _invalid(
            name,
            "a column of another writer",
            f"some of {', '.join(sorted({*owned, *schema.primary_keys}))}",
            "Leave the column out, or add it to the columns of this writer.",
        )


@once_per_object
def _check_defaults(schema: TableSchema) -> None:
    for field in schema.fields:
        if field.default is not None:
            raise UnsupportedError(
                f"column {field.name!r}",
                found=f"the default value {field.default!r}",
                expected="a column without a default value",
                action="Write the table with another client, or remove the default.",
            )


def _check_names(schema: TableSchema, data_columns: Sequence[str], kind_column: str | None) -> None:
    seen: set[str] = set()
    for name in data_columns:
        if name in seen:
            raise _invalid(name, "the name twice", "each column once", "Drop one of them.")
        seen.add(name)
        if name not in schema.by_name and name != kind_column:
            more = ", ..." if len(schema.names) > _SHOWN else ""
            shown = ", ".join(schema.names[:_SHOWN]) + more
            raise _invalid(name, "no such column", f"columns of the table: {shown}", "Correct it.")


def _rowkind_field(name: str, data_columns: Sequence[str], kind_column: str | None) -> str:
    if kind_column is not None:
        raise _invalid(
            kind_column,
            "a column of row kinds",
            f"row kinds in {name!r} (option 'rowkind.field')",
            "Drop the column.",
        )
    if name not in data_columns:
        raise _invalid(
            name,
            "data without this column",
            "the column of option 'rowkind.field'",
            "Add the column.",
        )
    return name


def _invalid(column: str, problem: str, expected: str, action: str) -> InvalidError:
    return InvalidError(f"column {column!r}", found=problem, expected=expected, action=action)
