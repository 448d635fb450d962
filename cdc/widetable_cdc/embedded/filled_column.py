"""Columns that a table of the source got with a value for the rows that are there: no record says so.

The value is the default that the schema of the records has, as Connect writes it; without one it is what the server
takes for NOT NULL: zero, or an empty text. The target's rows get it in a commit before the first change behind the
ALTER. That commit may be repeated: it is made only while the table has none of the changes behind it.

In: a record's value, a table. Out: batches of its rows. Raises InvalidError for a value that nobody can tell, and what
reading a table raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from widetable import InvalidError, Table
from widetable_cdc.debezium.connect_schema import record_form
from widetable_cdc.debezium.json_texts import texts_of
from widetable_cdc.debezium.value_form import value_form
from widetable_cdc.debezium.value_reader import read_values

_ZEROS: Final = {
    "int8": 0,
    "int16": 0,
    "int32": 0,
    "int64": 0,
    "float": 0,
    "double": 0,
    "boolean": False,
    "string": "",
}


def fill_values(relation: str, value: str, names: Sequence[str], table: Table) -> dict[str, Any]:
    """Return the value that rows get in each column. value: of the first record that has the columns."""
    schema = json.loads(value)["schema"]
    types = {column.name: column.type for column in record_form(json.dumps(schema)).columns}
    fields = {
        field["field"]: field
        for struct in schema["fields"]
        if struct.get("field") == "after"
        for field in struct["fields"]
    }
    values = {}
    for name in names:
        field = fields.get(name, {})
        default = field.get("default")
        if default is None and not field.get("optional", True) and field.get("name") is None:
            default = _ZEROS.get(str(field.get("type")))
        if default is None:
            raise InvalidError(
                f"table {relation}",
                found=f"the new column {name!r}, whose value in rows that are there Debezium does not say",
                expected="a constant default, or none",
                action="Put the table into exclude, and copy it again by a job of another name.",
            )
        raw = texts_of(pa.array([json.dumps(default)], pa.large_string()))
        type = table.arrow_schema.field(name).type
        values[name] = read_values(value_form(types[name]), *raw, type).values[0]
    return values


def filled_rows(table: Table, values: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield all rows of a table with these values."""
    for batch in table.scan().to_batches():
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, value in values.items():
            columns[name] = pa.repeat(value, batch.num_rows).cast(columns[name].type)
        yield pa.RecordBatch.from_pydict(columns, batch.schema)
