"""The command alter: it publishes the next schema of a table, in one step, and prints its number.

The arguments become one `SchemaChange`, as in `Catalog.alter_table`. The table is named by its path, so it need not lie
in a warehouse.
"""

from __future__ import annotations

from widetable.cli.command import DONE
from widetable.cli.input.option_words import once, options_of, pairs_of, typed_names_of
from widetable.cli.output.console import write_result
from widetable.derive.upkeep.derived_alteration import alter_table
from widetable.errors import InvalidError
from widetable.operations.ddl.schema_change import SchemaChange
from widetable.schema.new_schema import arrow_schema, changed_types
from widetable.table import Table


def alter(
    path: str,
    set: list[str] | None,
    unset: list[str] | None,
    add: list[str] | None,
    drop: list[str] | None,
    rename: list[str] | None,
    type: list[str] | None,
    nullable: list[str] | None,
    not_null: list[str] | None,
    comment: list[str] | None,
    move: list[str] | None,
    format: str,
) -> int:
    """Change a table like `Catalog.alter_table`. Raises InvalidError if there is nothing to change.

    The printed number is read again after the change: it may be that of a later schema of another process.
    """
    # Types are passed as Arrow fields, which carry the SQL text with them (`new_schema`).
    types = typed_names_of(type, "--type")
    nulls = [(name, True) for name in nullable or ()] + [(name, False) for name in not_null or ()]
    change = SchemaChange(
        set_options=options_of(set),
        remove_options=unset or (),
        add_columns=tuple(arrow_schema(typed_names_of(add, "--add"), "--add")),
        drop_columns=drop or (),
        rename_columns=pairs_of(rename, "--rename", "OLD=NEW"),
        change_types=changed_types(types, "--type"),
        change_nullability=once(nulls, "--nullable and --not-null"),
        change_comments={
            name: text or None for name, text in pairs_of(comment, "--comment", "NAME=TEXT").items()
        },
        move_columns=pairs_of(move, "--move", "NAME=PLACE"),
    )
    if change == SchemaChange():
        raise InvalidError(
            "alter",
            found="nothing to change",
            expected="an option or a column to change",
            action="Run widetable alter --help.",
        )
    table = Table.open(path)
    alter_table(table, change)
    schema_id = Table.open(path).schema.id
    write_result(format, {"schema_id": schema_id}, [f"schema {schema_id}"])
    return DONE
