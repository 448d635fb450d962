"""Merge share: how close a full compaction comes to the plain Parquet decode + encode of the same rows.

The limit reads every file that takes part with pyarrow and writes the merged rows, already in
memory order, with the same
codec and dictionary settings; both sides run in this process with the same threads. Share = limit /
ours, wall clock of paired runs.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import widetable as wt
from benchmarks.harness import Row, linked_copy, paired, scratch, timed
from benchmarks.wide_rows import wide_rows, wide_schema

COLUMNS, BASE_ROWS, DELTA_ROWS, DELTAS, ROUNDS = 60, 1_000_000, 100_000, 3, 5
TARGET = 0.75


def run() -> list[Row]:
    with scratch("merge") as work:
        catalog = wt.Catalog(str(work / "warehouse"))
        schema = wide_schema(COLUMNS - 3, groups=3)
        groups = [[f"c{i}" for i in range(j * 19, (j + 1) * 19)] for j in range(3)]
        options = {
            "merge-engine": "partial-update",
            "bucket": "1",
            "write-only": "true",
            "widetable.fsync": "false",
        }
        options |= {
            f"fields.g{j}.sequence-group": ",".join(group) for j, group in enumerate(groups)
        }
        table = catalog.create_table("bench.merge", schema, primary_key=["k"], options=options)
        table.write(wide_rows(schema, np.arange(BASE_ROWS) * 2, seed=1))
        table.compact(full=True)
        rng = np.random.default_rng(2)
        for delta in range(DELTAS):
            keys = np.unique(rng.integers(0, 2 * BASE_ROWS, DELTA_ROWS))
            table.write(
                wide_rows(schema, keys, seed=3 + delta, names=["k", *groups[delta], f"g{delta}"])
            )
        return [_compare(work, Path(table.path))]


def _compare(work: Path, source: Path) -> Row:
    merged = linked_copy(source, work / "merged")
    wt.Table.open(str(merged)).compact(full=True)
    inputs = sorted(str(p) for p in source.rglob("*.parquet"))
    outputs = sorted(
        set(map(str, merged.rglob("*.parquet")))
        - {p.replace(str(source), str(merged)) for p in inputs}
    )
    names = _live_names(source)
    live = [p for p in inputs if Path(p).name in names]
    cpu: dict[str, list[float]] = {"ours": [], "limit": []}

    def ours() -> float:
        table = wt.Table.open(str(linked_copy(source, work / "ours")))
        timing = timed(lambda: table.compact(full=True))
        cpu["ours"].append(timing.cpu)
        return timing.wall

    def limit() -> float:
        timing = timed(lambda: _decode_and_encode(live, outputs, work / "limit"))
        cpu["limit"].append(timing.cpu)
        return timing.wall

    ours_s, limit_s, share, pairs = paired(ours, limit, ROUNDS)
    rows = BASE_ROWS + DELTAS * DELTA_ROWS
    return Row(
        "merge share, 60 columns",
        f"{rows / ours_s / 1e3:.0f} K rows/s ({ours_s:.2f} s)",
        f"limit {limit_s:.2f} s",
        share,
        f">= {TARGET} of decode + encode",
        share >= TARGET,
        {"pairs": pairs, "cpu": cpu},
    )


def _live_names(table: Path) -> set[str]:
    """The file that the first compaction replaced lies there too: only what the latest snapshot holds takes part."""
    return {f.file_name for split in wt.Table.open(str(table)).scan().splits() for f in split.files}


def _decode_and_encode(inputs: list[str], outputs: list[str], target: Path) -> None:
    """Decode every input; then encode the merged rows. The merged rows' own decode is not counted
    twice: it stands for the base's.
    """
    base = max(inputs, key=os.path.getsize)
    for path in inputs:
        if path != base:
            for _ in pq.ParquetFile(path).iter_batches(batch_size=131_072):
                pass
    target.mkdir(exist_ok=True)
    for number, path in enumerate(outputs):
        source = pq.ParquetFile(path)
        dictionary = _dictionary_columns(source)
        with pq.ParquetWriter(
            target / f"{number}.parquet",
            source.schema_arrow,
            compression="zstd",
            compression_level=1,
            use_dictionary=dictionary,
        ) as writer:
            for batch in source.iter_batches(batch_size=131_072):
                writer.write_batch(batch)


def _dictionary_columns(source: pq.ParquetFile) -> list[str]:
    group = source.metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    return [c.path_in_schema for c in columns if c.has_dictionary_page]
