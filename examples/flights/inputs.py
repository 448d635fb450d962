"""Five streams of files, three for Spark and two for a database. Records are late, repeated and corrected.

In: the facts (one row per flight, every value final), the data set for aircraft and weather, one seed.
Out: for each stream a list of Arrow tables, one per file, in order of arrival; `store_streams` writes
them as Parquet. The same input and seed give the same files.

How a stream comes about:

1. Every flight whose group is known, every aircraft and every hour at an airport gives one record with
   the final values. Its sequence is the moment the source issued it: a schedule about a day ahead, a
   departure after push-back, an arrival at the gate, a reading after the hour, an entry in the register
   of aircraft from a month before its first flight to two months after it.
2. Some had an earlier version with wrong values and a lower sequence: another aircraft, an estimated
   time, a rough reading, the entry of another aircraft. Where the final value is null (no aircraft,
   cancelled, diverted, no gust, no year) that is a correction to null. A flight that was cancelled
   without any earlier version has no departure and no arrival record at all.
3. A record arrives shortly after it was issued; a few arrive hours or days late, and of the wrong
   first versions some arrive after their correction, so the version with the lower sequence must
   lose although it comes last.
4. A few records arrive again, unchanged.
5. Records are ordered by arrival and cut into files of equal size, a different number per stream.

(key, sequence) is unique but for exact repeats. The truth is never read from here: `audit` folds
the files themselves.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from examples.flights.column_group import ColumnGroup
from examples.flights.dataset import Dataset
from examples.flights.dimensions import PLANES, WEATHER
from examples.flights.wide_table import ARRIVAL, DEPARTURE, GROUPS, SCHEDULE, STREAMS
from examples.flights.workspace import Workspace

SEED = 2013
MINUTE, HOUR, DAY = 60, 3_600, 86_400  # seconds
FILE_COUNTS = {"schedule": 9, "departure": 12, "arrival": 11, "planes": 5, "weather": 7}

_FIRST_FILE_TIME = (
    1_388_534_400  # epoch seconds; file times only fix the order in which Spark takes the files
)
_CORRECTED_SHARE = 0.04  # of the records with a plain final value
_OVERTAKEN_SHARE = 0.3  # of the wrong first versions: arrive after their correction
_LATE_SHARE = 0.03
_REPEATED_SHARE = 0.02

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def make_streams(facts: pa.Table, dataset: Dataset, seed: int = SEED) -> dict[str, list[pa.Table]]:
    """The files of every stream, by its name, each list in order of arrival."""
    sources = {group.name: facts for group in GROUPS}
    sources |= {PLANES.name: _first_flown(dataset), WEATHER.name: dataset.weather}
    seeds = np.random.SeedSequence(seed).spawn(len(STREAMS))
    return {
        group.name: cut(
            _records(group, sources[group.name], np.random.default_rng(child)),
            FILE_COUNTS[group.name],
        )
        for group, child in zip(STREAMS, seeds, strict=True)
    }


def store_streams(streams: dict[str, list[pa.Table]], workspace: Workspace) -> None:
    """Write the files. Spark takes files by modification time: set, one second apart."""
    for name, files in streams.items():
        folder = workspace.stream(name)
        folder.mkdir(parents=True)
        for number, table in enumerate(files):
            path = folder / f"{name}-{number:03d}.parquet"
            pq.write_table(table, path)
            os.utime(path, (_FIRST_FILE_TIME + number, _FIRST_FILE_TIME + number))


@dataclass(frozen=True)
class _InputPlan:
    """What makes one stream's records: for which rows, issued when, what a first version says."""

    known: Callable[[pa.Table, Bools], Bools]
    issued: Callable[[pa.Table, np.random.Generator], Ints]
    correctable_to_null: str  # the column whose final null may replace a first value
    to_null_share: float  # of the rows with that null
    first_version: Callable[[pa.Table, np.random.Generator], dict[str, pa.Array]]


def _records(group: ColumnGroup, facts: pa.Table, rng: np.random.Generator) -> pa.Table:
    """All records of one stream in order of arrival."""
    plan = _PLANS[group.name]
    final_is_null = _bools(pc.is_null(facts[plan.correctable_to_null]))
    to_null = final_is_null & (rng.random(facts.num_rows) < plan.to_null_share)
    known = plan.known(facts, to_null)
    corrected = known & (
        to_null | (~final_is_null & (rng.random(facts.num_rows) < _CORRECTED_SHARE))
    )
    issued = plan.issued(facts, rng)
    arrived = issued + _transit(len(issued), rng)

    first_issued = issued - _draw(rng, MINUTE, 6 * HOUR, len(issued))
    overtaken = rng.random(len(issued)) < _OVERTAKEN_SHARE
    after_correction = arrived + _draw(rng, 10 * MINUTE, 3 * DAY, len(issued))
    first_arrived = np.where(overtaken, after_correction, first_issued + _transit(len(issued), rng))

    final = _versions(group, facts, known, issued, arrived)
    first_facts = _replace(facts, plan.first_version(facts, rng))
    first = _versions(group, first_facts, corrected, first_issued, first_arrived)
    records = _with_repeats(pa.concat_tables([final, first]), rng)
    order = ["_arrived", *group.key_names, group.sequence]
    records = records.sort_by([(name, "ascending") for name in order])
    return records.select(group.stream_schema.names).cast(group.stream_schema)


