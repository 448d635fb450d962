"""Features of five groups, each by its own event time, against five ASOF joins of DuckDB.

Ours: `Table.point_in_time` with basis `event`, of a partial-update table with five sequence groups whose versions are
in a history on disk; its snapshots have expired. Theirs: for each group a Parquet file with its distinct versions
alone, in the order of key and time, and five ASOF joins in one query. The values are equal, whatever the order of the
rows, before time counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import widetable as wt
from benchmarks.harness import Row, Size, paired, scratch, timed

_SEED = 1
_TARGET = 2
_START = np.datetime64(datetime(2026, 1, 1), "ms")
_MINUTE_MS = 60_000


@dataclass(frozen=True)
class _GroupShape:
    """keys with a version of each in every commit, of one group in turn. questions: entity rows."""

    keys: int
    commits: int
    groups: int
    features: int
    questions: int
    rounds: int


SHAPES = {
    Size.FULL: _GroupShape(500_000, 20, 5, 4, 1_000_000, 3),
    Size.SHORT: _GroupShape(50_000, 10, 5, 4, 100_000, 1),
    Size.TINY: _GroupShape(50, 6, 3, 2, 100, 1),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    with scratch("event_groups") as work:
        sides = _Groups(work, shape)
        assert _sorted(sides.duckdb()).equals(_sorted(sides.ours()))
        mine, theirs, ratio, _ = paired(
            lambda: timed(sides.ours).wall, lambda: timed(sides.duckdb).wall, shape.rounds
        )
    what = f"features of {shape.groups} groups by event time, {shape.questions:,} rows"
    ok = ratio >= _TARGET if size is Size.FULL else None
    return [Row(what, f"{mine:.2f} s", f"DuckDB {theirs:.2f} s", ratio, f">= {_TARGET}", ok)]


def _sorted(answers: pa.Table) -> pa.Table:
    """Return the number and the features of the rows, by number."""
    features = [name for name in answers.column_names if name.startswith("g")]
    chosen = answers.select(["n", *sorted(features)])
    return chosen.take(pc.sort_indices(chosen["n"])).combine_chunks().replace_schema_metadata()


class _Groups:
    """The same versions and questions on both sides."""

    def __init__(self, work: Path, shape: _GroupShape) -> None:
        rng = np.random.default_rng(_SEED)
        self._shape, self._work = shape, work
        catalog = wt.Catalog(str(work / "wh"))
        fields = [("id", pa.int64())]
        options = {
            "bucket": "8",
            "merge-engine": "partial-update",
            "write-only": "true",
            "history.table": "b.history",
            "widetable.fsync": "false",
        }
        for group in range(shape.groups):
            fields.append((f"t{group}", pa.timestamp("ms")))
            fields += [(name, pa.float64()) for name in self._features(group)]
            options[f"fields.t{group}.sequence-group"] = ",".join(self._features(group))
        self._table = catalog.create_table(
            "b.users", pa.schema(fields), primary_key=["id"], options=options
        )
        for commit in range(shape.commits):
            self._write(commit, rng)
        # All of the past is in the history before the snapshots expire.
        self._table.maintain(once=True)
        self._table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)
        history = catalog.table("b.history")
        history.compact(full=True)
        for group in range(shape.groups):
            pq.write_table(self._versions(history, group), self._file(group))
        at = rng.integers(0, shape.commits * _MINUTE_MS, shape.questions)
        self._rows = pa.table(
            {
                "n": np.arange(shape.questions),
                "id": rng.integers(0, shape.keys + shape.keys // 50, shape.questions),
                "moment": pa.array((_START + at).astype("datetime64[us]")),
            }
        )
        pq.write_table(self._rows, work / "rows.parquet")

    def ours(self) -> pa.Table:
        groups = range(self._shape.groups)
        columns = [name for group in groups for name in self._features(group)]
        return self._table.point_in_time(self._rows, "moment", columns, basis="event")

    def duckdb(self) -> pa.Table:
        connection = duckdb.connect()
        connection.execute("set threads = 2; set enable_progress_bar = false")
        connection.execute("set preserve_insertion_order = false")
        groups = range(self._shape.groups)
        names = [f"v{group}.{name}" for group in groups for name in self._features(group)]
        joins = [
            f"asof left join '{self._file(group)}' v{group}"
            f" on q.id = v{group}.id and q.moment >= v{group}.t{group}"
            for group in groups
        ]
        answers: pa.Table = connection.sql(f"""
            select q.*, {", ".join(names)}
            from '{self._work / "rows.parquet"}' q {" ".join(joins)}""").to_arrow_table()
        return answers

    def _write(self, commit: int, rng: np.random.Generator) -> None:
        """Commit a version of one group of each key, within a minute. No two commits have one millisecond."""
        group, keys = commit % self._shape.groups, self._shape.keys
        times = _START + commit * _MINUTE_MS + rng.integers(0, _MINUTE_MS, keys)
        values = {name: rng.random(keys) for name in self._features(group)}
        self._table.write(pa.table({"id": np.arange(keys), f"t{group}": pa.array(times), **values}))
        time.sleep(0.002)

    def _versions(self, history: wt.Table, group: int) -> pa.Table:
        """Return the distinct versions of a group, which other groups' commits repeat, by key and time."""
        columns = ["id", f"t{group}", *self._features(group)]
        rows = history.scan(columns).to_arrow()
        rows = rows.filter(pc.is_valid(rows[f"t{group}"]))
        distinct = rows.group_by(columns[:2]).aggregate([(name, "min") for name in columns[2:]])
        distinct = distinct.rename_columns(columns)
        return distinct.sort_by([("id", "ascending"), (f"t{group}", "ascending")])

    def _features(self, group: int) -> list[str]:
        return [f"g{group}_{number}" for number in range(self._shape.features)]

    def _file(self, group: int) -> Path:
        return self._work / f"group{group}.parquet"
