"""Are the tables what plain queries over the inputs give? Every cell is compared, nulls included.

In: the files of the streams and the rows read back from the tables, as Arrow. The expectation
knows nothing of widetable: DuckDB takes from each stream the version with the highest sequence per
key, joins three by the key and the aircraft by the tail number; for the second layer it groups the rows
of that join; departures it joins with the weather. Out: an `Audit`: rows and cells compared, and the
differences, of which the first few are kept with both values.

Two floats are equal when they are the same number; two nulls are equal; a null and a value are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from examples.flights.carrier_hourly import HOURLY_KEY, HOURLY_SCHEMA
from examples.flights.column_group import ColumnGroup
from examples.flights.dimensions import PLANES, WEATHER
from examples.flights.weather.departure_weather import DEPARTURES_SCHEMA
from examples.flights.wide_table import (
    DEPARTURE,
    GROUPS,
    KEY,
    PLANE_COLUMNS,
    STREAM_SCHEMA,
    TABLE_SCHEMA,
)
from examples.flights.workspace import Workspace

_SHOWN_DIFFERENCES = 10
_KEY_LIST = ", ".join(KEY)
_HOURLY_QUERY = f"""
    SELECT *, delay_sum::DOUBLE / nullif(delay_count, 0) AS mean_delay,
           cancelled_count::DOUBLE / flights AS cancelled_share
    FROM (SELECT month, carrier, sched_dep_time // 100 AS hour, count(*) AS flights,
                 count(arr_delay) AS delay_count, coalesce(sum(arr_delay), 0)::BIGINT AS delay_sum,
                 count(*) FILTER (dep_seq IS NOT NULL AND dep_time IS NULL) AS cancelled_count
          FROM wide WHERE sched_dep_time IS NOT NULL GROUP BY ALL)
    ORDER BY {", ".join(HOURLY_KEY)}
