"""Every departure record as it came, corrections and repeats included: an append table, in which no record replaces
another. What the wide table makes of them can be made again from it.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from examples.flights.audit import Audit, Difference, utc_database
from examples.flights.wide_table import DEPARTURE
from examples.flights.workspace import Workspace

RECORDS_NAME = "nyc.departure_records"
RECORDS = "departure records"
RECORDS_SCHEMA = DEPARTURE.stream_schema
_SHOWN = 5


def audit_records(records: pa.Table, workspace: Workspace) -> Audit:
    """Compare the records with those of the input files, as many times as each is there."""
    files = str(workspace.stream(DEPARTURE.name) / "*.parquet").replace("'", "''")
    names = ", ".join(RECORDS_SCHEMA.names)
    with utc_database() as database:
        database.register("actual", records)
        database.execute(f"CREATE VIEW expected AS SELECT {names} FROM read_parquet('{files}')")
        more = _rest(database, names, "actual", "expected")
        fewer = _rest(database, names, "expected", "actual")
    differences = [Difference(row, "", "no record", "one record") for row in more]
    differences += [Difference(row, "", "one record", "no record") for row in fewer]
    rows = records.num_rows
    return Audit(rows, rows * len(RECORDS_SCHEMA), len(differences), tuple(differences[:_SHOWN]))


def _rest(
    database: duckdb.DuckDBPyConnection, names: str, one: str, other: str
) -> list[tuple[object, ...]]:
    query = f"SELECT {names} FROM {one} EXCEPT ALL SELECT {names} FROM {other}"
    return database.execute(query).fetchall()
