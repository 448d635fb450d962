"""All columns of the target of one table: those of the source, computed ones, and those that say where a row came from.

    source              id, at, name                the target's type of each
    computed            day, shard                  an expression over one column, or a constant
    metadata            table_name, op_ts, ..       of the table, the database, the transaction
    key                 shard, id                   of the target

Rows of the source are told apart by their own key: the target's key has each of its columns, as it is or as a computed
column that keeps values apart. Other columns of the key are computed of what the replica identity sends with a delete.
So a change finds its row in the target by its old key alone. A group of a wide table has the columns that it names.

In: a `ColumnSection`, a table of the source, the wishes for its types. Out: `TargetColumns`. Pure. Raises InvalidError
for a section that the table does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable import InvalidError
from widetable_cdc.columns.metadata import METADATA, metadata_expression
from widetable_cdc.columns.typed_expression import ColumnKind, SourceRows, TypedExpression
from widetable_cdc.source.source_table import SourceTable
from widetable_cdc.values.column_type import TargetType
from widetable_cdc.values.wished_type import TypeWishes

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ColumnSection:
    """What the configuration says of the columns of a table. key: empty for that of the source. computed: expressions
    by names. group: the columns that a group has besides the key; None for a mirror.
    """

    key: tuple[str, ...] = ()
    computed: Mapping[str, str] = field(default_factory=dict)
    metadata: tuple[str, ...] = ()
    group: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TargetColumns:
    """The columns of a target. types: of the columns of the source that are read, by name. source: those of them that
    the target has. computed: by name. key: of the target.
    """

    types: Mapping[str, TargetType]
    source: tuple[str, ...]
    computed: Mapping[str, TypedExpression]
    key: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that the job writes, in their order."""
        return (*self.source, *self.computed)

    @property
    def comparable(self) -> tuple[str, ...]:
        """Those of them whose values are the same whenever a row is read."""
        return tuple(
            name
            for name in self.names
            if name not in self.computed or self.computed[name].is_stable
        )

    @property
    def event_key(self) -> tuple[str, ...]:
        """The columns of the source that the key is made of: changes of one row have the same values in them."""
        columns = (self.computed[n].column if n in self.computed else n for n in self.key)
        return tuple(dict.fromkeys(name for name in columns if name is not None))

    def kind(self, name: str) -> ColumnKind:
        """Return the type of a column that the job writes."""
        if name in self.computed:
            return self.computed[name].kind
        return ColumnKind(self.types[name].target, self.types[name].arrow)

    def key_of(self, column: str) -> str | None:
        """Return the column of the key that has the values of a column of the source as they are; None without."""
        if column in self.key and column in self.source:
            return column if self.types[column].is_usual else None
        for name in self.key:
            computed = self.computed.get(name)
            if computed is not None and computed.is_plain and computed.column == column:
                return name if self.types[column].is_usual else None
        return None

    def carriers(self, column: str) -> tuple[str, ...]:
        """Return the columns of the target that have an unchanged value of a column of the source."""
        if column in self.source:
            return (column,)
        return tuple(n for n, each in self.computed.items() if each.column == column)

    @property
    def own(self) -> pc.Expression | None:
        """The condition of the rows that this source has in a target that others fill as well; None for all."""
        condition = None
        for name, value in self.constants.items():
            is_own = pc.field(name) == pa.scalar(value, self.kind(name).arrow)
            condition = is_own if condition is None else condition & is_own
        return condition

    @property
    def constants(self) -> dict[str, str | int | bool]:
        """The values of the columns of the key that are constant."""
        values = {n: self.computed[n].constant for n in self.key if n in self.computed}
        return {name: value for name, value in values.items() if value is not None}

    def keys(self, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """Return the key of rows. columns: those of `event_key`, with the target's types."""
        rows = SourceRows(columns, len(next(iter(columns.values()))))
        return {name: self._value(name, rows) for name in self.key}

    def rows(self, rows: SourceRows, is_delete: Mask | None = None) -> dict[str, pa.Array]:
        """Return the columns that the job writes. is_delete: bool[n], rows that have a key only."""
        written = {name: self._value(name, rows) for name in self.names}
        if is_delete is None or not is_delete.any():
            return written
        gone = pa.array(is_delete)
        for name in self.computed:
            if name not in self.key:
                kind = written[name].type
                written[name] = pc.if_else(gone, pa.scalar(None, kind), written[name])
        return written

    def _value(self, name: str, rows: SourceRows) -> pa.Array:
        return self.computed[name].evaluate(rows) if name in self.computed else rows.columns[name]


def target_columns(
    section: ColumnSection, table: SourceTable, wishes: TypeWishes, database: str
) -> TargetColumns:
    """Return the columns of the target of a table. database: the name of the source's."""
    types = {
        column.name: wishes.type_of(column.name, column.type)
        for column in table.columns
        if not column.is_generated
    }
    subject = f"the section of the table {table.schema}.{table.name}"
    computed = _computed(section, table, types, database, subject)
    key = section.key or table.key
    wanted = tuple(dict.fromkeys((*key, *section.group))) if section.group is not None else None
    for name in wanted or key:
        if name not in types and name not in computed:
            raise InvalidError(
                subject,
                found=f"the column {name!r}, which is neither at the source nor computed",
                expected=f"one of {', '.join((*types, *computed))}",
                action="Correct the key, or the columns of the group.",
            )
    if wanted is not None:
        _check_used(computed, wanted, subject)
        computed = {name: computed[name] for name in wanted if name in computed}
    source = tuple(name for name in (wanted or types) if name in types)
    columns = TargetColumns(types, source, computed, key)
    _check_key(columns, table, subject)
    if wanted is None:
        return columns
    read = {*source, *(each.column for each in computed.values())}
    return TargetColumns({n: t for n, t in types.items() if n in read}, source, computed, key)


def _computed(
    section: ColumnSection,
    table: SourceTable,
    types: Mapping[str, TargetType],
    database: str,
    subject: str,
) -> dict[str, TypedExpression]:
    names = {column.name for column in table.columns}
    for name in (*section.computed, *section.metadata):
        if name in names or (name in section.computed and name in section.metadata):
            raise InvalidError(
                subject,
                found=f"a computed column {name!r}, and another column of that name",
                expected="a name that no column of the source has",
                action="Give the computed column another name.",
            )
    computed: dict[str, TypedExpression] = {}
    if section.computed:
        # Imported here, because most tables have none, and sqlglot is slow to import.
        from widetable_cdc.columns.expression import parse_expression
        from widetable_cdc.columns.functions import typed_expression

        kinds = {name: ColumnKind(each.target, each.arrow) for name, each in types.items()}
        for name, text in section.computed.items():
            computed[name] = typed_expression(parse_expression(text), kinds)
    for name in section.metadata:
        if name not in METADATA:
            raise InvalidError(
                f"{subject}, entry 'metadata'",
                found=repr(name),
                expected=f"one of {', '.join(METADATA)}",
                action="Correct the name.",
            )
        computed[name] = metadata_expression(name, table, database)
    return computed


def _check_used(
    computed: Mapping[str, TypedExpression], wanted: Sequence[str], subject: str
) -> None:
    unused = [name for name in computed if name not in wanted]
    if unused:
        raise InvalidError(
            subject,
            found=f"the computed column {unused[0]!r}, which is neither in the key nor in the group",
            expected="computed columns that the group fills",
            action="Take it into the columns of the group, or out of the section.",
        )


def _check_key(columns: TargetColumns, table: SourceTable, subject: str) -> None:
    """Refuse a key by which rows of the source would be one row, or a delete would not find its row."""
    apart, used = set(), set()
    for name in columns.key:
        computed = columns.computed.get(name)
        column = name if computed is None else computed.column
        if computed is None or computed.keeps_apart:
            apart.add(column)
        if column is not None:
            used.add(column)
        if computed is not None and not computed.is_stable:
            what = f"the column {name!r}, which has another value each time"
            raise _bad_key(subject, what, columns, table)
    lacking = [name for name in table.key if name not in apart]
    if lacking:
        what = f"no column of {', '.join(map(repr, lacking))} as it is, which tells rows of the source apart"
        raise _bad_key(subject, what, columns, table)
    unsent = sorted(used - set(table.key)) if table.identity != "f" else []
    if unsent:
        what = f"the column {unsent[0]!r}, which the replica identity does not send with a delete"
        raise _bad_key(subject, what, columns, table)


def _bad_key(subject: str, what: str, columns: TargetColumns, table: SourceTable) -> InvalidError:
    return InvalidError(
        f"{subject}, the key {', '.join(columns.key)}",
        found=what,
        expected=f"the columns {', '.join(table.key)}, and constants or columns that are computed of them",
        action="Correct the key; or give the table a replica identity that sends more.",
    )
