"""Point and range queries of an append table in partitions by day, sorted by a number, against Parquet files with the
same rows in the order in which they came, read by DuckDB and by pyarrow's datasets.

    dt = '2026-01-15' AND order_id = 4711
    dt = '2026-01-15' AND order_id BETWEEN 100 AND 200

Both sides have a folder for each day, files of about the same size, and row groups by their writers' defaults. Each
query runs often in one process; a round is the whole of them. All three give the same rows before time counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import widetable as wt
from benchmarks.harness import Row, Size, paired, scratch, timed

_SEED: Final = 11
_FILES_PER_DAY: Final = 4
_CALLS: Final = 10
_QUERIES: Final = {
    "point query": "dt = '2026-01-15' AND order_id = 4711",
    "range query": "dt = '2026-01-15' AND order_id BETWEEN 100 AND 200",
}
_DAY: Final = "2026-01-15"


@dataclass(frozen=True)
class _Shape:
    rows_per_day: int
    days: int
    rounds: int


SHAPES: Final = {
    Size.FULL: _Shape(1_000_000, 10, 7),
    Size.SHORT: _Shape(100_000, 10, 5),
    Size.TINY: _Shape(6_000, 2, 1),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    with scratch("append_queries") as work:
        table, files = _table(work, shape), work / "files"
        return [
            row
            for name, condition in _QUERIES.items()
            for row in _compared(table, files, name, condition, shape)
        ]


def _orders(day: str, shape: _Shape) -> pa.Table:
    rows = shape.rows_per_day
    rng = np.random.default_rng([_SEED, int(day[-2:])])
    columns = {
        "order_id": rng.permutation(rows),
        "user": rng.integers(0, 1_000_000, rows),
        "amount": np.round(rng.gamma(2.0, 20.0, rows), 2),
        "item": np.char.add("item-", rng.integers(0, 50_000, rows).astype("U6")),
        "shop": rng.integers(0, 500, rows).astype(np.int32),
    }
    return pa.table(columns)


def _table(work: Path, shape: _Shape) -> wt.Table:
    """Write both sides, and sort ours."""
    days = [f"2026-01-{15 + at:02}" for at in range(shape.days)]
    kinds = {"dt": "STRING", "order_id": "BIGINT", "user": "BIGINT", "amount": "DOUBLE"}
    kinds |= {"item": "STRING", "shop": "INT"}
    options = {"write-only": "true", "target-file-size": "4 mb"}
    catalog = wt.Catalog(str(work / "ours"))
    table = catalog.create_table("bench.orders", kinds, partition_by=["dt"], options=options)
    for day in days:
        orders = _orders(day, shape)
        folder = work / "files" / f"dt={day}"
        folder.mkdir(parents=True)
        step = -(-orders.num_rows // _FILES_PER_DAY)
        for at in range(_FILES_PER_DAY):
            part = orders.slice(at * step, step)
            pq.write_table(part, folder / f"{at}.parquet", compression="zstd")
        table.write(orders.add_column(0, "dt", pa.array([day] * orders.num_rows)))
    table.sort_compact(["order_id"], "linear")
    return table


def _compared(table: wt.Table, files: Path, name: str, condition: str, shape: _Shape) -> list[Row]:
    database = duckdb.connect()
    source = (
        f"read_parquet('{files}/*/*.parquet', hive_partitioning=true, hive_types_autocast=false)"
    )
    query = f"SELECT order_id, amount FROM {source} WHERE {condition}"
    dataset = ds.dataset(files, partitioning=ds.partitioning(flavor="hive"))
    number = ds.field("order_id")
    of_number = number == 4711 if "=" in condition[20:] else (number >= 100) & (number <= 200)
    filters = (ds.field("dt") == _DAY) & of_number

    def ours() -> pa.Table:
        return table.scan(["order_id", "amount"], condition).to_arrow()

    def by_duckdb() -> pa.Table:
        return database.sql(query).to_arrow_table()

    def by_pyarrow() -> pa.Table:
        return dataset.to_table(["order_id", "amount"], filter=filters)

    found = []
    expected = ours().sort_by("order_id").to_pylist()
    for rival, theirs in (("DuckDB", by_duckdb), ("pyarrow", by_pyarrow)):
        assert theirs().sort_by("order_id").to_pylist() == expected, rival
        mine, other, ratio, pairs = paired(
            partial(_seconds, ours), partial(_seconds, theirs), shape.rounds
        )
        text = f"{rival}, unsorted files, {other * 1000:.1f} ms"
        found.append(Row(name, f"{mine * 1000:.1f} ms", text, ratio, "", None, {"pairs": pairs}))
    return found


def _seconds(query: Callable[[], object]) -> float:
    """The wall time of one of many calls."""
    return timed(lambda: [query() for _ in range(_CALLS)]).wall / _CALLS
