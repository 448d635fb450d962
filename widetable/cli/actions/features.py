"""The command pit: the rows of a file, each with the features of its key as they were known at its time.

    labels.parquet ─► entity_file ─► Table.point_in_time ─► write_rows

All rows are in memory. Raises what reading the file and `Table.point_in_time` raise, and InvalidError for an output
that exists already.
"""

from __future__ import annotations

from typing import Final

from widetable.cli.command import DONE
from widetable.cli.input.entity_files import entity_file
from widetable.cli.input.option_words import equal_names_of, names_of, once
from widetable.cli.output.changes_output import WRITERS, write_rows
from widetable.derive.versions.entity_rows import key_columns
from widetable.table import Table

_FLAG: Final = "--event-time"


def pit(
    path: str,
    entities: str,
    at: str,
    columns: str | None,
    on: str | None,
    basis: str,
    ttl: str | None,
    event_time: list[str] | None,
    as_known: bool,
    prefix: str,
    format: str | None,
    output: str | None,
) -> int:
    """Write the rows with their features to a new file, or to standard output."""
    table = Table.open(path)
    schema = table.schema
    chosen = None if on is None else equal_names_of(on, "--on")
    keys = {name: schema.field(key).type for name, key in key_columns(chosen, schema).items()}
    result = table.point_in_time(
        entity_file(entities, at, keys),
        at,
        None if columns is None else names_of(columns),
        on=chosen,
        basis=basis,
        ttl=ttl,
        event_times=_event_times(event_time),
        prefix=prefix,
        as_known=as_known,
    )
    write_rows(format or _format_of(output), output, result.to_batches(), result.schema)
    return DONE


def _event_times(texts: list[str] | None) -> dict[str, str | None] | None:
    """Return the units of columns: "clicked_at=millis", or a name alone for a column of times."""
    if texts is None:
        return None
    pairs = (text.partition("=") for text in texts)
    return once([(name.strip(), unit.strip() or None) for name, _, unit in pairs], _FLAG)


def _format_of(output: str | None) -> str:
    """Return the format that the name of the output says, or JSON lines."""
    ending = (output or "").rpartition(".")[2].lower()
    return ending if ending in WRITERS else "json"
