"""The rows of the database at the end, kept beside the input, so that a later check has something to compare with."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from examples.flights.database.source_database import SourceDatabase
from examples.flights.dimensions import DIMENSIONS
from examples.flights.workspace import Workspace


def store_rows(workspace: Workspace, database: SourceDatabase) -> None:
    """Read all tables of the database, which nobody changes any more, and keep them as files."""
    for group in DIMENSIONS:
        path = workspace.database(group.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(database.rows(group), path)


def read_rows(workspace: Workspace) -> dict[str, pa.Table]:
    """Return what the database had, by the name of the table that follows it."""
    return {group.table: pq.read_table(workspace.database(group.name)) for group in DIMENSIONS}
