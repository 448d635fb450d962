"""Append tables: a load of 10 and of 60 columns from one Arrow table, against delta-rs, lance and pyiceberg, and a sort
by four columns, against delta-rs.

Load: rows are in memory; both encode with their defaults (ours zstd, delta-rs snappy; beside lance, which does not
compress or sync, also without). Sort: `sort_compact` along a z
curve against `OPTIMIZE .. ZORDER BY`, of the same rows that are loaded in 20 files; afterwards four filters, and for
each the share of the bytes that a reader of the file statistics opens, before and after. Both tables have the same rows
before time counts. delta-rs uses all cores and as much memory as it likes; ours gets a buffer that holds all rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import deltalake
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import widetable as wt
from benchmarks.harness import Row, Size, paired, scratch, timed
from benchmarks.rival import RivalAbsent
from benchmarks.rival_python import RivalProcess, rival_python

_SEED: Final = 7
_BATCHES: Final = 20
_BY: Final = ("user", "item", "shop", "at")
_FILTERS: Final = (
    "user BETWEEN 1000 AND 2000",
    "item = 4711",
    "shop IN (3, 4)",
    "at >= 900000 AND user < 100000",
)


@dataclass(frozen=True)
class _AppendShape:
    rows: int
    rounds: int


SHAPES: Final = {
    Size.FULL: _AppendShape(5_000_000, 5),
    Size.SHORT: _AppendShape(500_000, 3),
    Size.TINY: _AppendShape(2_000, 1),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    with scratch("append") as work:
        rows = [_load(work, clicks(shape.rows), shape, size)]
        rows.append(_load(work, wide(shape.rows // 12), shape, size))
        if size is Size.FULL:
            rows += _beside(work, clicks(shape.rows), shape, size)
            rows += _beside(work, wide(shape.rows // 12), shape, size)
        return [*rows, *_sorts(work, clicks(shape.rows), shape, size)]


def clicks(rows: int) -> pa.Table:
    """Ten columns of a click log, in no order of any of them."""
    rng = np.random.default_rng(_SEED)
    columns = {
        "user": rng.integers(0, 1_000_000, rows),
        "item": rng.integers(0, 100_000, rows),
        "shop": rng.integers(0, 500, rows).astype(np.int32),
        "at": rng.integers(0, 1_000_000, rows),
        "price": np.round(rng.gamma(2.0, 20.0, rows), 2),
        "score": rng.random(rows).astype(np.float32),
        "page": np.array(["home", "cart", "search", "item"])[rng.integers(0, 4, rows)],
        "session": np.char.add("s-", rng.integers(0, 1 << 40, rows).astype("U14")),
        "is_new": rng.random(rows) < 0.1,
        "note": pa.array(np.arange(rows) % 97, mask=rng.random(rows) < 0.7),
    }
    return pa.table(columns)


def wide(rows: int) -> pa.Table:
    """Sixty columns of numbers and texts."""
    rng = np.random.default_rng(_SEED)
    columns: dict[str, object] = {}
    for at in range(20):
        columns[f"i{at}"] = rng.integers(0, 1 << 30, rows)
        columns[f"d{at}"] = rng.random(rows)
        columns[f"t{at}"] = np.array([f"text {n}" for n in range(1000)])[
            rng.integers(0, 1000, rows)
        ]
    return pa.table(columns)


# Writes the rows of a file to a new table for each line, and answers with the seconds; the file is read before.
_RIVALS: Final = {
    "lance": (
        ("pylance==14.0.2", "pyarrow==26.0.1"),
        "import lance\nwrite = lambda path: lance.write_dataset(rows, path + '.lance')",
    ),
    "pyiceberg": (
        ("pyiceberg[sql-sqlite,pyarrow]==0.10.0",),
        "from pyiceberg.catalog.sql import SqlCatalog\n"
        "def write(path):\n"
        "    os.makedirs(path)\n"
        "    catalog = SqlCatalog('c', uri=f'sqlite:///{path}/c.db', warehouse='file://' + path)\n"
        "    catalog.create_namespace('b')\n"
        "    catalog.create_table('b.t', schema=rows.schema).append(rows)",
    ),
}
# Small files, which filters can leave out, and a buffer for all rows.
_SORTED: Final = {"write-only": "true", "write-buffer-size": "4 gb", "target-file-size": "8 mb"}
# Our options beside each rival. Lance neither compresses nor asks the disk to keep its files (strace counts no fsync).
_LIKE_LANCE: Final = {"file.compression": "none", "widetable.fsync": "false"}
_WAYS: Final[dict[str, dict[str, dict[str, str]]]] = {
    "lance": {"": {}, ", neither compressed nor synced": _LIKE_LANCE},
    "pyiceberg": {"": {}},
}
_PROGRAM: Final = """
import json, os, shutil, sys, time
import pyarrow.ipc
rows = pyarrow.ipc.open_file(sys.argv[1]).read_all()
{write}
for line in sys.stdin:
    shutil.rmtree(sys.argv[2], ignore_errors=True)
    os.makedirs(sys.argv[2])
    begun = time.perf_counter()
    write(os.path.join(sys.argv[2], "t"))
    print(json.dumps(time.perf_counter() - begun), flush=True)
