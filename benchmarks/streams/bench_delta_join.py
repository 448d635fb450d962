"""A table that holds a join against a recompute: 1 M rows on the left, 100 K on the right, 1 % of both change a round.

Ours: one round of `DeltaJoin.run_once`, many to one, left, compaction included; the left table is found by an index on
the join key, which the round feeds. Theirs: DuckDB joins both tables from Parquet into a new Parquet file, which is no
table and has no changelog. Compared before time counts, and after. State: what is on disk beyond the tables and the
index, and what consumers, leases and notes take.
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
from benchmarks.harness import Row, Size, paired, scratch

_SEED, _SHARE = 5, 0.01
_COLUMNS = 8


@dataclass(frozen=True)
class _DeltaShape:
    lefts: int
    rights: int
    rounds: int


SHAPES = {
    Size.FULL: _DeltaShape(1_000_000, 100_000, 7),
    Size.SHORT: _DeltaShape(200_000, 20_000, 3),
    Size.TINY: _DeltaShape(2_000, 200, 1),
}


def run(size: Size = Size.FULL) -> list[Row]:
    with scratch("delta_join") as work:
        return [_measured(work, SHAPES[size])]


class _Sides:
    """The same two tables on both sides."""

    def __init__(self, work: Path, shape: _DeltaShape) -> None:
        self._work, self._shape = work, shape
        self._rng = np.random.default_rng(_SEED)
        self._left = self._lefts(np.arange(shape.lefts))
        self._right = self._rights(np.arange(shape.rights))
        catalog = wt.Catalog(str(work / "wh"))
        self._a = catalog.create_table(
            "b.a",
            self._left.schema,
            primary_key=["id"],
            options={"index.fk": "b.by_fk", "bucket": "2"},
        )
        self._b = catalog.create_table("b.b", self._right.schema, primary_key=["key"])
        self._join = wt.DeltaJoin(catalog, "b.out", "b.a", "b.b", {"fk": "key"}, "left")
        self.out = self._join.create({"changelog-producer": "lookup"})
        self._a.write(self._left)
        self._b.write(self._right)
        self._join.run_once()
        self.change()
        self.ours()

    def change(self) -> None:
        """One row in a hundred of both."""
        ids = self._some(self._shape.lefts)
        keys = self._some(self._shape.rights)
        left, right = self._lefts(ids), self._rights(keys)
        self._a.write(left)
        self._b.write(right)
        self._left = _replaced(self._left, left, "id")
        self._right = _replaced(self._right, right, "key")
        pq.write_table(self._left, self._work / "left.parquet")
        pq.write_table(self._right, self._work / "right.parquet")

    def ours(self) -> float:
        began = time.perf_counter()
        done = self._join.run_once()
        assert done.rows_added
        return time.perf_counter() - began

    def theirs(self) -> float:
        began = time.perf_counter()
        duckdb.sql(
            f"copy (select l.*, r.city, r.level from '{self._work}/left.parquet' l "
            f"left join '{self._work}/right.parquet' r on l.fk = r.key) "
            f"to '{self._work}/joined.parquet' (format parquet, compression zstd)"
        )
        return time.perf_counter() - began

    def compare(self) -> None:
        names = ["id", "fk", "city", "level"]
        ours = self.out.scan(names).to_arrow().sort_by("id")
        theirs = pq.read_table(self._work / "joined.parquet", columns=names).sort_by("id")
        for name in names:
            expected = theirs[name].cast(ours.schema.field(name).type)
            assert ours[name].combine_chunks().equals(expected.combine_chunks()), name

    def state_bytes(self) -> int:
        """Of consumers, leases and notes, in all tables."""
        folders = [*self._work.glob("wh/*/*/service"), *self._work.glob("wh/*/*/consumer")]
        return sum(p.stat().st_size for folder in folders for p in folder.iterdir())

    def _some(self, count: int) -> np.ndarray:
        return np.sort(self._rng.choice(count, max(int(count * _SHARE), 1), replace=False))

    def _lefts(self, ids: np.ndarray) -> pa.Table:
        columns = {
            "id": pa.array(ids, pa.int64()),
            "fk": pa.array(self._rng.integers(0, self._shape.rights, len(ids)), pa.int64()),
        }
        for number in range(_COLUMNS):
            columns[f"v{number}"] = pa.array(self._rng.random(len(ids)).round(2))
        return pa.table(columns)

    def _rights(self, keys: np.ndarray) -> pa.Table:
        levels = self._rng.integers(0, 1000, len(keys))
        city = pa.array([f"city {level % 97}" for level in levels.tolist()])
        level = pa.array(levels, pa.int32())
        return pa.table({"key": pa.array(keys, pa.int64()), "city": city, "level": level})


def _replaced(rows: pa.Table, new: pa.Table, key: str) -> pa.Table:
    kept = ~np.isin(rows[key].to_numpy(), new[key].to_numpy())
    return pa.concat_tables([rows.filter(pa.array(kept)), new]).sort_by(key)


def _measured(work: Path, shape: _DeltaShape) -> Row:
    both = _Sides(work, shape)
    both.theirs()
    both.compare()

    def ours() -> float:
        both.change()
        return both.ours()

    taken, recompute, ratio, pairs = paired(ours, both.theirs, shape.rounds)
    both.theirs()
    both.compare()
    return Row(
        f"delta join, {shape.lefts:,} and {shape.rights:,} rows, 1 % of both changed",
        f"{taken:.2f} s a round, {both.state_bytes():,} bytes of notes",
        f"DuckDB into a new Parquet file {recompute:.2f} s",
        ratio,
        details={"pairs": pairs},
    )
