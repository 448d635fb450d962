"""The list of workloads, one sentence each; `python -m benchmarks` runs them in this order."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.append import bench_append, bench_file_indexes, bench_queries
from benchmarks.cdc import bench_database, bench_log_decoder, bench_many_tables, bench_source_reads
from benchmarks.engine import (
    bench_commit,
    bench_compact,
    bench_contention,
    bench_event_groups,
    bench_first_load,
    bench_functions,
    bench_growth,
    bench_history,
    bench_hot_table,
    bench_loader,
    bench_many_buckets,
    bench_merge,
    bench_planning,
    bench_point_in_time,
    bench_requests,
    bench_scan,
    bench_start,
    bench_wide_columns,
    bench_windows,
    bench_write,
)
from benchmarks.harness import Row, Size
from benchmarks.lookups import (
    bench_lookup,
    bench_lookup_cache,
    bench_lookup_changelog,
    bench_lookup_join,
    bench_lookup_session,
)
from benchmarks.streams import (
    bench_barriers,
    bench_barriers_by_clock,
    bench_delta_join,
    bench_derived,
    bench_freshness,
    bench_freshness_demo,
    bench_samples,
    bench_stream,
    bench_stream_join,
    bench_widening,
)


class Workload(NamedTuple):
    """run: with the size asked for; `only_full` ones have no other size."""

    sentence: str
    run: Callable[[Size], list[Row]]
    only_full: bool = False


def _full(sentence: str, run: Callable[[], list[Row]]) -> Workload:
    return Workload(sentence, lambda _: run(), only_full=True)


MENU: dict[str, Workload] = {
    "start": _full(
        "First write, import and help in fresh processes, against delta-rs and lance.",
        bench_start.run,
    ),
    "merge": _full(
        "Compact a 60-column bucket against plain Parquet decode + encode of the same rows.",
        bench_merge.run,
    ),
    "append": Workload(
        "Append tables: loads, and a sort by four columns with what it saves readers, against delta-rs.",
        bench_append.run,
    ),
    "queries": Workload(
        "Point and range queries of a sorted append table, against DuckDB and pyarrow over unsorted Parquet files.",
        bench_queries.run,
    ),
    "file_indexes": Workload(
        "File indexes of an unsorted append table: their cost, and queries, against DuckDB with Bloom filters.",
        bench_file_indexes.run,
    ),
    "functions": Workload(
        "Merge columns that aggregate functions fill, against last_non_null_value.",
        bench_functions.run,
    ),
    "write": _full(
        "Write 10 and 60 columns from Python against pyarrow's Parquet writer.", bench_write.run
    ),
    "first_load": Workload(
        "Load 5 M rows into an empty table of four buckets, against delta-rs.", bench_first_load.run
    ),
    "stream": _full(
        "Write 10 and 60 columns through the Spark sink against Spark's own Parquet sink.",
        bench_stream.run,
    ),
    "scan": _full("Merge-read a table of overlapping runs against pypaimon.", bench_scan.run),
    "loader": Workload(
        "Give rows in batches of numpy, shuffled and not, against plain Parquet batches.",
        bench_loader.run,
    ),
    "commit": _full(
        "Commit time while snapshots and live files grow from 10 to 10,000.", bench_commit.run
    ),
    "planning": _full(
        "Plan a scan of 100,000 live files, in a fresh process and again in the same.",
        bench_planning.run,
    ),
    "derived": _full(
        "Barriers a second of 1, 5 and 20 derived jobs of Spark, and how fresh sessions are.",
        bench_derived.run,
    ),
    "barriers": Workload(
        "Appends, scans and sessions under barriers, against the same without them.",
        bench_barriers.run,
    ),
    "barriers_by_clock": Workload(
        "Writers that go by the clock, with and without barriers, without a changelog and with one.",
        bench_barriers_by_clock.run,
    ),
    "requests": Workload(
        "Requests to an object store by operation, with their price.", bench_requests.run
    ),
    "many_buckets": _full(
        "Plan and maintain a table of 10,000 buckets; commit on top of 1,000 to 100,000 snapshots.",
        bench_many_buckets.run,
    ),
    "compact": _full(
        "Peak memory of compacting a bucket four times larger than its budget.", bench_compact.run
    ),
    "lookup_changelog": Workload(
        "Write 1.5 M rows over 500 K keys in 10 commits with a lookup changelog against Paimon's Java.",
        bench_lookup_changelog.run,
    ),
    "lookup": Workload(
        "Find rows by key in tables of 1 M and 10 M keys: hit and miss, int and text, cold and warm.",
        bench_lookup.run,
    ),
    "lookup_session": Workload(
        "Fixed cost of a call of a lookup session over 1, 4 and 16 buckets; point reads.",
        bench_lookup_session.run,
    ),
    "widening": Workload(
        "Widen 1 M facts after 1 % of their dim changed, against a recompute by DuckDB.",
        bench_widening.run,
    ),
    "lookup_join": Workload(
        "Enrich a stream from a table by lookups, against Spark's own joins.", bench_lookup_join.run
    ),
    "delta_join": Workload(
        "Keep the join of two tables after 1 % of both changed, against a recompute by DuckDB.",
        bench_delta_join.run,
    ),
    "stream_join": Workload(
        "Keep the join of two tables after 1 % more rows in both, against Spark's stream-stream join.",
        bench_stream_join.run,
    ),
    "point_in_time": Workload(
        "Add the features that were known at the time of each row, against as-of joins of DuckDB and Polars.",
        bench_point_in_time.run,
    ),
    "event_groups": Workload(
        "Add the features of five groups by their own event times, against five ASOF joins of DuckDB.",
        bench_event_groups.run,
    ),
    "hot_table": Workload(
        "Query a table with 1 and 5 % newer rows by Spark, Python and DuckDB, against the same table compacted.",
        bench_hot_table.run,
    ),
    "history": Workload(
        "Commit 100 K rows with a lookup changelog and a history, against the same without one.",
        bench_history.run,
    ),
    "windows": Workload(
        "Sums over five windows of time for 1 M rows and 20 M tiles, against DuckDB and Spark.",
        bench_windows.run,
    ),
    "samples": Workload(
        "Give 1 M samples with labels of 30 minutes from three streams, against Spark's joins of streams.",
        bench_samples.run,
    ),
    "growth": Workload(
        "A 100 K-row commit with its lookup changelog into tables of 1 M and 10 M keys.",
        bench_growth.run,
    ),
    "wide_columns": Workload(
        "Write, compact and read ten columns of 200 to 5,000 declared ones, against ten of 20; and Paimon's Java.",
        bench_wide_columns.run,
    ),
    "lookup_cache": Workload(
        "Disk and memory that lookup caches take, against the bytes of the table.",
        bench_lookup_cache.run,
    ),
    "contention": Workload(
        "The same small commits by 1, 8 and 32 processes, changelogs by a maintainer or inline.",
        bench_contention.run,
    ),
    "freshness": Workload(
        "How old a record is when a Spark stream reader sees its changelog row.",
        bench_freshness.run,
    ),
    "freshness_demo": _full(
        "How old a record of the demo is in the changelog and in the second layer, all queries running.",
        bench_freshness_demo.run,
    ),
    "log_decoder": Workload(
        "Decode 1 M changes of PostgreSQL's log to Arrow, against a loop over rows.",
        bench_log_decoder.run,
    ),
    "source_reads": Workload(
        "Read rows and the log of PostgreSQL and drop them, against COPY by psycopg.",
        bench_source_reads.run,
    ),
    "database": Workload(
        "Copy a PostgreSQL table, follow its log, and how old changes are, against ADBC and the server alone.",
        bench_database.run,
    ),
    "many_tables": Workload(
        "Copy a PostgreSQL database of many tables, follow it, and start again behind kill -9.",
        bench_many_tables.run,
    ),
}
