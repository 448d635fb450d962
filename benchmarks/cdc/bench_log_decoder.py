"""The decoder of the log alone: 1 M changes of 11 columns, which lie in memory, to Arrow, against a loop over rows.

A server writes them: half inserts and half updates, one half in transactions of ten and the other in one. Both sides
make columns of texts, and then the target's types by the same casts.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable

import psycopg
import pyarrow as pa

from benchmarks.cdc.row_loop import row_loop
from benchmarks.harness import Row, Size, paired, timed
from tests.cdc.log.peeked_log import new_slot, peeked
from tests.support.databases.postgres_server import postgres_server
from widetable_cdc.log.changes import DecodedLog, Relation
from widetable_cdc.log.log_decoder import LogDecoder
from widetable_cdc.values.column_type import column_type
from widetable_cdc.values.source_type import SourceType

CHANGES = {Size.FULL: 1_000_000, Size.SHORT: 100_000, Size.TINY: 400}
ROUNDS = {Size.FULL: 5, Size.SHORT: 3, Size.TINY: 1}
TARGET = 1_000_000
_TABLE = (
    "create table t (id bigint primary key, a int, b float8, c numeric(12, 2), d text, e timestamptz, f date,"
    " g bool, h jsonb, i varchar(20), j int)"
)
_INSERT = (
    "insert into t select g, g % 1000, g * 0.1, g / 100.0, 'text of row ' || g, now() + g * interval '1 s',"
    " '2026-01-01'::date + (g % 100)::int, g % 2 = 0, jsonb_build_object('a', g), 'name' || (g % 100), g % 7"
    " from generate_series({first}, {last}) g"
)
_UPDATE = "update t set a = a + 1, d = d || '!' where id between {first} and {last}"
_MANY = """
do $$ begin for n in 0 .. {transactions} - 1 loop
  {statement};
  commit;
end loop; end $$
"""


def run(size: Size) -> list[Row]:
    changes = CHANGES[size]
    data = _log(changes)
    bytes_each = len(data) / changes

    def texts() -> DecodedLog:
        return LogDecoder().decode(data)

    def typed() -> None:
        for batch in texts().batches:
            _cast(batch.relation, batch.new.columns)

    def loop_typed() -> None:
        (relation,) = relations
        for table in row_loop(data).values():
            _cast(relation, (column.combine_chunks() for column in table.columns))

    relations = texts().relations
    assert sum(len(batch.kinds) for batch in texts().batches) == changes
    typed()  # compiles kernels
    name = f"{changes:,} changes of 11 columns, {bytes_each:.0f} B each"
    return [
        _compare(f"{name}, to texts", changes, texts, lambda: row_loop(data), size),
        _compare(f"{name}, to the target's types", changes, typed, loop_typed, size),
    ]


def _compare(
    name: str,
    changes: int,
    ours: Callable[[], object],
    theirs: Callable[[], object],
    size: Size,
) -> Row:
    ours_s, theirs_s, ratio, pairs = paired(
        lambda: _cpu_seconds(ours), lambda: _cpu_seconds(theirs), ROUNDS[size]
    )
    is_texts = name.endswith("texts")
    return Row(
        name,
        f"{changes / ours_s / 1e3:,.0f} K changes/s of CPU",
        f"loop over rows {changes / theirs_s / 1e3:,.0f} K changes/s",
        ratio,
        f">= {TARGET / 1e6:.0f} M changes/s" if is_texts else "",
        changes / ours_s >= TARGET if is_texts and size is not Size.TINY else None,
        {"pairs": pairs},
    )


def _cpu_seconds(call: Callable[[], object]) -> float:
    gc.collect()
    return timed(call).cpu


def _cast(relation: Relation, columns: Iterable[pa.Array]) -> None:
    for column, texts in zip(relation.columns, columns, strict=True):
        kind = column_type(SourceType(column.type_oid, column.name, typmod=column.typmod))
        kind.from_texts(texts)


def _log(changes: int) -> bytes:
    """What a server sends for so many changes."""
    each = changes // 4
    with postgres_server(shared_buffers="128MB", max_wal_size="8GB") as server:
        server.execute(_TABLE, "create publication p for table t")
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            new_slot(connection, "s")
        for statement in (_INSERT, _UPDATE):
            by_ten = statement.format(first="n * 10 + 1", last="n * 10 + 10")
            server.execute(_MANY.format(transactions=each // 10, statement=by_ten))
            server.execute(statement.format(first=each + 1, last=2 * each))
        return peeked(server.dsn, "s", "p")
