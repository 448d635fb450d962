"""The demo's pipeline without Spark, one step after the other: for tests of what comes after it.

Every stream writes its files in turn, the wide table is maintained now and then, and the second layer
reads the changes with `Table.changes`. Departures are looked up when the weather of their hours is known. What
comes from Spark in the demo, the sum of signed changes and the hour of a departure, DuckDB computes here.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import widetable as wt
from examples.flights.barrier_files import FILE_COUNT, store_counted_streams
from examples.flights.barrier_looks import Looks
from examples.flights.barrier_tables import (
    BARRIER_STREAMS,
    COUNTS_NAME,
    COUNTS_SCHEMA,
    FLIGHTS_NAME,
    INTERVAL_MILLIS,
)
from examples.flights.carrier_hourly import (
    DELTA_SCHEMA,
    HOURLY_KEY,
    ROW_KIND,
    SUMS,
    changed_rows,
)
from examples.flights.dataset import Dataset
from examples.flights.dimensions import WEATHER, dimension_options
from examples.flights.facts import FACT_SCHEMA
from examples.flights.maintainer import CompactionRound
from examples.flights.micro_batch import MicroBatch
from examples.flights.pipeline import PipelineRun, StreamRun
from examples.flights.second_layer import LayerRun, add_once
from examples.flights.tables import DemoTables, create_tables
from examples.flights.third_layer import LayerLooks
from examples.flights.weather_first import LOOKUP, weather_needed
from examples.flights.wide_table import DEPARTURE, STREAMS
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
_DEPARTURES = """
    SELECT month, time_hour, carrier, flight, dep_seq, origin, date_trunc('hour', time_hour + to_minutes(
               (dep_time // 100 * 60 + dep_time % 100 - dep_delay + 1440) % 60 + dep_delay)) AS dep_hour
    FROM departures
"""


def join_by_dictionaries(dataset: Dataset) -> pa.Table:
    """The facts without Spark: an independent join, row by row."""
    airlines = {row["carrier"]: row["name"] for row in dataset.airlines.to_pylist()}
    airports = {row["faa"]: row for row in dataset.airports.to_pylist()}
    rows = []
    for flight in dataset.flights.to_pylist():
        place = airports.get(flight["dest"], {})
        rows.append(
            {
                **flight,
                "airline": airlines.get(flight["carrier"]),
                "dest_name": place.get("name"),
                "dest_lat": place.get("lat"),
                "dest_lon": place.get("lon"),
            }
        )
    return pa.Table.from_pylist(rows, schema=FACT_SCHEMA)


def fill_tables(workspace: Workspace, streams: dict[str, list[pa.Table]]) -> PipelineRun:
    """Make all tables and fill them; what a run of the queries would have told."""
    tables = create_tables(workspace)
    wide, hourly = tables.wide, tables.hourly
    groups = {group.name: group for group in STREAMS}
    batches: dict[str, list[MicroBatch]] = {name: [] for name in groups}
    layer: list[MicroBatch] = []
    rounds: list[CompactionRound] = []
    started = time.time()
    for step, (name, number) in enumerate(_turns(streams)):
        begun = time.time()
        records = streams[name][number].select(groups[name].written_schema.names)
        tables.of(groups[name].table).write(records, f"id-{name}", number)
        batches[name].append(MicroBatch(number, begun, time.time(), records.num_rows, ""))
        if step % 5 == 4:
            _maintain(wide, rounds)
            _count_changes(wide, hourly, layer)
    while _maintain(wide, rounds):
        pass
    _note(rounds, time.time(), wide.compact(full=True).snapshot_id, full=True)
    _count_changes(wide, hourly, layer)
    runs = [_stream_run(name, done) for name, done in batches.items()]
    return PipelineRun(
        startup_seconds=time.time() - started,
        streams=tuple(runs),
        lookup=_stream_run(LOOKUP, _look_up(workspace, tables, streams)),
        compactions=tuple(rounds),
        layer=LayerRun(tuple(layer), None),
    )


def fill_barrier_tables(workspace: Workspace, streams: dict[str, list[pa.Table]]) -> LayerLooks:
    """Those of the third layer, a barrier for each file; looks at both before and after its flights are counted."""
    store_counted_streams(streams, workspace)
    catalog, looks, began = wt.Catalog(str(workspace.warehouse)), Looks(workspace), time.time()
    flights, counts = catalog.table(FLIGHTS_NAME), catalog.table(COUNTS_NAME)
    roots = {
        group.name: catalog.writer(group.table, group.name, [field.name for field in group.fields])
        for group in BARRIER_STREAMS
    }
    job = catalog.writer(COUNTS_NAME, "counts")
    for number in range(FILE_COUNT):
        before, barrier = number * INTERVAL_MILLIS, (number + 1) * INTERVAL_MILLIS
        for name, root in roots.items():
            file = workspace.counted_stream(name) / f"{name}-{number:03d}.parquet"
            root.write(pq.read_table(file), barrier=barrier, complete=True)
        looks.uncommitted()
        flights.maintain(once=True)
        deltas = deltas_of(flights.changes(before, barrier, mode="barrier"))
        rows = changed_rows(deltas, counts.lookup(deltas.select(HOURLY_KEY)))
        job.write(rows.select([*COUNTS_SCHEMA.names, ROW_KIND]), barrier=barrier, complete=True)
        looks.at_barrier()
    return LayerLooks(began, tuple(looks.at_barriers), tuple(looks.newest))


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


def _stream_run(name: str, done: list[MicroBatch]) -> StreamRun:
    return StreamRun(name, f"id-{name}", tuple(done), tuple(batch.started - 1 for batch in done))


def _look_up(
    workspace: Workspace, tables: DemoTables, streams: dict[str, list[pa.Table]]
) -> list[MicroBatch]:
    """Anew, file by file: each with the weather that must be known, in a table that has no more than that."""
    weather, needed = streams[WEATHER.name], weather_needed(workspace)
    known = wt.Catalog(str(workspace.warehouse)).create_table(
        "nyc.known_weather",
        WEATHER.written_schema,
        primary_key=WEATHER.key_names,
        options=dimension_options(WEATHER),
    )
    batches = []
    written = 0
    for number, records in enumerate(streams[DEPARTURE.name]):
        begun = time.time()
        while written < needed[number]:
            known.write(weather[written])
            written += 1
        on = {"origin": "origin", "dep_hour": "time_hour"}
        found = wt.lookup_join(_with_hour(records).to_batches(), known, on, WEATHER.value_names)
        rows = pa.Table.from_batches(found)
        tables.departures.write(rows, f"id-{LOOKUP}", number)
        batches.append(MicroBatch(number, begun, time.time(), rows.num_rows, ""))
    return batches


def _with_hour(records: pa.Table) -> pa.Table:
    with duckdb.connect(":memory:") as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("departures", records)
        return database.sql(_DEPARTURES).to_arrow_table()


def _maintain(wide: wt.Table, rounds: list[CompactionRound]) -> bool:
    """One round; whether there was something to do."""
    begun = time.time()
    done = wide.maintain(once=True, expire=False)
    _note(rounds, begun, done.snapshot_id, full=False)
    return not done.is_idle


def _note(
    rounds: list[CompactionRound], begun: float, snapshot_id: int | None, *, full: bool
) -> None:
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