"""


def _beside(work: Path, rows: pa.Table, shape: _AppendShape, size: Size) -> list[Row]:
    """The load against rivals in environments of their own; a row says so where one cannot be had."""
    file = work / "rows.arrow"
    with pa.ipc.new_file(file, rows.schema) as sink:
        sink.write_table(rows)
    found = []
    for name, (packages, write) in _RIVALS.items():
        what = f"append, {rows.num_rows / 1e6:g} M rows x {rows.num_columns} columns"
        try:
            python = rival_python(name, packages)
        except RivalAbsent as absent:
            found.append(Row(what, "", f"{name}: {absent}", None, ">= 1", None, {}))
            continue
        program = _PROGRAM.format(write=write)
        with RivalProcess(python, program, str(file), str(work / name)) as rival:
            for how, options in _WAYS[name].items():
                mine, theirs, ratio, pairs = paired(
                    partial(_timed_load, work, rows, options),
                    lambda: float(rival.ask("go")),
                    shape.rounds,
                )
                ok = ratio >= 1.0 if size is Size.FULL else None
                mine_text, their_text = f"{mine:.2f} s", f"{name} {theirs:.2f} s"
                details = {"pairs": pairs}
                found.append(Row(what + how, mine_text, their_text, ratio, ">= 1", ok, details))
    return found


def _timed_load(work: Path, rows: pa.Table, options: Mapping[str, str]) -> float:
    return timed(lambda: _ours(work, rows, options)).wall


def _load(work: Path, rows: pa.Table, shape: _AppendShape, size: Size) -> Row:
    assert _sums(_ours(work, rows).scan().to_arrow()) == _sums(_delta_rows(_delta(work, rows)))
    mine, theirs, ratio, pairs = paired(
        lambda: timed(lambda: _ours(work, rows)).wall,
        lambda: timed(lambda: _delta(work, rows)).wall,
        shape.rounds,
    )
    what = f"append, {rows.num_rows / 1e6:g} M rows x {rows.num_columns} columns"
    ok = ratio >= 1.0 if size is Size.FULL else None
    return Row(
        what, f"{mine:.2f} s", f"delta-rs {theirs:.2f} s", ratio, ">= 1", ok, {"pairs": pairs}
    )


def _sorts(work: Path, rows: pa.Table, shape: _AppendShape, size: Size) -> list[Row]:
    table, delta = _in_batches(work, rows)
    before = [_opened(table, condition) for condition in _FILTERS]
    times: dict[str, list[float]] = {"ours": [], "theirs": []}

    def sort(name: str, make: Callable[[], Callable[[], object]]) -> float:
        times[name].append(timed(make()).wall)
        return times[name][-1]

    def ours() -> Callable[[], object]:
        nonlocal table
        table, _ = _in_batches(work, rows, ours=True)
        return lambda: table.sort_compact(_BY)

    def theirs() -> Callable[[], object]:
        nonlocal delta
        _, delta = _in_batches(work, rows, ours=False)
        one = deltalake.DeltaTable(str(delta))
        return lambda: one.optimize.z_order(list(_BY))

    mine, other, ratio, pairs = paired(
        lambda: sort("ours", ours), lambda: sort("theirs", theirs), shape.rounds
    )
    assert _sums(table.scan().to_arrow()) == _sums(rows) == _sums(_delta_rows(delta))
    what = f"sort by {len(_BY)} columns, {shape.rows / 1e6:g} M rows"
    ok = ratio >= 1.0 if size is Size.FULL else None
    found = [
        Row(what, f"{mine:.2f} s", f"delta-rs {other:.2f} s", ratio, ">= 1", ok, {"pairs": pairs})
    ]
    for condition, share in zip(_FILTERS, before, strict=True):
        after = _opened(table, condition)
        text = f"bytes opened for {condition}"
        found.append(
            Row(
                text,
                f"{after:.0%}",
                f"unsorted {share:.0%}",
                share / max(after, 1e-9),
                "",
                None,
                {},
            )
        )
    return found


def _ours(work: Path, rows: pa.Table, options: Mapping[str, str] | None = None) -> wt.Table:
    table = _new(work, rows, options or {})
    table.write(rows)
    return table


def _new(work: Path, rows: pa.Table, options: Mapping[str, str]) -> wt.Table:
    shutil.rmtree(work / "ours", ignore_errors=True)
    return wt.Catalog(str(work / "ours")).create_table("bench.clicks", rows.schema, options=options)


def _delta(work: Path, rows: pa.Table) -> Path:
    path = work / "delta"
    shutil.rmtree(path, ignore_errors=True)
    deltalake.write_deltalake(str(path), rows)
    return path


def _in_batches(work: Path, rows: pa.Table, ours: bool | None = None) -> tuple[wt.Table, Path]:
    """Both tables, or one of them, in as many files as there are batches."""
    table, path = wt.Table.open(work / "ours/bench.db/clicks"), work / "delta"
    step = -(-rows.num_rows // _BATCHES)
    if ours is not False:
        table = _new(work, rows, _SORTED)
        for start in range(0, rows.num_rows, step):
            table.write(rows.slice(start, step))
    if ours is not True:
        shutil.rmtree(path, ignore_errors=True)
        for start in range(0, rows.num_rows, step):
            deltalake.write_deltalake(str(path), rows.slice(start, step), mode="append")
    return table, path


def _delta_rows(path: Path) -> pa.Table:
    return pa.table(deltalake.DeltaTable(str(path)).to_pyarrow_table())


def _opened(table: wt.Table, condition: str) -> float:
    """The share of the bytes of a table that a scan opens, by the statistics of files."""
    whole = sum(file.file_size for split in table.scan().splits() for file in split.files)
    files = (f for split in table.scan(filter=condition).splits() for f in split.files)
    return sum(file.file_size for file in files) / whole


def _sums(rows: pa.Table) -> list[object]:
    names = [field.name for field in rows.schema if pa.types.is_integer(field.type)]
    return [rows.num_rows, *(pc.sum(rows[name]).as_py() for name in sorted(names))]
