"""The table of departures with the weather in which they left: its columns, and the stream that fills it.

Every departure record is looked up in `nyc.weather` by its airport and the hour in which the flight left,
which is not always the hour of its schedule. A flight that did not leave has no hour and no weather. A
record with a lower sequence than the stored one loses, as in the wide table.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import widetable as wt
import widetable_spark
from examples.flights.dimensions import WEATHER
from examples.flights.wide_table import DEPARTURE, KEY, KEY_FIELDS

DEPARTURES_NAME = "nyc.departure_weather"
DEPARTURES_SCHEMA = pa.schema(
    [
        *KEY_FIELDS,
        pa.field(DEPARTURE.sequence, pa.int64()),
        pa.field("origin", pa.string()),
        pa.field("dep_hour", pa.timestamp("us", tz="UTC")),
        *WEATHER.values,
    ]
)
DEPARTURES_OPTIONS: dict[str, str] = {
    "bucket": "1",
    "merge-engine": "deduplicate",
    "sequence.field": DEPARTURE.sequence,
}
# dep_time is a clock time (HHMM), dep_delay the minutes after the schedule: together they tell the minute of the
# schedule in its hour, and so the instant.
_DEPARTURE_HOUR = """
    date_trunc('hour', timestampadd(
        MINUTE, pmod(dep_time DIV 100 * 60 + dep_time % 100 - dep_delay, 60) + dep_delay, time_hour))
"""


def with_weather(departures: DataFrame, weather: wt.Table) -> DataFrame:
    """Columns of `DEPARTURES_SCHEMA`. departures: records of the stream, streaming or not."""
    left = departures.select(
        *KEY, DEPARTURE.sequence, "origin", F.expr(_DEPARTURE_HOUR).alias("dep_hour")
    )
    on = {"origin": "origin", "dep_hour": "time_hour"}
    return widetable_spark.lookup_join(left, weather, on, WEATHER.value_names)