def _versions(
    group: ColumnGroup, facts: pa.Table, rows: Bools, issued: Ints, arrived: Ints
) -> pa.Table:
    table = facts.append_column(group.sequence, pa.array(issued))
    table = table.append_column("_arrived", pa.array(arrived))
    return table.filter(pa.array(rows)).select([*group.stream_schema.names, "_arrived"])


def _with_repeats(records: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The records and, later, a few of them once more."""
    repeats = records.filter(pa.array(rng.random(records.num_rows) < _REPEATED_SHARE))
    again = _ints(repeats["_arrived"]) + _draw(rng, MINUTE, 2 * DAY, repeats.num_rows)
    return pa.concat_tables([records, _replace(repeats, {"_arrived": pa.array(again)})])


def _transit(count: int, rng: np.random.Generator) -> Ints:
    """Seconds between issue and arrival: up to two minutes, for a few records hours or days."""
    late = rng.random(count) < _LATE_SHARE
    delay = _draw(rng, 2 * HOUR, 5 * DAY, count)
    return np.where(late, delay, _draw(rng, 1, 2 * MINUTE, count))


def cut(records: pa.Table, file_count: int) -> list[pa.Table]:
    """In so many parts, in order and of equal size."""
    bounds = np.linspace(0, records.num_rows, file_count + 1, dtype=np.int64).tolist()
    return [records.slice(start, stop - start) for start, stop in itertools.pairwise(bounds)]


def _first_flown(dataset: Dataset) -> pa.Table:
    """The planes, with the hour of their first flight; of those that never fly, the first hour of all."""
    hours = dataset.flights.group_by("tailnum").aggregate([("time_hour", "min")])
    planes = dataset.planes.join(hours, "tailnum").sort_by("tailnum")
    first = pc.min(dataset.flights["time_hour"])
    return planes.append_column("time_hour", pc.fill_null(planes["time_hour_min"], first))


# When a source issues a version, in epoch seconds.


def _hour(facts: pa.Table) -> Ints:
    return _ints(facts["time_hour"].cast(pa.int64())) // 1_000_000


def _scheduled(facts: pa.Table) -> Ints:
    return _hour(facts) + _ints(facts["minute"]) * MINUTE


def _schedule_issued(facts: pa.Table, rng: np.random.Generator) -> Ints:
    return _scheduled(facts) - _draw(rng, 20 * HOUR, 28 * HOUR, facts.num_rows)


def _departure_issued(facts: pa.Table, rng: np.random.Generator) -> Ints:
    after_push_back = _draw(rng, MINUTE, 5 * MINUTE, facts.num_rows)
    return _scheduled(facts) + _ints(facts["dep_delay"], missing=120) * MINUTE + after_push_back


def _arrival_issued(facts: pa.Table, rng: np.random.Generator) -> Ints:
    unknown = _bools(pc.is_null(facts["air_time"]))
    flown: Ints = np.where(unknown, _typical_air_time(facts), _ints(facts["air_time"]))
    minutes = flown + _ints(facts["dep_delay"], missing=120)
    on_ground = _draw(rng, 20 * MINUTE, 40 * MINUTE, facts.num_rows)
    return _scheduled(facts) + minutes * MINUTE + on_ground


def _weather_issued(weather: pa.Table, rng: np.random.Generator) -> Ints:
    return _hour(weather) + HOUR + _draw(rng, 0, 10 * MINUTE, weather.num_rows)


def _plane_issued(planes: pa.Table, rng: np.random.Generator) -> Ints:
    return _hour(planes) + _draw(rng, -30 * DAY, 60 * DAY, planes.num_rows)


# What a wrong first version says; columns that are not named keep their final value.


def _other_aircraft(facts: pa.Table, rng: np.random.Generator) -> dict[str, pa.Array]:
    aircraft = facts["tailnum"].drop_null()
    return {"tailnum": aircraft.take(_draw(rng, 0, len(aircraft), facts.num_rows))}


def _estimated_departure(facts: pa.Table, rng: np.random.Generator) -> dict[str, pa.Array]:
    delay = _ints(facts["dep_delay"]) + _other_minutes(facts.num_rows, rng)
    return {
        "dep_delay": _int32(delay),
        "dep_time": _int32(_clock(_ints(facts["sched_dep_time"]), delay)),
    }


def _estimated_arrival(facts: pa.Table, rng: np.random.Generator) -> dict[str, pa.Array]:
    delay = _ints(facts["arr_delay"]) + _other_minutes(facts.num_rows, rng)
    return {
        "arr_delay": _int32(delay),
        "arr_time": _int32(_clock(_ints(facts["sched_arr_time"]), delay)),
        "air_time": _int32(_typical_air_time(facts)),
    }


def _other_entry(planes: pa.Table, rng: np.random.Generator) -> dict[str, pa.Array]:
    """Of another aircraft, with a year where there is none, and an engine too many."""
    drawn = planes.take(_draw(rng, 0, planes.num_rows, planes.num_rows))
    return {
        "year": pc.fill_null(drawn["year"], pa.scalar(1999, pa.int32())),
        "manufacturer": drawn["manufacturer"],
        "model": drawn["model"],
        "engines": pc.add(planes["engines"], pa.scalar(1, pa.int32())),
        "seats": drawn["seats"],
    }


def _rough_reading(weather: pa.Table, rng: np.random.Generator) -> dict[str, pa.Array]:
    temperature = np.round(_floats(weather["temp"]) + _draw(rng, 1, 4, weather.num_rows), 2)
    gust = np.round(_floats(weather["wind_speed"]) * 1.6 + 1.0, 5)
    return {
        "temp": pa.array(temperature, from_pandas=True),
        "wind_gust": pa.array(gust, from_pandas=True),
    }


def _other_minutes(count: int, rng: np.random.Generator) -> Ints:
    """A difference of 1 to 30 minutes, either way, never zero."""
    return _draw(rng, 1, 31, count) * (2 * _draw(rng, 0, 2, count) - 1)


def _clock(hhmm: Ints, minutes: Ints) -> Ints:
    """The local clock time `minutes` after `hhmm`, both as HHMM numbers."""
    total = (hhmm // 100 * 60 + hhmm % 100 + minutes) % (24 * 60)
    return total // 60 * 100 + total % 60


def _typical_air_time(facts: pa.Table) -> Ints:
    """Minutes in the air as the distance suggests: 20 to climb and land, 8 miles a minute."""
    return 20 + _ints(facts["distance"]) // 8


_PLANS = {
    SCHEDULE.name: _InputPlan(
        known=lambda facts, to_null: np.ones(facts.num_rows, dtype=np.bool_),
        issued=_schedule_issued,
        correctable_to_null="tailnum",
        to_null_share=0.4,
        first_version=_other_aircraft,
    ),
    DEPARTURE.name: _InputPlan(
        known=lambda facts, to_null: to_null | _bools(pc.is_valid(facts["dep_time"])),
        issued=_departure_issued,
        correctable_to_null="dep_time",
        to_null_share=0.4,
        first_version=_estimated_departure,
    ),
    ARRIVAL.name: _InputPlan(
        known=lambda facts, to_null: (
            to_null | _bools(pc.or_(pc.is_valid(facts["arr_time"]), pc.is_valid(facts["air_time"])))
        ),
        issued=_arrival_issued,
        correctable_to_null="arr_delay",
        to_null_share=0.4,
        first_version=_estimated_arrival,
    ),
    PLANES.name: _InputPlan(
        known=lambda planes, to_null: np.ones(planes.num_rows, dtype=np.bool_),
        issued=_plane_issued,
        correctable_to_null="year",
        to_null_share=0.4,
        first_version=_other_entry,
    ),
    WEATHER.name: _InputPlan(
        known=lambda weather, to_null: np.ones(weather.num_rows, dtype=np.bool_),
        issued=_weather_issued,
        correctable_to_null="wind_gust",
        to_null_share=0.03,
        first_version=_rough_reading,
    ),
}


def _replace(table: pa.Table, columns: dict[str, pa.Array]) -> pa.Table:
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, values)
    return table


def _draw(rng: np.random.Generator, low: int, high: int, count: int) -> Ints:
    """`count` whole numbers, low <= number < high."""
    drawn: Ints = rng.integers(low, high, count)
    return drawn


def _ints(column: pa.ChunkedArray, missing: int = 0) -> Ints:
    filled: Ints = pc.fill_null(column.cast(pa.int64()), missing).to_numpy()
    return filled


def _floats(column: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """The values, null as NaN."""
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _bools(column: pa.ChunkedArray) -> Bools:
    return np.asarray(column.to_numpy(), dtype=np.bool_)


def _int32(values: Ints) -> pa.Array:
    return pa.array(values.astype(np.int32))
