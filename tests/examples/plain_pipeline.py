"""The demo's pipeline without Spark, one step after the other: for tests of what comes after it.

Every stream writes its files in turn, a barrier each; then the wide table is maintained, the second layer reads the
changes of the barrier, and all is looked at. Departures are looked up when the weather of their hours is known. What
comes from Spark in the demo, the sum of signed changes and the hour of a departure, DuckDB computes here.
"""

from __future__ import annotations

import json
import time

import duckdb
import pyarrow as pa

import widetable as wt
from examples.flights.barrier_looks import BARRIER_TABLES, BarrierChecker
from examples.flights.carrier_hourly import HOURLY_NAME, HOURLY_SCHEMA, READ_COLUMNS, ROW_KIND
from examples.flights.dataset import Dataset
from examples.flights.dimensions import BARRIERS, DIMENSIONS, WEATHER
from examples.flights.facts import FACT_SCHEMA
from examples.flights.maintainer import CompactionRound
from examples.flights.micro_batch import MicroBatch
from examples.flights.pipeline import PipelineRun, StreamRun
from examples.flights.second_layer import JOB, LayerRun
from examples.flights.tables import DemoTables, create_tables
from examples.flights.weather.weather_first import LOOKUP, weather_needed
from examples.flights.wide_table import DEPARTURE, STREAMS
from examples.flights.workspace import Workspace

