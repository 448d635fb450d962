"""One process of the workload `wide_columns`: `python -m .. TASK TABLE COLUMNS ROWS KEYS CALLS`.

TASK is a key of `TASKS`. TABLE is the table's directory: a writing task makes it, the others find it. The table has a
BIGINT key and COLUMNS nullable BIGINT columns c0, c1, ..; each batch writes the first ten of them, ROWS rows over KEYS
keys. CALLS is how many batches are written, and how often a reading task reads. Prints as JSON the seconds of each
call, and of a scan of two columns where the task leaves other files than it found.

The same task is done with a table of 20 columns before, so that no kernel is compiled, no module imported and no
session of Spark started while the clock runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa

import widetable as wt

WRITTEN: Final = 10
BATCH_SEED: Final = 1
_WARM_COLUMNS, _WARM_CALLS = 20, 2
_PROJECTED: Final = ("k", "c3")
_LOOKED_UP: Final = 100


@dataclass(frozen=True)
class Shape:
    """columns: declared, without the key. calls: batches written, or reads."""

    columns: int
    rows: int
    keys: int
    calls: int


@dataclass
class TaskSeconds:
    """calls: seconds of each. scan: seconds of a scan of two columns afterwards."""

    calls: list[float] = field(default_factory=list)
    scan: float | None = None


Task = Callable[[str, Shape], TaskSeconds]


def create_table(path: str, columns: int, options: dict[str, str]) -> wt.Table:
    fields = [pa.field("k", pa.int64(), nullable=False)]
    fields += [pa.field(f"c{number}", pa.int64()) for number in range(columns)]
    place = Path(path)
    catalog = wt.Catalog(str(place.parent.parent))
    return catalog.create_table(
        f"{place.parent.name.removesuffix('.db')}.{place.name}",
        pa.schema(fields),
        primary_key=["k"],
        options={"bucket": "1", "merge-engine": "partial-update", **options},
    )


def batch(rng: np.random.Generator, shape: Shape) -> pa.Table:
    columns = {"k": rng.integers(0, shape.keys, shape.rows)}
    columns |= {f"c{i}": rng.integers(0, 1_000_000, shape.rows) for i in range(WRITTEN)}
    return pa.table(columns)


def measure(task: str, path: str, shape: Shape) -> TaskSeconds:
    """The task, after the same with a table of 20 columns. Its rows are as many: kernels compile for no few rows."""
    warm = replace(shape, columns=_WARM_COLUMNS, calls=_WARM_CALLS)
    with TemporaryDirectory() as place:
        narrow = str(Path(place) / "bench.db" / "warm")
        if task in READS:
            TASKS[READS[task][0]](narrow, warm)
        TASKS[task](narrow, warm)
    return TASKS[task](path, shape)


def _written(options: dict[str, str]) -> Task:
    """Seconds of each commit, with all that it leaves to be compacted behind it."""

    def write(path: str, shape: Shape) -> TaskSeconds:
        table, rng = create_table(path, shape.columns, options), np.random.default_rng(BATCH_SEED)
        measured = TaskSeconds()
        for _ in range(shape.calls):
            rows = batch(rng, shape)
            began = time.perf_counter()
            table.write(rows)
            table.wait_for_compactions()
            measured.calls.append(time.perf_counter() - began)
        measured.scan = _seconds(lambda: _scan(path))
        return measured

    return write


def _full_compaction(path: str, shape: Shape) -> TaskSeconds:
    seconds = _seconds(lambda: wt.Table.open(path).compact(full=True))
    return TaskSeconds([seconds], _seconds(lambda: _scan(path)))


def _scan(path: str) -> None:
    wt.Table.open(path).scan(columns=_PROJECTED).to_arrow()


def _audit(path: str, shape: Shape) -> TaskSeconds:
    """The rows of all commits, their changelogs and what they fold to."""

    def read() -> None:
        assert wt.Table.open(path).audit().ok

    return TaskSeconds([_seconds(read)])


def _filtered_scan(path: str, shape: Shape) -> TaskSeconds:
    """About a tenth of the rows, batch by batch."""
    table = wt.Table.open(path)

    def read() -> None:
        scan = table.scan(filter="c3 < 100000")
        assert sum(rows.num_rows for rows in scan.to_batches())

    return _repeated(shape, read)


def _lookup(path: str, shape: Shape) -> TaskSeconds:
    """Of two columns: as many columns as are asked for are in the answer."""
    table, rng = wt.Table.open(path), np.random.default_rng(2)
    return _repeated(
        shape,
        lambda: table.lookup(rng.integers(0, shape.keys, _LOOKED_UP), columns=_PROJECTED),
    )


def _follow(path: str, shape: Shape) -> TaskSeconds:
    """All changes, of all columns, from the first snapshot to the last."""

    def read() -> None:
        table = wt.Table.open(path)
        for changes in table.follow(scan_mode="from-snapshot", snapshot_id=1, timeout=0):
            assert changes.num_rows

    return TaskSeconds([_seconds(read)])


def _spark_read(columns: list[str] | None) -> Task:
    """A sum of one column. columns: named in the read, or all."""

    def read(path: str, shape: Shape) -> TaskSeconds:
        import widetable_spark
        from benchmarks.spark_session import session

        spark = session()

        def once() -> None:
            widetable_spark.read(spark, path, columns=columns).agg({"c3": "sum"}).collect()

        return _repeated(shape, once)

    return read


def _spark_write(path: str, shape: Shape) -> TaskSeconds:
    """Batches of a DataFrame into a write-only table."""
    from benchmarks.spark_session import session

    spark = session()
    create_table(path, shape.columns, {"write-only": "true"})
    columns = [f"id * 7919 % {shape.keys} AS k"]
    columns += [f"id * {number + 3} AS c{number}" for number in range(WRITTEN)]
    rows = spark.range(0, shape.rows, 1, 2).selectExpr(*columns)
    return _repeated(
        shape, lambda: rows.write.format("widetable").mode("append").option("path", path).save()
    )


def _inspect(path: str, shape: Shape) -> TaskSeconds:
    return _command_line(shape, "inspect", path)


def _explain(path: str, shape: Shape) -> TaskSeconds:
    return _command_line(shape, "explain", path, "1")


def _command_line(shape: Shape, *arguments: str) -> TaskSeconds:
    """A fresh process for each call."""
    command = [sys.executable, "-m", "widetable", *arguments]
    return _repeated(shape, lambda: subprocess.run(command, check=True, capture_output=True))


def _repeated(shape: Shape, call: Callable[[], object]) -> TaskSeconds:
    return TaskSeconds([_seconds(call) for _ in range(shape.calls)])


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


WRITES: Final[dict[str, Task]] = {
    "write-only": _written({"write-only": "true"}),
    "inline compaction": _written({}),
    "lookup changelog": _written({"changelog-producer": "lookup"}),
    "spark write": _spark_write,
}
# Each with the writing task whose table it reads.
READS: Final[dict[str, tuple[str, Task]]] = {
    "full compaction": ("write-only", _full_compaction),
    "scan of two columns": (
        "write-only",
        lambda path, shape: _repeated(shape, lambda: _scan(path)),
    ),
    "filtered scan of all columns": ("write-only", _filtered_scan),
    "follow": ("lookup changelog", _follow),
    "audit": ("lookup changelog", _audit),
    "lookup of 100 keys": ("inline compaction", _lookup),
    "spark read": ("write-only", _spark_read(None)),
    "spark read of one column": ("write-only", _spark_read(["c3"])),
    "inspect": ("write-only", _inspect),
    "explain": ("write-only", _explain),
}
TASKS: Final[dict[str, Task]] = WRITES | {name: task for name, (_, task) in READS.items()}


def main(arguments: list[str]) -> dict[str, Any]:
    task, path, *numbers = arguments
    return asdict(measure(task, path, Shape(*map(int, numbers))))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
