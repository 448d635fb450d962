"""What a server can give at most: rows of a table, and its log, each as a job reads them and then drops them.

The rows of 11 columns go through `read_chunk` into Arrow, with the expressions that the targets' types ask for, against
psycopg's COPY BINARY, whose bytes are not decoded. The log of as many inserted rows is peeked at by ADBC, against the
same COPY by psycopg. Server and reader share the machine: seconds are those of the clock, CPU is the reader's alone.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

import psycopg

from benchmarks.harness import Row, Size, Timing, paired, timed
from tests.support.databases.postgres_server import postgres_server
from widetable_cdc.source.catalog_tables import source_tables
from widetable_cdc.source.chunk_range import ChunkRange
from widetable_cdc.source.chunk_rows import read_chunk
from widetable_cdc.source.session import session
from widetable_cdc.source.slot import Slot
from widetable_cdc.source.sql_name import quoted
from widetable_cdc.source.transport import PeekTransport
from widetable_cdc.values.column_type import column_type

ROWS = {Size.FULL: 2_000_000, Size.SHORT: 200_000, Size.TINY: 400}
ROUNDS = {Size.FULL: 5, Size.SHORT: 3, Size.TINY: 1}
TABLE = (
    "CREATE TABLE t (id bigint PRIMARY KEY, a int, b float8, c numeric(12, 2), d text, e timestamptz, f date,"
    " g bool, h jsonb, i varchar(20), j int)"
)
INSERT = (
    "INSERT INTO t SELECT g, g % 1000, g * 0.1, g / 100.0, 'text of row ' || g, now() + g * interval '1 s',"
    " '2026-01-01'::date + (g % 100)::int, g % 2 = 0, jsonb_build_object('a', g), 'name' || (g % 100), g % 7"
    " FROM generate_series(1, {rows}) AS g"
)
_PEEK = (
    "SELECT lsn, xid, data FROM pg_logical_slot_peek_binary_changes('s', NULL, NULL, "
    "'proto_version', '1', 'publication_names', 'p')"
)


def run(size: Size) -> list[Row]:
    rows = ROWS[size]
    with postgres_server(shared_buffers="128MB", max_wal_size="8GB") as server:
        server.execute(TABLE, "CREATE PUBLICATION p FOR TABLE t")
        with session(server.dsn, "benchmark") as connection:
            Slot(connection, "s").create()
            (table,) = source_tables(connection, ["t"]).values()
        server.execute(INSERT.format(rows=rows), "VACUUM ANALYZE t")
        select = [column_type(each.type).select(quoted(each.name)) for each in table.columns]

        def chunk() -> None:
            with read_chunk(server.dsn, "benchmark", table, select, ChunkRange()) as read:
                assert sum(batch.num_rows for batch in read.batches) == rows

        transport = PeekTransport(server.dsn, "benchmark", "s", "p")
        pairs = [
            (f"{rows:,} rows of 11 columns", chunk, _copy(server.dsn, "TABLE t")),
            (
                f"the log of {rows:,} rows",
                lambda: transport.changes(0, 2**31 - 1),
                _copy(server.dsn, _PEEK),
            ),
        ]
        lines = [_compare(*pair, rows, size) for pair in pairs]
        transport.close()
    return lines


def _copy(dsn: str, query: str) -> Callable[[], None]:
    def copy() -> None:
        with psycopg.connect(dsn) as connection:
            query_text = f"COPY ({query}) TO STDOUT (FORMAT binary)".encode()
            with connection.cursor().copy(query_text) as copied:
                for _ in copied:
                    pass

    return copy


def _compare(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], rows: int, size: Size
) -> Row:
    sides: tuple[list[Timing], list[Timing]] = ([], [])

    def seconds(side: int, call: Callable[[], object]) -> float:
        gc.collect()
        sides[side].append(timed(call))
        return sides[side][-1].wall

    ours_s, theirs_s, ratio, pairs = paired(
        lambda: seconds(0, ours), lambda: seconds(1, theirs), ROUNDS[size]
    )
    cpu = [min(each.cpu for each in side) / rows * 1e6 for side in sides]
    return Row(
        f"{name}, read and dropped",
        f"{rows / ours_s / 1e3:,.0f} K rows/s, {cpu[0]:.2f} µs of CPU a row",
        f"COPY by psycopg {rows / theirs_s / 1e3:,.0f} K rows/s, {cpu[1]:.2f} µs",
        ratio,
        details={"pairs": pairs},
    )
