"""Shows a table in notebooks: its path, its newest snapshot, keys and columns.

Raises no error of this package: the page shows the error instead.
"""

from __future__ import annotations

from typing import Any

from widetable.errors import WidetableError
from widetable.format.html_facts import html_facts, html_rows
from widetable.operations.handle.open_table import OpenTable
from widetable.schema.type_text import text_of


def table_html(table: OpenTable) -> str:
    """Return HTML without references to other files. It reads the newest schema and snapshot.

    The number of records is that of the snapshot's files, not merged.
    """
    facts: dict[str, Any] = {"path": table.path, "branch": table.branch}
    try:
        schema, newest = table.schema, table._committer.snapshots.latest()
    except WidetableError as error:
        return html_facts("Table", {**facts, "error": error})
    columns = [(field.name, text_of(field.type), field.description) for field in schema.fields]
    facts |= {
        "schema": str(schema.id),
        "primary key": ", ".join(schema.primary_keys) or None,
        "partitions": ", ".join(schema.partition_keys) or None,
        "snapshot": "none" if newest is None else str(newest.id),
        "records": None if newest is None else newest.total_record_count,
    }
    return html_facts("Table", facts, html_rows(("column", "type", "comment"), columns))
