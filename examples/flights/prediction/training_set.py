"""The rows that a model is trained with: one for each flight that arrived, at its scheduled departure.

`nyc.late_flights` has the label (`late`: it arrived more than 15 minutes late), what the schedule says, and the
features twice, under the names of `FEATURES` and, with `LEAKED` before them, once more:

- as they were known at the scheduled departure (`table.windows`, `table.point_in_time`): this is what a model gets when
  it is used. A flight that was reported to have left early by then is among those of its carrier: that was known;
- as one makes them by hand of the newest rows (`hand_made`).

In: the rows of the tables of flights and weather, the files of readings. Out: the table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import widetable as wt
from examples.flights.prediction.airport_weather import (
    fill_weather,
    weather_features,
    with_weather,
)
from examples.flights.prediction.delay_tiles import (
    LATE_MINUTES,
    delay_features,
    fill_tiles,
    with_delays,
)
from examples.flights.wide_table import KEY, KEY_FIELDS, LABEL

TRAINING_NAME = "nyc.late_flights"
LATE, SCHEDULED = "late", "scheduled"
LEAKED = "leaked_"
SCHEDULE_FEATURES = ("hour", "distance")
_FEATURE_FIELDS = (*delay_features(), *weather_features())
FEATURES = tuple(field.name for field in _FEATURE_FIELDS)

# What is compared: all but what is made by hand.
KNOWN_SCHEMA = pa.schema(
    [
        *KEY_FIELDS,
        pa.field(SCHEDULED, pa.timestamp("us", tz="UTC")),
        pa.field(LATE, pa.bool_()),
        *(pa.field(name, pa.int32()) for name in SCHEDULE_FEATURES),
        *_FEATURE_FIELDS,
    ]
)
TRAINING_SCHEMA = pa.schema(
    [*KNOWN_SCHEMA, *(field.with_name(LEAKED + field.name) for field in _FEATURE_FIELDS)]
)


def arrived_flights(flights: pa.Table) -> pa.Table:
    """The flights that arrived: key, origin, scheduled departure, label, what the schedule says.

    flights: rows of `nyc.flights_wide`.
    """
    arrived = flights.filter(pc.is_valid(flights[LABEL]))
    clock = arrived["sched_dep_time"].to_numpy().astype(np.int64)  # local, HHMM
    minutes = pa.array(clock % 100 * 60_000_000).cast(pa.duration("us"))
    columns = {
        **{name: arrived[name] for name in (*KEY, "origin")},
        SCHEDULED: pc.add(arrived["time_hour"], minutes),
        LATE: pc.greater(arrived[LABEL], LATE_MINUTES),
        "hour": pa.array((clock // 100).astype(np.int32)),
        "distance": arrived["distance"],
    }
    return pa.table(columns)


def with_known_features(
    catalog: wt.Catalog, flights: pa.Table, readings: Sequence[pa.Table]
) -> pa.Table:
    """The flights that arrived, with the columns of `KNOWN_SCHEMA`. Makes the tables that the features come from."""
    rows = with_delays(fill_tiles(catalog, flights), arrived_flights(flights), SCHEDULED)
    rows = with_weather(fill_weather(catalog, readings), rows, SCHEDULED)
    return rows.select(KNOWN_SCHEMA.names).cast(KNOWN_SCHEMA)


def store_training_set(catalog: wt.Catalog, known: pa.Table, leaked: pa.Table) -> wt.Table:
    """Make the table. known: columns of `KNOWN_SCHEMA`. leaked: the key and `FEATURES` of these, sorted by it.

    Rows are written in the order of the key, so files, and the order in which a loader takes rows, are always the same.
    """
    rows = known.sort_by([(name, "ascending") for name in KEY])
    strangers = [name for name in KEY if not rows[name].equals(leaked[name])]
    if strangers:
        raise ValueError(f"features made by hand: other flights, by {', '.join(strangers)}")
    for name in FEATURES:
        rows = rows.append_column(LEAKED + name, leaked[name])
    table = catalog.create_table(
        TRAINING_NAME, TRAINING_SCHEMA, primary_key=list(KEY), options={"bucket": "1"}
    )
    table.write(rows.cast(TRAINING_SCHEMA))
    return table
