"""The first load of a table: one Arrow table of 9 columns into an empty table of four buckets, against delta-rs.

Ours hashes, sorts and encodes; delta-rs encodes alone. Both read rows from memory, and compress with their defaults.
Both tables have the same rows before time counts.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import widetable as wt
from benchmarks.engine.wide_rows import wide_rows, wide_schema
from benchmarks.harness import Row, Size, paired, scratch, timed

_SEED: Final = 1
_VALUES: Final = 8
_TARGET: Final = 1.0


@dataclass(frozen=True)
class _LoadShape:
    rows: int
    rounds: int


SHAPES: Final = {
    Size.FULL: _LoadShape(5_000_000, 5),
    Size.SHORT: _LoadShape(500_000, 3),
    Size.TINY: _LoadShape(1_000, 1),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    keys = np.random.default_rng(_SEED).permutation(shape.rows)
    rows = wide_rows(wide_schema(_VALUES), keys, _SEED)
    with scratch("first_load") as work:
        assert _sums(_ours(work, rows).scan().to_arrow()) == _sums(_delta(work, rows))
        mine, theirs, ratio, pairs = paired(
            lambda: timed(lambda: _ours(work, rows)).wall,
            lambda: timed(lambda: _write_delta(work, rows)).wall,
            shape.rounds,
        )
    what = f"first load, {shape.rows / 1e6:g} M rows x {_VALUES + 1} columns"
    ok = ratio >= _TARGET if size is Size.FULL else None
    theirs_text = f"delta-rs {theirs:.2f} s"
    return [Row(what, f"{mine:.2f} s", theirs_text, ratio, f">= {_TARGET:g}", ok, {"pairs": pairs})]


def _ours(work: Path, rows: pa.Table) -> wt.Table:
    shutil.rmtree(work / "ours", ignore_errors=True)
    options = {"bucket": "4", "write-only": "true"}
    table = wt.Catalog(str(work / "ours")).create_table(
        "bench.load", rows.schema, primary_key=["k"], options=options
    )
    table.write(rows)
    return table


def _write_delta(work: Path, rows: pa.Table) -> Path:
    path = work / "delta"
    shutil.rmtree(path, ignore_errors=True)
    deltalake.write_deltalake(str(path), rows)
    return path


def _delta(work: Path, rows: pa.Table) -> pa.Table:
    path = _write_delta(work, rows)
    return pa.table(deltalake.DeltaTable(str(path)).to_pyarrow_table())


def _sums(rows: pa.Table) -> list[object]:
    """The number of rows, and the sums of the columns of integers."""
    names = [field.name for field in rows.schema if pa.types.is_integer(field.type)]
    return [rows.num_rows, *(pc.sum(rows[name]).as_py() for name in sorted(names))]
