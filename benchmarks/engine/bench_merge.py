"""Merge share: how close a full compaction comes to the plain Parquet decode + encode of the same rows.

The limit decodes every file that takes part with pyarrow and its default threads, then encodes the merged
rows, which lie in memory in their order, with the same codec and dictionaries. Ours decodes on one
thread, merges, encodes and commits. Share = limit / ours, wall clock of paired runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import widetable as wt
from benchmarks.engine.wide_rows import wide_rows, wide_schema
from benchmarks.harness import Row, linked_copy, paired, scratch, timed

COLUMNS, BASE_ROWS, DELTA_ROWS, DELTAS, ROUNDS = 60, 1_000_000, 100_000, 3, 5
TARGET = 0.75

# Batches of one merged file, and the columns that it has dictionaries for.
_Merged: TypeAlias = tuple[list[pa.RecordBatch], list[str]]


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
    in_memory = [_load(path) for path in outputs]
    cpu: dict[str, list[float]] = {"ours": [], "limit": []}

    def ours() -> float:
        table = wt.Table.open(str(linked_copy(source, work / "ours")))
        timing = timed(lambda: table.compact(full=True))
        cpu["ours"].append(timing.cpu)
        return timing.wall

    def limit() -> float:
        timing = timed(lambda: _decode_and_encode(live, in_memory, work / "limit"))
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


def _decode_and_encode(inputs: list[str], merged: list[_Merged], target: Path) -> None:
    """Decode every input with Arrow's default threads, then encode the merged rows, which lie in memory."""
    for path in inputs:
        for _ in pq.ParquetFile(path).iter_batches(batch_size=131_072):
            pass
    target.mkdir(exist_ok=True)
    for number, (batches, dictionary) in enumerate(merged):
        with pq.ParquetWriter(
            target / f"{number}.parquet",
            batches[0].schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=dictionary,
        ) as writer:
            for batch in batches:
                writer.write_batch(batch)


def _load(path: str) -> _Merged:
    source = pq.ParquetFile(path)
    return list(source.iter_batches(batch_size=131_072)), _dictionary_columns(source)


def _dictionary_columns(source: pq.ParquetFile) -> list[str]:
    group = source.metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    return [c.path_in_schema for c in columns if c.has_dictionary_page]
