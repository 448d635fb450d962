"""Changes a schema: its columns and fields within them (column_change.py), and options that are set or removed.

    options before, a renamed to x               after
    fields.a,b.sequence-group = c                fields.x,b.sequence-group = c
    sequence.field = a, b                        sequence.field = x, b          (blanks stay)
    fields.l.nested-key = id, at                 the same with nr for id, when l.element.id is renamed to nr

In: a schema and a change; out: the schema with the next id. Nothing is read or written; the clock
gives its time. The changed schema as a whole is checked, so changes of one step
may need each other. Source: Paimon `SchemaManager.generateTableSchema`; format.md section 2.

Raises InvalidError for a change that would break a key, an option or a merge rule, NotFoundError for a missing column,
UnsupportedError for a type to which values do not widen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import pyarrow as pa

from widetable.acceptance.acceptance import Use, accept
from widetable.errors import InvalidError
from widetable.operations.ddl.column_change import ColumnChange, changed_columns
from widetable.operations.ddl.column_path import Path, parsed, path_of, printed
from widetable.runtime.machine_clock import now_millis
from widetable.schema import options as opt
from widetable.schema.derived_options import index_options, widen_options
from widetable.schema.field_options import FIELD_OPTION
from widetable.schema.join_options import HISTORY_COLUMNS
from widetable.schema.retention_options import RECORD_LEVEL_TIME_FIELD
from widetable.schema.table_schema import TableSchema

T = TypeVar("T")

# Options of a column's function that name fields of its elements or values.
_NAMES_FIELDS: Final = ("nested-key", "nested-sequence-field", "ts-field")


@dataclass(frozen=True)
class SchemaChange:
    """The changes of a schema, in terms of the names before them.

    Columns are named by paths (column_path.py), added ones too, which are nullable and come last; a new name is one
    name. Options to set name columns, in keys and values, as they are called afterwards; options to remove need not
    be set. Types are fields of any name, as from `arrow_schema`; a NOT NULL type makes its column NOT NULL.
    """

    set_options: Mapping[str, str] = field(default_factory=dict)
    remove_options: Sequence[str] = ()
    add_columns: Sequence[pa.Field] = ()
    drop_columns: Sequence[str] = ()
    rename_columns: Mapping[str, str] = field(default_factory=dict)
    change_types: Mapping[str, pa.Field] = field(default_factory=dict)
    change_nullability: Mapping[str, bool] = field(default_factory=dict)
    change_comments: Mapping[str, str | None] = field(default_factory=dict)
    move_columns: Mapping[str, str] = field(default_factory=dict)


def changed_schema(
    schema: TableSchema, change: SchemaChange, repairs: Mapping[str, str] | None = None
) -> TableSchema:
    """Return the next schema of the table. Raises before anything is written. repairs: see `accept`.

    Only the first schema has the table's identity (uuid is None in all others).
    """
    columns = _by_path(schema, change)
    _check_named_columns(schema, change, columns)
    _check_options_once(change)
    fields, highest = changed_columns(schema, columns)
    new = replace(
        schema,
        id=schema.id + 1,
        fields=fields,
        highest_field_id=highest,
        options=_changed_options(schema.options, change, columns),
        time_millis=now_millis(),
        uuid=None,
    )
    accept(new, Use.ALTER, before=schema, given=change.set_options, repairs=repairs)
    return new


def _by_path(schema: TableSchema, change: SchemaChange) -> ColumnChange:
    """Convert the changes to paths, and check that the paths exist, except those of added columns.

    Raises NotFoundError for a missing one, InvalidError for one that is named twice, in whatever spelling.
    """

    def paths(names: Iterable[str], argument: str) -> tuple[Path, ...]:
        columns = tuple(path_of(name, schema) for name in names)
        twice = [path for path, count in Counter(columns).items() if count > 1]
        if twice:
            raise InvalidError(
                argument,
                found=f"{printed(twice[0])!r} twice",
                expected="each column once",
                action="Leave one out.",
            )
        return columns

    def by_path(values: Mapping[str, T], argument: str) -> dict[Path, T]:
        return dict(zip(paths(values, argument), values.values(), strict=True))

    added = tuple((parsed(column.name), column) for column in change.add_columns)
    return ColumnChange(
        added=added,
        dropped=paths(change.drop_columns, "drop_columns"),
        renamed={
            path: _new_name(path, name)
            for path, name in by_path(change.rename_columns, "rename_columns").items()
        },
        types=by_path(change.change_types, "change_types"),
        nullable=by_path(change.change_nullability, "change_nullability"),
        comments=by_path(change.change_comments, "change_comments"),
        moves=by_path(change.move_columns, "move_columns"),
    )


def _new_name(path: Path, text: str) -> str:
    """Parse one name. The name of a column may have dots without backticks, because it cannot be a path."""
    names = parsed(text) if len(path) > 1 or text.startswith("`") else (text,)
    if len(names) > 1:
        raise InvalidError(
            f"the new name of column {printed(path)!r}",
            found=repr(text),
            expected="one name: a field stays in its ROW",
            action=f"Give {names[-1]!r}, or the whole name in backticks.",
        )
    return names[0]


def _check_named_columns(schema: TableSchema, change: SchemaChange, columns: ColumnChange) -> None:
    """Refuse to rename or drop columns that `index.*` and `widen.*` name: derived tables refer to these names."""
    named = {index.key: index.columns for index in index_options(schema.options)}
    for widen in widen_options(schema.options):
        named[widen.key] = (widen.column, *widen.columns, widen.sequence)
    for key in named.keys() - {*change.remove_options, *change.set_options}:
        conflicts = [name for name in named[key] if (name,) in (*columns.dropped, *columns.renamed)]
        if conflicts:
            raise InvalidError(
                f"column {conflicts[0]!r}",
                found=f"a change of its name, or a drop, while option {key!r} names it",
                expected="a column that no such option names",
                action=f"Remove the option in the same step, remove_options=[{key!r}], and set it again afterwards.",
            )


def _check_options_once(change: SchemaChange) -> None:
    for key in change.remove_options:
        if key in change.set_options:
            raise InvalidError(
                f"option {key!r}",
                found="both a new value and its removal",
                expected="one of them",
                action="Leave one out.",
            )


def _changed_options(
    options: Mapping[str, str], change: SchemaChange, columns: ColumnChange
) -> dict[str, str]:
    """Return the options: without removed ones, with renamed columns in the kept ones, and with those that are set."""
    names = {path[0]: name for path, name in columns.renamed.items() if len(path) == 1}
    renamed: Callable[[str], str] = lambda name: names.get(name, name)  # noqa: E731
    nested = _nested_names(columns)
    remaining = {
        _renamed_key(key, renamed): _renamed_value(key, value, renamed, nested)
        for key, value in options.items()
        if key not in change.remove_options
    }
    return {**remaining, **{key: str(value) for key, value in change.set_options.items()}}


def _nested_names(columns: ColumnChange) -> Mapping[str, Mapping[str, str]]:
    """Return, by column, the new names of fields of its elements or values, which options of its function name.

    Such a path has three names, `l.element.id`, because functions use no deeper fields.
    """
    by_column: dict[str, dict[str, str]] = {}
    for path, name in columns.renamed.items():
        if len(path) == 3:
            by_column.setdefault(path[0], {})[path[2]] = name
    return by_column


def _renamed_key(key: str, renamed: Callable[[str], str]) -> str:
    """Rename the columns in the key of `fields.<columns>.<what>`."""
    match = FIELD_OPTION.match(key)
    if match is None:
        return key
    return f"fields.{_renamed_list(match['columns'], renamed)}.{match['what']}"


def _renamed_value(
    key: str,
    value: str,
    renamed: Callable[[str], str],
    nested: Mapping[str, Mapping[str, str]],
) -> str:
    """Rename the columns in a value that lists them; a change of an immutable option is refused later."""
    match = FIELD_OPTION.match(key)
    lists_columns = key in (
        opt.SEQUENCE_FIELD.key,
        opt.ROWKIND_FIELD.key,
        opt.REMOVE_RECORD_ON_SEQUENCE_GROUP.key,
        opt.ROW_DEDUPLICATE_IGNORE_FIELDS.key,
        RECORD_LEVEL_TIME_FIELD.key,
        HISTORY_COLUMNS.key,
    )
    if lists_columns or (match is not None and match["what"] == "sequence-group"):
        return _renamed_list(value, renamed)
    if match is not None and match["what"] in _NAMES_FIELDS and match["columns"] in nested:
        names = nested[match["columns"]]
        return _renamed_list(value, lambda name: names.get(name, name))
    return value


def _renamed_list(names: str, renamed: Callable[[str], str]) -> str:
    """Rename in a list of an option; blanks and empty places stay, so that other clients read it as before."""
    return ",".join(
        name.replace(name.strip(), renamed(name.strip())) if name.strip() else name
        for name in names.split(",")
    )
