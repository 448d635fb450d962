"""The demo's pipeline without Spark, one step after the other: for tests of what comes after it.

Every stream writes its files in turn, the table is compacted now and then, and the second layer reads
the changes with `Table.changes`. What it takes from Spark in the demo, the sum of signed changes, DuckDB
computes here.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator

import duckdb
import pyarrow as pa

import widetable as wt
from examples.flights.carrier_hourly import DELTA_SCHEMA, SUMS
from examples.flights.dataset import Dataset
from examples.flights.facts import FACT_SCHEMA
from examples.flights.maintainer import CompactionRound
from examples.flights.micro_batch import MicroBatch
from examples.flights.pipeline import PipelineRun, StreamRun, create_table
from examples.flights.second_layer import LayerRun, add_once, create_hourly_table
from examples.flights.wide_table import GROUPS
from examples.flights.workspace import Workspace

_DELTAS = f"""
    SELECT * FROM (
        SELECT month, carrier, sched_dep_time // 100 AS hour, sum(sign) AS flights,
               coalesce(sum(sign) FILTER (arr_delay IS NOT NULL), 0) AS delay_count,
               coalesce(sum(sign * arr_delay), 0) AS delay_sum,
               coalesce(sum(sign) FILTER (dep_seq IS NOT NULL AND dep_time IS NULL), 0) AS cancelled_count
        FROM (SELECT *, CASE WHEN _row_kind IN ('+I', '+U') THEN 1 ELSE -1 END AS sign FROM changes)
        WHERE sched_dep_time IS NOT NULL GROUP BY ALL)
    WHERE {" OR ".join(f"{name} <> 0" for name in SUMS)}
"""


def join_by_dictionaries(dataset: Dataset) -> pa.Table:
    """The facts without Spark: an independent join, row by row."""
    airlines = {row["carrier"]: row["name"] for row in dataset.airlines.to_pylist()}
    airports = {row["faa"]: row for row in dataset.airports.to_pylist()}
    planes = {row["tailnum"]: row for row in dataset.planes.to_pylist()}
    weather = {(row["origin"], row["time_hour"]): row for row in dataset.weather.to_pylist()}
    rows = []
    for flight in dataset.flights.to_pylist():
        place = airports.get(flight["dest"], {})
        plane = planes.get(flight["tailnum"], {})
        reading = weather.get((flight["origin"], flight["time_hour"]))
        rows.append(
            {
                **(reading or {}),
                **flight,
                "has_weather": reading is not None,
                "airline": airlines.get(flight["carrier"]),
                "dest_name": place.get("name"),
                "dest_lat": place.get("lat"),
                "dest_lon": place.get("lon"),
                "plane_year": plane.get("year"),
                "plane_maker": plane.get("manufacturer"),
                "plane_model": plane.get("model"),
                "plane_engines": plane.get("engines"),
                "plane_seats": plane.get("seats"),
            }
        )
    return pa.Table.from_pylist(rows, schema=FACT_SCHEMA)


def fill_tables(workspace: Workspace, streams: dict[str, list[pa.Table]]) -> PipelineRun:
    """Make both tables and fill them; what a run of the queries would have told."""
    wide, hourly = create_table(workspace), create_hourly_table(workspace)
    batches: dict[str, list[MicroBatch]] = {group.name: [] for group in GROUPS}
    layer: list[MicroBatch] = []
    rounds: list[CompactionRound] = []
    started = time.time()
    for step, (name, number) in enumerate(_turns(streams)):
        begun = time.time()
        wide.write(streams[name][number], f"id-{name}", number)
        rows = streams[name][number].num_rows
        batches[name].append(MicroBatch(number, begun, time.time(), rows, ""))
        if step % 5 == 4:
            _compact(wide, rounds, full=False)
            _count_changes(wide, hourly, layer)
    _compact(wide, rounds, full=False)
    _compact(wide, rounds, full=True)
    _count_changes(wide, hourly, layer)
    return PipelineRun(
        startup_seconds=time.time() - started,
        streams=tuple(
            StreamRun(name, f"id-{name}", tuple(done), tuple(batch.started - 1 for batch in done))
            for name, done in batches.items()
        ),
        compactions=tuple(rounds),
        layer=LayerRun(tuple(layer), None),
    )


def deltas_of(changes: pa.Table) -> pa.Table:
    """What `signed_deltas` computes, by DuckDB."""
    with duckdb.connect(":memory:") as database:
        database.register("changes", changes)
        return database.sql(_DELTAS).to_arrow_table().cast(DELTA_SCHEMA)


def _turns(streams: dict[str, list[pa.Table]]) -> Iterator[tuple[str, int]]:
    """The streams' files in turn, as if all ran equally fast."""
    counts = {name: len(files) for name, files in streams.items()}
    for number in itertools.count():
        names = [name for name, count in counts.items() if number < count]
        if not names:
            return
        yield from ((name, number) for name in names)


def _compact(wide: wt.Table, rounds: list[CompactionRound], *, full: bool) -> None:
    begun = time.time()
    snapshot_id = wide.compact(full=full).snapshot_id
    if snapshot_id is not None:
        rounds.append(CompactionRound(begun, time.time() - begun, full, snapshot_id))


def _count_changes(wide: wt.Table, hourly: wt.Table, layer: list[MicroBatch]) -> None:
    begun = time.time()
    start = json.loads(layer[-1].end_offset)["next_snapshot"] - 1 if layer else 0
    end = wide.snapshots()[-1].id
    changes = wide.changes(start, end)
    add_once(hourly, len(layer), lambda: deltas_of(changes))
    offset = json.dumps({"next_snapshot": end + 1})
    layer.append(MicroBatch(len(layer), begun, time.time(), changes.num_rows, offset))
