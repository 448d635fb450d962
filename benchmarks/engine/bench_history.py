"""What a history costs a table: commits with a lookup changelog and a maintainer behind each, with and without it.

Both tables have the rows of two_groups.py and get the same batches. A call is a commit and the round of the maintainer
that follows it, which feeds the history. The history is compared with the changelog before time counts: a version for
each row that a commit left.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import widetable as wt
from benchmarks import two_groups
from benchmarks.harness import Row, Size, paired, scratch, timed

_SEED = 4
_MOST = 1.25


@dataclass(frozen=True)
class _HistoryShape:
    """keys of the table, rows of a batch, pairs of batches that count."""

    keys: int
    rows: int
    pairs: int


SHAPES = {
    Size.FULL: _HistoryShape(1_000_000, 100_000, 9),
    Size.SHORT: _HistoryShape(50_000, 20_000, 5),
    Size.TINY: _HistoryShape(500, 200, 2),
}


def run(size: Size = Size.FULL) -> list[Row]:
    shape = SHAPES[size]
    with scratch("history") as work:
        kept, plain = _Fed(work / "kept", shape, "bench.history"), _Fed(work / "plain", shape, None)
        for each in (kept, plain):  # the first batch finds no caches
            each.commit()
        with_s, without_s, ratio, seconds = paired(kept.commit, plain.commit, shape.pairs)
        versions, history_bytes = kept.history()
    ratio = 1 / ratio
    return [
        Row(
            f"commit of {shape.rows:,} rows and its round of maintenance, with a history",
            f"{with_s:.2f} s",
            f"without {without_s:.2f} s",
            ratio,
            f"<= {_MOST}",
            ratio <= _MOST if size is Size.FULL else None,
            {"pairs": seconds},
        ),
        Row(f"bytes of a version, {versions:,} versions", f"{history_bytes / versions:.0f}"),
    ]


class _Fed:
    """A table that gets batches. history: the name of its history."""

    def __init__(self, warehouse: Path, shape: _HistoryShape, history: str | None) -> None:
        self._catalog, self._shape = wt.Catalog(str(warehouse)), shape
        self._history, self._rng = history, np.random.default_rng(_SEED)
        options = {**two_groups.OPTIONS, "changelog-producer": "lookup"}
        if history is not None:
            options["history.table"] = history
        self._table = self._catalog.create_table(
            "bench.rows", two_groups.schema(), primary_key=["k"], options=options
        )
        self._written = shape.keys
        self._table.write(two_groups.base_rows(self._rng, np.arange(shape.keys)))
        self._table.maintain(once=True)

    def commit(self) -> float:
        """Commit a batch and do a round; return the seconds of both."""
        keys = self._rng.choice(self._shape.keys, self._shape.rows, replace=False)
        rows: pa.Table = two_groups.base_rows(self._rng, np.sort(keys))
        self._written += rows.num_rows

        def both() -> None:
            self._table.write(rows)
            self._table.maintain(once=True)

        return timed(both).wall

    def history(self) -> tuple[int, int]:
        """Return the versions of the history and the bytes of its files. Each key of each batch has one."""
        assert self._history is not None
        history = self._catalog.table(self._history)
        versions = history.scan(["k"]).to_arrow().num_rows
        assert versions == self._written, (versions, self._written)
        return versions, int(pc.sum(history.inspect.files()["size_bytes"]).as_py())
