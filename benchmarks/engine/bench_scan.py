"""Merge-read rows/s against pypaimon, plain and with its native engine (its own virtual environment, a warm process):
partial-update without groups, 60 columns.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np

import widetable as wt
from benchmarks.engine.wide_rows import wide_rows, wide_schema
from benchmarks.harness import ROOT, Row, paired, scratch, timed

BASE_ROWS, DELTA_ROWS, DELTAS, ROUNDS = 100_000, 10_000, 3, 5
# Of pypaimon: what is told to its table, and how often we are to be faster.
_NATIVE = dict.fromkeys(
    (
        "scan.native-plan.enabled",
        "read.native.enabled",
        "commit.native.enabled",
        "write.native.enabled",
    ),
    "true",
)
RIVALS: dict[str, tuple[dict[str, str], float]] = {
    "pypaimon 2.1.0, native": (_NATIVE, 5.0),
    "pypaimon 2.1.0, Python": ({}, 15.0),
}
INTEROP = ROOT / ".venv" / "interop" / "bin" / "python"
_READER = """
import json, sys, time
from pypaimon import CatalogFactory
for line in sys.stdin:
    table = CatalogFactory.create({"warehouse": line.strip()}).get_table("bench.scan")
    table = table.copy(json.loads(sys.argv[1]))
    start = time.perf_counter()
    builder = table.new_read_builder()
    rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows
    print(json.dumps({"seconds": time.perf_counter() - start, "rows": rows}), flush=True)
"""


def run() -> list[Row]:
    with scratch("scan") as work:
        schema = wide_schema(59)
        options = {"bucket": "1", "write-only": "true", "merge-engine": "partial-update"}
        table = wt.Catalog(str(work)).create_table(
            "bench.scan", schema, primary_key=["k"], options=options
        )
        table.write(wide_rows(schema, np.arange(BASE_ROWS) * 2, seed=1))
        rng = np.random.default_rng(2)
        for delta in range(DELTAS):
            keys = np.unique(rng.integers(0, 2 * BASE_ROWS, DELTA_ROWS))
            table.write(
                wide_rows(schema, keys, seed=3 + delta, names=["k", *[f"c{i}" for i in range(20)]])
            )
        return [_compare(table, work, rival) for rival in RIVALS]


def _compare(table: wt.Table, warehouse: Path, rival: str) -> Row:
    options, target = RIVALS[rival]
    rows = table.scan().to_arrow().num_rows
    with subprocess.Popen(
        [str(INTEROP), "-c", _READER, json.dumps(options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        stdin, stdout = reader.stdin, reader.stdout

        def theirs() -> float:
            stdin.write(f"{warehouse}\n")
            stdin.flush()
            answer = json.loads(stdout.readline())
            assert answer["rows"] == rows, answer
            return float(answer["seconds"])

        ours_s, theirs_s, ratio, pairs = paired(
            lambda: timed(lambda: table.scan().to_arrow()).wall, theirs, ROUNDS
        )
        stdin.close()
    return Row(
        "merge read, 60 columns",
        f"{rows / ours_s / 1e3:.0f} K rows/s",
        f"{rival} {rows / theirs_s / 1e3:.0f} K rows/s",
        ratio,
        f">= {target:.0f}",
        ratio >= target,
        {"pairs": pairs},
    )
