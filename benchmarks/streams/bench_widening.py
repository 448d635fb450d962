"""Widening in storage against a recompute: 1 M facts, 100 K dim rows, each round changes 1 % of the dim.

Ours: one round of maintenance of the fact table, its index on the foreign key and its compaction included. Theirs:
DuckDB joins all facts with the dim, and what comes out is merged into a table of delta-rs, where it differs; or it is
written into a new Parquet file, which is no table: it is there for scale. All see the same changes; the widened columns
are compared before time counts and after. Reported: facts widened per second, and the ratio.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import widetable as wt
from benchmarks.harness import Row, Size, paired, scratch
from benchmarks.rival import RivalAbsent
from benchmarks.rival_python import RivalProcess, rival_python

_SEED, _SHARE, _TARGET = 3, 0.01, 5.0
_FACT_COLUMNS = 10
_RIVALS = ("deltalake==1.6.6", "duckdb==2.0.0", "pyarrow==26.0.1")
_MERGE = """
import json, sys, time
import deltalake, duckdb, pyarrow.parquet as pq
work = sys.argv[1]
query = (
    f"select f.*, d.city, d.level from '{work}/facts.parquet' f left join '{work}/dims.parquet' d on f.fk = d.id"
)
for line in sys.stdin:
    what, _, file = line.strip().partition(" ")
    began = time.perf_counter()
    if what == "leave":
        pq.write_table(deltalake.DeltaTable(f"{work}/delta").to_pyarrow_table(), f"{work}/{file}")
    else:
        rows = duckdb.sql(query).to_arrow_table()
        if what == "start":
            deltalake.write_deltalake(f"{work}/delta", rows)
        else:
            deltalake.DeltaTable(f"{work}/delta").merge(
                rows, "t.k = s.k", source_alias="s", target_alias="t"
            ).when_matched_update(
                {"city": "s.city", "level": "s.level"},
                "(t.city is distinct from s.city) or (t.level is distinct from s.level)",
            ).execute()
    print(json.dumps(time.perf_counter() - began), flush=True)
