"""File indexes of an append table whose rows are not sorted: what they cost a load, and what they save a query.

    session = '..'                     one row of one file; a Bloom filter
    country = '..'                     rows of one file; a bitmap

Beside it DuckDB over Parquet files that it wrote itself from the same parts. It gives a column chunk a Bloom filter if
it encodes it with a dictionary, so its limit of dictionaries is raised above the number of rows. Both sides have a file
for each part. All give the same rows before time counts.
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

import widetable as wt
from benchmarks.harness import Row, Size, paired, scratch, timed

_SEED: Final = 13
_CALLS: Final = 10
_INDEXES: Final = {
    "file-index.bloom-filter.columns": "session",
    "file-index.bloom-filter.session.fpp": "0.01",
    "file-index.bitmap.columns": "country",
}


@dataclass(frozen=True)
class _IndexedShape:
    rows: int
    parts: int
    rounds: int


SHAPES: Final = {
    Size.FULL: _IndexedShape(5_000_000, 40, 7),
    Size.SHORT: _IndexedShape(800_000, 16, 5),
    Size.TINY: _IndexedShape(8_000, 4, 1),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    with scratch("file_indexes") as work:
        parts = [_part(number, shape) for number in range(shape.parts)]
        rows = [_load(work, parts, shape)]
        table = _made(work / "queried", parts, _INDEXES)
        plain = _made(work / "plain", parts, {})
        database = _duckdb_files(work, parts)
        session = parts[shape.parts // 2].column("session")[7].as_py()
        for name, condition in (
            ("one session, Bloom filters", f"session = '{session}'"),
            ("one country, bitmaps", "country = 'C255'"),
        ):
            rows += _compared(table, plain, database, work, (name, condition, shape.rounds))
        return rows


def _part(number: int, shape: _IndexedShape) -> pa.Table:
    """The rows of one file. One part alone has a few rows of the country C255."""
    rows = shape.rows // shape.parts
    rng = np.random.default_rng([_SEED, number])
    names = np.array([f"C{at}" for at in range(50)], "U4")
    country = names[rng.integers(0, 50, rows)]
    if number == 1:
        country[:20] = "C255"
    session = np.char.add("session-", rng.permutation(shape.rows)[:rows].astype("U8"))
    return pa.table(
        {
            "at": np.arange(rows) + number * rows,
            "session": np.char.add(session, f"-{number}"),
            "user": rng.integers(0, 1_000_000, rows),
            "amount": np.round(rng.gamma(2.0, 20.0, rows), 2),
            "country": country,
        }
    )


def _made(folder: Path, parts: list[pa.Table], indexes: dict[str, str]) -> wt.Table:
    kinds = {"at": "BIGINT", "session": "STRING", "user": "BIGINT", "amount": "DOUBLE"}
    table = wt.Catalog(str(folder)).create_table(
        "bench.events", kinds | {"country": "STRING"}, options={"write-only": "true", **indexes}
    )
    for part in parts:
        table.write(part)
    return table


def _duckdb_files(work: Path, parts: list[pa.Table]) -> duckdb.DuckDBPyConnection:
    database = duckdb.connect()
    folder = work / "duckdb"
    folder.mkdir()
    for number, part in enumerate(parts):
        database.register("part", part)
        database.sql(
            f"COPY part TO '{folder}/{number}.parquet' (FORMAT parquet, COMPRESSION zstd, "
            f"ROW_GROUP_SIZE {part.num_rows}, DICTIONARY_SIZE_LIMIT {2 * part.num_rows})"
        )
    return database


def _load(work: Path, parts: list[pa.Table], shape: _IndexedShape) -> Row:
    numbers = iter(range(1000))

    def load(indexes: dict[str, str]) -> float:
        folder = work / f"load-{next(numbers)}"
        return timed(lambda: _made(folder, parts, indexes)).wall

    mine, other, ratio, pairs = paired(
        partial(load, _INDEXES), partial(load, {}), min(shape.rounds, 3)
    )
    text = f"without indexes {other:.2f} s"
    return Row("load with indexes", f"{mine:.2f} s", text, ratio, "", None, {"pairs": pairs})


def _compared(
    table: wt.Table,
    plain: wt.Table,
    database: duckdb.DuckDBPyConnection,
    work: Path,
    query: tuple[str, str, int],
) -> list[Row]:
    name, condition, rounds = query
    columns = ["at", "amount"]

    def ours(asked: wt.Table) -> pa.Table:
        return asked.scan(columns, condition).to_arrow()

    def by_duckdb() -> pa.Table:
        source = f"read_parquet('{work}/duckdb/*.parquet')"
        query = f'SELECT "at", amount FROM {source} WHERE {condition}'
        return database.sql(query).to_arrow_table()

    opened = [
        sum(len(split.files) for split in each.scan(filter=condition).splits())
        for each in (table, plain)
    ]
    expected = ours(table).sort_by("at").to_pylist()
    measured = []
    for rival, theirs in (("without indexes", partial(ours, plain)), ("DuckDB", by_duckdb)):
        assert theirs().sort_by("at").to_pylist() == expected, rival
        mine, other, ratio, pairs = paired(
            partial(_seconds, partial(ours, table)), partial(_seconds, theirs), rounds
        )
        text = f"{rival}, {other * 1000:.1f} ms"
        details = {"pairs": pairs, "files opened": opened}
        shown = f"{mine * 1000:.1f} ms, {opened[0]} of {opened[1]} files"
        measured.append(Row(name, shown, text, ratio, "", None, details))
    return measured


def _seconds(query: Callable[[], object]) -> float:
    """The wall time of one of many calls."""
    return timed(lambda: [query() for _ in range(_CALLS)]).wall / _CALLS
