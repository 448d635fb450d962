"""What the features must be, by plain queries over the files of the streams (DuckDB).

Hours are counted since 1970. Windows: tiles and the hours that are asked for are sorted together, and the hours before
each are summed. Weather: an ASOF join with all records of readings. Out: the columns of `KNOWN_SCHEMA`.
"""

from __future__ import annotations

import pyarrow as pa

from examples.flights.audit import Audit, audit_rows, utc_database, view_newest
from examples.flights.dimensions import WEATHER
from examples.flights.prediction.airport_weather import READ
from examples.flights.prediction.delay_tiles import LATE_MINUTES, WINDOWS
from examples.flights.prediction.training_set import KNOWN_SCHEMA
from examples.flights.wide_table import ARRIVAL, DEPARTURE, GROUPS, KEY, LABEL, SCHEDULE
from examples.flights.workspace import Workspace

_SEQUENCE = WEATHER.sequence
_NEEDED = {
    SCHEDULE.name: ("origin", "sched_dep_time", "distance"),
    DEPARTURE.name: ("dep_delay",),
    ARRIVAL.name: (LABEL,),
}
_FLIGHTS = " ".join(
    [
        f"CREATE TABLE flights AS SELECT * FROM {GROUPS[0].name}",
        *(f"FULL JOIN {group.name} USING ({', '.join(KEY)})" for group in GROUPS[1:]),
    ]
)
_ARRIVED = f"""
    CREATE TABLE arrived AS
    SELECT {", ".join(KEY)}, origin, time_hour + to_minutes(sched_dep_time % 100) AS scheduled,
           {LABEL} > {LATE_MINUTES} AS late, sched_dep_time // 100 AS hour, distance,
           epoch_us(scheduled) // 1000000 AS seconds, seconds // 3600 AS tile
    FROM flights WHERE {LABEL} IS NOT NULL
"""
_TILES = f"""
    CREATE TABLE tiles AS
    SELECT origin, carrier, dep_seq // 3600 AS tile, count(*) AS departures, sum(dep_delay) AS minutes,
           count(*) FILTER (dep_delay > {LATE_MINUTES}) AS left_late, false AS is_asked
    FROM flights WHERE dep_delay IS NOT NULL GROUP BY ALL
    UNION ALL BY NAME SELECT DISTINCT origin, carrier, tile, true AS is_asked FROM arrived
"""
# Of two versions that an airport issued in one second, that of the later hour counts.
_READINGS = f"""
    CREATE TABLE readings AS
    SELECT DISTINCT origin AS airport, {_SEQUENCE}, {", ".join(READ)} FROM read_parquet($files)
    QUALIFY row_number() OVER (PARTITION BY origin, {_SEQUENCE} ORDER BY time_hour DESC) = 1
"""
_SUMS = ", ".join(
    f"coalesce(sum(departures) OVER last_{end}, 0)::BIGINT AS departures_{end}, "
    f"(sum(minutes) OVER last_{end})::DOUBLE / (sum(departures) OVER last_{end})::DOUBLE AS mean_delay_{end}, "
    f"(sum(left_late) OVER last_{end})::DOUBLE / (sum(departures) OVER last_{end})::DOUBLE AS late_share_{end}"
    for end in WINDOWS
)
_LAST = ", ".join(
    f"last_{end} AS (PARTITION BY origin, carrier ORDER BY tile RANGE BETWEEN {hours} PRECEDING AND 1 PRECEDING)"
    for end, hours in WINDOWS.items()
)
_FEATURES = f"""
    SELECT {", ".join(KNOWN_SCHEMA.names)} FROM arrived
    JOIN (SELECT *, {_SUMS} FROM tiles WINDOW {_LAST} QUALIFY is_asked) USING (origin, carrier, tile)
    ASOF LEFT JOIN readings ON origin = airport AND seconds >= {_SEQUENCE}
"""


def audit_features(found: pa.Table, workspace: Workspace) -> Audit:
    """Compare rows of `nyc.late_flights`, all columns but those made by hand. Raises ValueError as `audit_rows`."""
    return audit_rows(found, expected_features(workspace), KNOWN_SCHEMA, KEY)


def expected_features(workspace: Workspace) -> pa.Table:
    """Columns of `KNOWN_SCHEMA`, in no order."""
    with utc_database() as database:
        for group in GROUPS:
            columns = (*KEY, group.sequence, *_NEEDED[group.name])
            view_newest(
                database,
                group,
                workspace,
                pa.schema([group.written_schema.field(name) for name in columns]),
            )
        for statement in (_FLIGHTS, _ARRIVED, _TILES):
            database.execute(statement)
        files = str(workspace.stream(WEATHER.name) / "*.parquet")
        database.execute(_READINGS, {"files": files})
        return database.sql(_FEATURES).to_arrow_table().cast(KNOWN_SCHEMA)