"""


@dataclass(frozen=True)
class _WidenShape:
    facts: int
    dims: int
    rounds: int
    has_rival: bool = True


SHAPES = {
    Size.FULL: _WidenShape(1_000_000, 100_000, 7),
    Size.SHORT: _WidenShape(200_000, 20_000, 3),
    Size.TINY: _WidenShape(2_000, 200, 1, has_rival=False),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    with scratch("widening") as work:
        return _measured(work, shape, is_full=size is Size.FULL)


class _Both:
    """The same facts and dim on both sides."""

    def __init__(self, work: Path, shape: _WidenShape) -> None:
        self._rng = np.random.default_rng(_SEED)
        self._work, self._shape = work, shape
        self._version = 0
        self.dims = _dims(np.arange(shape.dims), 0)
        self.facts = _facts(shape, self._rng)
        catalog = wt.Catalog(str(work / "wh"))
        dim_schema = self.dims.schema
        self._dim = catalog.create_table("b.dim", dim_schema, primary_key=["id"])
        self._fact = catalog.create_table(
            "b.fact",
            self.facts.schema,
            primary_key=["k"],
            options={
                "merge-engine": "partial-update",
                "changelog-producer": "lookup",
                "bucket": "2",
                "widen.fk": "b.dim(city, level)",
                "index.fk": "b.by_fk",
            },
        )
        self._dim.write(self.dims)
        self._fact.write(self.facts)
        self._fact.maintain(once=True)
        pq.write_table(self.facts, work / "facts.parquet")
        self.changed = 0

    def change(self) -> None:
        """Of one dim row in a hundred."""
        self._version += 1
        count = max(int(self._shape.dims * _SHARE), 1)
        ids = np.sort(self._rng.choice(self._shape.dims, count, replace=False))
        new = _dims(ids, self._version)
        self._dim.write(new)
        kept = np.setdiff1d(np.arange(self._shape.dims), ids)
        self.dims = pa.concat_tables([self.dims.take(pa.array(kept)), new]).sort_by("id")
        pq.write_table(self.dims, self._work / "dims.parquet")
        self.changed = int(np.isin(self.facts["fk"].to_numpy(), ids).sum())

    def ours(self) -> float:
        began = time.perf_counter()
        done = self._fact.maintain(once=True)
        taken = time.perf_counter() - began
        assert done.derived_rows >= self.changed
        return taken

    def theirs(self) -> float:
        began = time.perf_counter()
        duckdb.sql(
            f"copy (select f.*, d.city, d.level from '{self._work}/facts.parquet' f "
            f"left join '{self._work}/dims.parquet' d on f.fk = d.id) "
            f"to '{self._work}/widened.parquet' (format parquet, compression zstd)"
        )
        return time.perf_counter() - began

    def compare(self, file: str) -> None:
        """With what the rival left in a file."""
        names = ["k", "city", "level"]
        ours = self._fact.scan(names).to_arrow().sort_by("k")
        theirs = pq.read_table(self._work / file, columns=names).sort_by("k")
        for name in names:
            assert (
                ours[name]
                .combine_chunks()
                .equals(theirs[name].cast(ours.schema.field(name).type).combine_chunks())
            ), name


def _dims(ids: np.ndarray, version: int) -> pa.Table:
    city = pa.array([f"city {id % 997} of {version}" for id in ids.tolist()])
    level = pa.array((ids + version) % 100, pa.int32())
    return pa.table({"id": pa.array(ids, pa.int64()), "city": city, "level": level})


def _facts(shape: _WidenShape, rng: np.random.Generator) -> pa.Table:
    columns = {
        "k": pa.array(np.arange(shape.facts), pa.int64()),
        "fk": pa.array(rng.integers(0, shape.dims, shape.facts), pa.int64()),
    }
    for number in range(_FACT_COLUMNS):
        columns[f"v{number}"] = pa.array(rng.random(shape.facts).round(2))
    return pa.table(columns)


def _measured(work: Path, shape: _WidenShape, *, is_full: bool) -> list[Row]:
    both = _Both(work, shape)
    both.change()
    both.ours()
    rows = [_against_file(both, shape)]
    if not shape.has_rival:
        return rows
    try:
        python = rival_python("widening", _RIVALS)
    except RivalAbsent as absent:
        return [*rows, Row(_name(shape), "", f"delta-rs not measured: {absent}")]
    with RivalProcess(python, _MERGE, str(work)) as rival:
        rival.ask("start")
        rows.append(_against_merge(both, shape, rival, is_full=is_full))
    return rows


def _against_file(both: _Both, shape: _WidenShape) -> Row:
    both.theirs()
    both.compare("widened.parquet")
    row = _paired(both, shape, both.theirs, "DuckDB into a new Parquet file")
    both.theirs()
    both.compare("widened.parquet")
    return row


def _against_merge(both: _Both, shape: _WidenShape, rival: RivalProcess, *, is_full: bool) -> Row:
    def theirs() -> float:
        return float(rival.ask("merge"))

    row = _paired(both, shape, theirs, "DuckDB, merged into delta-rs")
    rival.ask("merge")
    rival.ask("leave merged.parquet")
    both.compare("merged.parquet")
    if is_full and row.ratio is not None:
        row.target, row.ok = f">= {_TARGET:g}", row.ratio >= _TARGET
    return row


def _paired(both: _Both, shape: _WidenShape, theirs: Callable[[], float], name: str) -> Row:
    counts = []

    def ours() -> float:
        both.change()
        counts.append(both.changed)
        return both.ours()

    taken, recompute, ratio, pairs = paired(ours, theirs, shape.rounds)
    facts = sum(counts) / len(counts)
    return Row(
        _name(shape),
        f"{taken:.2f} s a round, {facts / taken:,.0f} facts/s",
        f"{name} {recompute:.2f} s",
        ratio,
        details={"pairs": pairs, "facts": counts},
    )


def _name(shape: _WidenShape) -> str:
    return f"widening, {shape.facts:,} facts, {shape.dims:,} dims, 1 % of them changed"