"""
# The hour in which a flight left: so many minutes after the hour of its schedule, as the clock time tells them.
_DEPARTURES_QUERY = f"""
    SELECT d.* EXCLUDE (dep_time, dep_delay), {", ".join(WEATHER.value_names)}
    FROM (SELECT *, date_trunc('hour', time_hour + to_minutes(
              (dep_time // 100 * 60 + dep_time % 100 - dep_delay + 1440) % 60 + dep_delay)) AS dep_hour
          FROM {DEPARTURE.name}) AS d
    LEFT JOIN {WEATHER.name} AS w ON d.origin = w.origin AND d.dep_hour = w.time_hour
"""


@dataclass(frozen=True)
class Difference:
    """A cell that is not as expected; with an empty `column`, a missing, extra or repeated row."""

    key: tuple[Any, ...]
    column: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        key = ", ".join(str(part) for part in self.key)
        where = f"{self.column} of ({key})" if self.column else f"row ({key})"
        return f"{where}: expected {self.expected!r}, found {self.found!r}"


@dataclass(frozen=True)
class Audit:
    """`cell_count` is rows times columns; `difference_count` counts cells and whole rows."""

    row_count: int
    cell_count: int
    difference_count: int
    first_differences: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        """True when something was compared and nothing differs."""
        return self.difference_count == 0 and self.row_count > 0


def expected_table(workspace: Workspace) -> pa.Table:
    """The plain full join of the newest version per key and stream, and the aircraft, sorted by the key."""
    with utc_database() as database:
        for group in (*GROUPS, PLANES):
            view_newest(database, group, workspace, group.written_schema)
        joined = " ".join(
            [
                f"FROM {GROUPS[0].name}",
                *(f"FULL JOIN {group.name} USING ({_KEY_LIST})" for group in GROUPS[1:]),
            ]
        )
        columns = [*STREAM_SCHEMA.names, *(f"{old} AS {new}" for old, new in PLANE_COLUMNS.items())]
        query = (
            f"SELECT {', '.join(columns)} FROM (SELECT {', '.join(STREAM_SCHEMA.names)} {joined}) "
            f"LEFT JOIN {PLANES.name} USING (tailnum) ORDER BY {_KEY_LIST}"
        )
        return database.sql(query).to_arrow_table().cast(TABLE_SCHEMA)


def expected_departures(workspace: Workspace) -> pa.Table:
    """What `nyc.departure_weather` has to hold: the newest departures with the final weather of their hours."""
    with utc_database() as database:
        for group in (DEPARTURE, WEATHER):
            view_newest(database, group, workspace, group.stream_schema)
        found = database.sql(_DEPARTURES_QUERY).to_arrow_table()
        return found.select(DEPARTURES_SCHEMA.names).cast(DEPARTURES_SCHEMA)


def expected_dimension(group: ColumnGroup, workspace: Workspace) -> pa.Table:
    """What the table of aircraft, or of weather, has to hold."""
    with utc_database() as database:
        view_newest(database, group, workspace, group.written_schema)
        return database.table(group.name).to_arrow_table().cast(group.written_schema)


def expected_hourly(wide: pa.Table) -> pa.Table:
    """What `nyc.carrier_hourly` has to hold, from the rows of the full join, sorted by the key."""
    with utc_database() as database:
        database.register("wide", wide)
        return database.sql(_HOURLY_QUERY).to_arrow_table().cast(HOURLY_SCHEMA)


def audit_table(found: pa.Table, expected: pa.Table) -> Audit:
    """Compare all columns of all rows of `nyc.flights_wide`, in any row order.

    Raises ValueError when `found` has other columns or types than the table.
    """
    return audit_rows(found, expected, TABLE_SCHEMA, KEY)


def audit_hourly(found: pa.Table, expected: pa.Table) -> Audit:
    """The same for `nyc.carrier_hourly`."""
    return audit_rows(found, expected, HOURLY_SCHEMA, HOURLY_KEY)


def audit_rows(found: pa.Table, expected: pa.Table, schema: pa.Schema, key: Sequence[str]) -> Audit:
    """The same for a table with these columns."""
    return _Comparison(schema, tuple(key)).audit(found, expected)


def utc_database() -> duckdb.DuckDBPyConnection:
    """Empty, in memory. Close it."""
    database = duckdb.connect(":memory:")
    database.execute("SET TimeZone = 'UTC'")
    return database


def view_newest(
    database: duckdb.DuckDBPyConnection, group: ColumnGroup, workspace: Workspace, schema: pa.Schema
) -> None:
    """The newest versions of a stream's rows, by its name. schema: which columns."""
    files = str(workspace.stream(group.name) / "*.parquet").replace("'", "''")
    database.execute(
        f"CREATE VIEW {group.name} AS SELECT DISTINCT {', '.join(schema.names)} "
        f"FROM read_parquet('{files}') QUALIFY {group.sequence} = "
        f"max({group.sequence}) OVER (PARTITION BY {', '.join(group.key_names)})"
    )


_Findings = tuple[int, list[Difference]]


class _Comparison:
    """Of two tables of one schema, in a database that lives as long as `audit` runs."""

    def __init__(self, schema: pa.Schema, key: tuple[str, ...]) -> None:
        self._schema = schema
        self._key = key
        self._keys = ", ".join(key)
        self._both = f"FROM found JOIN expected USING ({self._keys})"

    def audit(self, found: pa.Table, expected: pa.Table) -> Audit:
        self._require_schema(found)
        with utc_database() as database:
            for side, rows in (("found", found), ("expected", expected)):
                database.register(f"{side}_rows", rows)
                database.execute(
                    f"CREATE TABLE {side} AS SELECT {', '.join(self._schema.names)} FROM {side}_rows"
                )
            findings = [
                self._repeated_keys(database),
                self._unmatched_rows(database, "expected", "found"),
                self._unmatched_rows(database, "found", "expected"),
                *self._different_cells(database),
            ]
            both = _count(database, f"SELECT count(*) {self._both}")
        first = [difference for _, differences in findings for difference in differences]
        return Audit(
            row_count=both,
            cell_count=both * len(self._schema),
            difference_count=sum(count for count, _ in findings),
            first_differences=tuple(first[:_SHOWN_DIFFERENCES]),
        )

    def _require_schema(self, found: pa.Table) -> None:
        for field in self._schema:
            position = found.schema.get_field_index(field.name)
            kind = found.schema.field(position).type if position >= 0 else None
            if kind != field.type:
                raise ValueError(
                    f"column {field.name} read back from the table: expected {field.type}, found {kind}"
                )

    def _repeated_keys(self, database: duckdb.DuckDBPyConnection) -> _Findings:
        query = f"SELECT {self._keys}, count(*) AS copies FROM found GROUP BY ALL HAVING copies > 1"
        rows = database.execute(f"{query} LIMIT {_SHOWN_DIFFERENCES}").fetchall()
        count = _count(database, f"SELECT count(*) FROM ({query})")
        return count, [Difference(row[:-1], "", "one row", f"{row[-1]} rows") for row in rows]

    def _unmatched_rows(
        self, database: duckdb.DuckDBPyConnection, present: str, absent: str
    ) -> _Findings:
        """Rows of `present` whose key `absent` does not hold."""
        query = f"SELECT {self._keys} FROM {present} ANTI JOIN {absent} USING ({self._keys})"
        values = {present: "one row", absent: "no row"}
        differences = [
            Difference(row, "", values["expected"], values["found"])
            for row in database.execute(f"{query} LIMIT {_SHOWN_DIFFERENCES}").fetchall()
        ]
        return _count(database, f"SELECT count(*) FROM ({query})"), differences

    def _different_cells(self, database: duckdb.DuckDBPyConnection) -> list[_Findings]:
        """One entry per column outside the key; a single pass over the joined rows counts them all."""
        columns = [name for name in self._schema.names if name not in self._key]
        differs = {name: f"found.{name} IS DISTINCT FROM expected.{name}" for name in columns}
        counters = ", ".join(f"count(*) FILTER (WHERE {differs[name]})" for name in columns)
        counts = database.execute(f"SELECT {counters} {self._both}").fetchone()
        findings: list[_Findings] = []
        for name, count in zip(columns, counts or (), strict=True):
            values = f"SELECT {self._keys}, expected.{name}, found.{name} {self._both}"
            query = f"{values} WHERE {differs[name]} LIMIT {_SHOWN_DIFFERENCES}"
            rows = database.execute(query).fetchall() if count else []
            findings.append(
                (int(count), [Difference(row[:-2], name, row[-2], row[-1]) for row in rows])
            )
        return findings


def _count(database: duckdb.DuckDBPyConnection, query: str) -> int:
    row = database.execute(query).fetchone()
    return int(row[0]) if row else 0
