"""The features as people make them by hand: one query over the newest rows, which knows how it ended.

    over the last hours   ... RANGE BETWEEN INTERVAL 2 HOURS PRECEDING AND CURRENT ROW
    the weather           ... LEFT JOIN weather USING (origin, time_hour)

Both look right. But a flight is filed under the hour in which it was scheduled, so the window ends with flights that
had not left yet, with this one among them; and the reading of an hour is issued after the hour. A model that is
trained with them has seen what it is to predict.

In: rows of the tables of flights and weather, as a scan gives them. Out: the key and `FEATURES` of the flights
that arrived, sorted by the key.
"""

from __future__ import annotations

import pyarrow as pa

from examples.flights.audit import utc_database
from examples.flights.prediction.airport_weather import READ
from examples.flights.prediction.delay_tiles import LATE_MINUTES, WINDOWS
from examples.flights.prediction.training_set import FEATURES
from examples.flights.wide_table import KEY, LABEL


def leaked_features(flights: pa.Table, weather: pa.Table) -> pa.Table:
    """By DuckDB. flights, weather: rows of `nyc.flights_wide` and `nyc.weather`."""
    over = {end: f"OVER last_{end}" for end in WINDOWS}
    columns = [
        f"count(dep_delay) {last} AS departures_{end}, avg(dep_delay) {last} AS mean_delay_{end}, "
        f"avg((dep_delay > {LATE_MINUTES})::INT) {last} AS late_share_{end}"
        for end, last in over.items()
    ]
    windows = [
        f"last_{end} AS (PARTITION BY origin, carrier ORDER BY time_hour RANGE BETWEEN "
        f"INTERVAL {hours - 1} HOURS PRECEDING AND CURRENT ROW)"
        for end, hours in WINDOWS.items()
    ]
    with utc_database() as database:
        database.register("flights", flights)
        database.register("weather", weather)
        found = database.sql(
            f"SELECT flights.* EXCLUDE (origin, {LABEL}), {', '.join(READ)} "
            f"FROM (SELECT {', '.join(KEY)}, origin, {LABEL}, {', '.join(columns)} FROM flights "
            f"WINDOW {', '.join(windows)}) AS flights "
            f"LEFT JOIN weather USING (origin, time_hour) "
            f"WHERE {LABEL} IS NOT NULL ORDER BY {', '.join(KEY)}"
        ).to_arrow_table()
    return found.select([*KEY, *FEATURES])