INTERVAL_MILLIS = 1_000
_HOURLY = f"""
    SELECT *, delay_sum::DOUBLE / nullif(delay_count, 0) AS mean_delay,
           cancelled_count::DOUBLE / nullif(flights, 0) AS cancelled_share,
           CASE WHEN flights = 0 THEN '-D' ELSE '+U' END AS {ROW_KIND}
    FROM (SELECT month, carrier, sched_dep_time // 100 AS hour, sum(sign) AS flights,
                 coalesce(sum(sign) FILTER (arr_delay IS NOT NULL), 0) AS delay_count,
                 coalesce(sum(sign * arr_delay), 0) AS delay_sum,
                 coalesce(sum(sign) FILTER (dep_seq IS NOT NULL AND dep_time IS NULL), 0) AS cancelled_count
          FROM (SELECT *, CASE WHEN {ROW_KIND} IN ('+I', '+U') THEN 1 ELSE -1 END AS sign FROM changes)
          WHERE sched_dep_time IS NOT NULL GROUP BY ALL HAVING max(barrier) = ?)
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
    """Make all tables and fill them; what a run of the queries would have said."""
    create_dimensions(workspace)
    tables, rounds, started = create_tables(workspace), list[CompactionRound](), time.time()
    looks, roots = BarrierChecker(workspace), _Roots(workspace, tables)
    layer = _Layer(workspace, tables.wide)
    for number in range(max(map(len, streams.values()))):
        barrier = (number + 1) * INTERVAL_MILLIS
        for name, files in streams.items():
            if number < len(files):
                roots.write(name, number, files[number], barrier)
                if name == DEPARTURE.name:
                    tables.records.write(files[number])
        roots.complete(barrier)
        looks.uncommitted()
        _maintain(tables.wide, rounds)
        layer.count_to(barrier)
        looks.at_barrier()
    while _maintain(tables.wide, rounds):
        pass
    _note(rounds, time.time(), tables.wide.compact(full=True).snapshot_id, full=True)
    runs = [_stream_run(name, done) for name, done in roots.batches.items()]
    return PipelineRun(
        startup_seconds=time.time() - started,
        streams=tuple(runs),
        lookup=_stream_run(LOOKUP, _look_up(workspace, tables, streams)),
        compactions=tuple(rounds),
        layer=LayerRun(_id(JOB), tuple(layer.batches), None),
        looks=looks.taken,
    )


def create_dimensions(workspace: Workspace) -> None:
    """Make the tables of aircraft and weather, which the job of the database makes in the demo."""
    catalog = wt.Catalog(str(workspace.warehouse))
    for group in DIMENSIONS:
        options = {"bucket": "1", "sequence.field": group.sequence}
        catalog.create_table(
            group.table,
            group.written_schema,
            primary_key=group.key_names,
            options=options | (BARRIERS if group.table in BARRIER_TABLES else {}),
        )


class _Roots:
    """The five streams; those into tables under barriers say when they have all of one."""

    def __init__(self, workspace: Workspace, tables: DemoTables) -> None:
        self.batches: dict[str, list[MicroBatch]] = {group.name: [] for group in STREAMS}
        self._groups = {group.name: group for group in STREAMS}
        self._tables = tables
        catalog = wt.Catalog(str(workspace.warehouse))
        self._writers = {
            group.name: catalog.writer(
                group.table, _id(group.name), [field.name for field in group.fields]
            )
            for group in STREAMS
            if group.table in BARRIER_TABLES
        }

    def write(self, name: str, number: int, records: pa.Table, barrier: int) -> None:
        begun, group = time.time(), self._groups[name]
        rows = records.select(group.written_schema.names)
        if name in self._writers:
            self._writers[name].write(rows, number, barrier=barrier, complete=True)
        else:
            self._tables.of(group.table).write(rows, _id(name), number)
        self.batches[name].append(MicroBatch(number, begun, time.time(), rows.num_rows, ""))

    def complete(self, barrier: int) -> None:
        for writer in self._writers.values():
            writer.complete(barrier)


class _Layer:
    """The second layer. It keeps all changes, where Spark keeps their sums."""

    def __init__(self, workspace: Workspace, wide: wt.Table) -> None:
        self.batches: list[MicroBatch] = []
        self._wide = wide
        self._writer = wt.Catalog(str(workspace.warehouse)).writer(HOURLY_NAME, _id(JOB))
        self._changes: list[pa.Table] = []
        self._barrier = 0

    def count_to(self, barrier: int) -> None:
        begun, number = time.time(), len(self.batches)
        changes = self._wide.changes(
            self._barrier, barrier, columns=list(READ_COLUMNS), mode="barrier"
        )
        column = pa.array([barrier] * changes.num_rows, pa.int64())
        self._changes.append(changes.append_column("barrier", column))
        rows = hourly_of(pa.concat_tables(self._changes), barrier)
        self._writer.write(rows, number, barrier=barrier, complete=True)
        self._writer.complete(barrier)
        self._barrier = barrier
        offset = json.dumps({"barrier": barrier})
        self.batches.append(MicroBatch(number, begun, time.time(), changes.num_rows, offset))


def hourly_of(changes: pa.Table, barrier: int) -> pa.Table:
    """What `hourly_rows` computes, by DuckDB, of the keys that changed up to that barrier and not up to those before.

    changes: with a column `barrier`, of all barriers.
    """
    schema = HOURLY_SCHEMA.append(pa.field(ROW_KIND, pa.string()))
    with duckdb.connect(":memory:") as database:
        database.register("changes", changes)
        found = database.sql(_HOURLY, params=[barrier]).to_arrow_table()
        return found.select(schema.names).cast(schema)


def _id(name: str) -> str:
    return f"id-{name}"


def _stream_run(name: str, done: list[MicroBatch]) -> StreamRun:
    return StreamRun(name, _id(name), tuple(done), tuple(batch.started - 1 for batch in done))


def _look_up(
    workspace: Workspace, tables: DemoTables, streams: dict[str, list[pa.Table]]
) -> list[MicroBatch]:
    """Anew, file by file: each with the weather that must be known, in a table that has no more than that."""
    weather, needed = streams[WEATHER.name], weather_needed(workspace)
    known = wt.Catalog(str(workspace.warehouse)).create_table(
        "nyc.known_weather",
        WEATHER.written_schema,
        primary_key=WEATHER.key_names,
        options={"bucket": "1", "sequence.field": WEATHER.sequence},
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
        tables.departures.write(rows, _id(LOOKUP), number)
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
