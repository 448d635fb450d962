"""The table that records are applied to: made from their schemas if it is missing, altered where they ask for it.

In: a catalog and a name. Out: a `Table` with a column for each field of the records. Raises InvalidError for a table
that cannot be a mirror, and what making and altering tables raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa

from widetable import Catalog, InvalidError, NotFoundError, Table
from widetable.connector import engine_of
from widetable_cdc.debezium.connect_schema import RecordForm
from widetable_cdc.debezium.target_columns import new_columns, table_change

_SEQUENCE_FIELD: Final = "sequence.field"


def target_table(catalog: Catalog, name: str) -> Table | None:
    """Open the table; None if there is none. Raises InvalidError for a table in which a null would not be a value."""
    try:
        table = catalog.table(name)
    except NotFoundError:
        return None
    engine = engine_of(table.schema)
    if engine.mixes_records or engine.stores_keys_once:
        raise InvalidError(
            f"table {name!r}",
            found=f"merge engine {engine.name!r}",
            expected="merge engine 'deduplicate': rows replace rows, and nulls are values",
            action="Apply the records to a table of their own.",
        )
    return table


def sequence_of(table: Table | None) -> str | None:
    """Return the column that takes the position of a change in its source; None if the table has no such column."""
    text = None if table is None else table.schema.options.get(_SEQUENCE_FIELD)
    if text is None:
        return None
    if "," in text:
        raise InvalidError(
            f"table {'' if table is None else table.path}",
            found=f"{_SEQUENCE_FIELD} = {text}",
            expected="one column, which takes the position of a change in the source",
            action="Make the table with one BIGINT column as its sequence field, or with none.",
        )
    return text


def fitting_table(
    catalog: Catalog,
    name: str,
    forms: Sequence[RecordForm],
    key: Sequence[str],
    options: Mapping[str, str] | None,
) -> Table:
    """Return the table with columns for rows of these forms. key, options: for a table that is missing."""
    table = target_table(catalog, name)
    if table is None:
        if not forms:
            raise InvalidError(
                f"table {name!r}",
                found="no table, and records without a schema",
                expected="a table that says the types, or records that do",
                action="Make the table, or let the converter write schemas (value.converter.schemas.enable).",
            )
        columns = new_columns(forms, key)
        return catalog.create_table(name, columns, primary_key=list(key), options=options)
    change = table_change(forms, table.arrow_schema, table.schema.primary_keys)
    if not change:
        return table
    added = [pa.field(column, type) for column, type in change.added]
    return catalog.alter_table(name, add_columns=added, change_types=dict(change.widened))


def check_sequence(sequence: str | None, names: Sequence[str]) -> None:
    """Raise InvalidError if records have a column of the sequence's name: deletes would not carry its value."""
    if sequence is not None and sequence in names:
        raise InvalidError(
            f"option {_SEQUENCE_FIELD!r}",
            found=f"{sequence!r}, a column of the records, which their deletes do not carry",
            expected="a column that the records do not have: it takes the position of a change in the source",
            action="Make the table with a BIGINT column of its own as its sequence field, or with none.",
        )
