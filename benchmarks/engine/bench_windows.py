"""Sums over five windows of time for entity rows, against DuckDB over the Parquet files of the same tiles.

Ours: `Table.windows` of one table with tiles of one hour, from its files on disk. Theirs, the better of two: a range
join with a sum for each window, and differences of prefix sums that ASOF joins find at both ends. The sums are equal
before time counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import widetable as wt
from benchmarks.harness import Row, Size, scratch

_SEED, _HOUR = 6, 3_600_000_000
_HOURS = (1, 6, 24, 168, 720)


@dataclass(frozen=True)
class _WindowShape:
    """users with hours of tiles each. questions: entity rows."""

    users: int
    hours: int
    questions: int
    rounds: int


SHAPES = {
    Size.FULL: _WindowShape(20_000, 1_000, 1_000_000, 3),
    Size.SHORT: _WindowShape(2_000, 1_000, 100_000, 1),
    Size.TINY: _WindowShape(20, 50, 100, 1),
}


def run(size: Size = Size.FULL) -> list[Row]:
    with scratch("windows") as work:
        sides = _Windows(work, SHAPES[size])
        answers = sides.ours()
        rivals = {"range join": sides.range_join, "ASOF": sides.asof}
        for rival in rivals.values():
            assert rival().equals(answers)
        ours = _median(sides.ours, SHAPES[size].rounds)
        theirs = {name: _median(rival, SHAPES[size].rounds) for name, rival in rivals.items()}
        best = min(theirs.values())
        said = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in theirs.items())
        ratio = best / ours
        ok = ratio >= 5 if size is Size.FULL else None
        return [Row("five windows", f"{ours:.2f} s", said, ratio, ">= 5", ok)]


def _median(call: object, rounds: int) -> float:
    assert callable(call)
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[len(seconds) // 2]


class _Windows:
    """The same tiles and questions on both sides."""

    def __init__(self, work: Path, shape: _WindowShape) -> None:
        rng = np.random.default_rng(_SEED)
        count = shape.users * shape.hours
        hours = np.tile(np.arange(shape.hours), shape.users) * _HOUR
        tiles = pa.table(
            {
                "user": np.repeat(np.arange(shape.users), shape.hours),
                "tile": pa.array(hours, pa.timestamp("us")),
                "clicks": rng.integers(0, 9, count),
            }
        )
        options = {
            "merge-engine": "aggregation",
            "fields.clicks.aggregate-function": "sum",
            "bucket": "8",
            "bucket-key": "user",
            "widetable.tile-size": "1 h",
            "widetable.fsync": "false",
        }
        self._table = wt.Catalog(str(work / "wh")).create_table(
            "b.tiles", tiles.schema, primary_key=["user", "tile"], options=options
        )
        self._table.write(tiles)
        self._table.compact(full=True)
        times = rng.integers(0, shape.hours * _HOUR, shape.questions)
        self._rows = pa.table(
            {
                "n": np.arange(shape.questions),
                "user": rng.integers(0, shape.users, shape.questions),
                "moment": pa.array(times, pa.timestamp("us")),
            }
        )
        self._tiles, self._questions = work / "tiles.parquet", work / "rows.parquet"
        pq.write_table(tiles, self._tiles)
        pq.write_table(self._rows, self._questions)

    def ours(self) -> pa.Table:
        features = {f"w{hours}": wt.window("clicks", "sum", f"{hours} h") for hours in _HOURS}
        rows = self._table.windows(self._rows, "moment", features=features)
        return rows.select([*features]).combine_chunks()

    def range_join(self) -> pa.Table:
        sums = ", ".join(
            f"sum(t.clicks) filter (t.tile >= q.s - interval {hours} hour)::bigint as w{hours}"
            for hours in _HOURS
        )
        return self._asked(f"""
            with q as (select *, date_trunc('hour', moment) as s from '{self._questions}')
            select {sums} from q left join '{self._tiles}' t on t."user" = q."user"
                and t.tile < q.s and t.tile >= q.s - interval {max(_HOURS)} hour
            group by q.n order by q.n""")

    def asof(self) -> pa.Table:
        joins = "".join(
            f""" asof left join p as p{hours} on p{hours}."user" = q."user"
                 and p{hours}.tile < q.s - interval {hours} hour"""
            for hours in _HOURS
        )
        sums = ", ".join(
            f"""case when e.number > coalesce(p{hours}.number, 0)
                then e.total - coalesce(p{hours}.total, 0) end::bigint as w{hours}"""
            for hours in _HOURS
        )
        return self._asked(f"""
            with p as materialized (select "user", tile, sum(clicks) over w as total,
                    count(*) over w as number from '{self._tiles}'
                    window w as (partition by "user" order by tile)),
                q as (select *, date_trunc('hour', moment) as s from '{self._questions}')
            select {sums} from q asof left join p as e on e."user" = q."user" and e.tile < q.s
            {joins} order by q.n""")

    def _asked(self, query: str) -> pa.Table:
        connection = duckdb.connect()
        connection.execute("set threads = 2; set enable_progress_bar = false")
        answers: pa.Table = connection.sql(query).to_arrow_table()
        return answers.combine_chunks()
