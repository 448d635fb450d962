"""The wide table seen as an ML feature table: a sample with its label, and how full it is.

In: the rows of the table as Arrow. Out: plain values for the console and the report. The label is the
arrival delay in minutes; the features come from three streams, joined by nothing but the key, and from the aircraft.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from examples.flights.wide_table import COLUMN_GROUPS, KEY, LABEL

# What a sample shows: enough of each group to recognise it.
SAMPLE_COLUMNS = (
    "time_hour",
    "carrier",
    "flight",
    "origin",
    "dest",
    "distance",
    "tailnum",
    "dep_time",
    "dep_delay",
    LABEL,
    "plane_year",
    "plane_maker",
    "plane_seats",
)
_SAMPLE_SEED = 7


@dataclass(frozen=True)
class GroupFill:
    """How full one column group is: rows that have it, and per value column the non-null cells."""

    name: str
    row_count: int
    known_count: int
    column_counts: dict[str, int]

    @property
    def known_share(self) -> float:
        """Rows with a sequence of this group, as a share of all rows."""
        return self.known_count / self.row_count if self.row_count else 0.0

    @property
    def cell_share(self) -> float:
        """Non-null value cells as a share of all value cells of the group."""
        cells = self.row_count * len(self.column_counts)
        return sum(self.column_counts.values()) / cells if cells else 0.0


def group_of(column: str) -> str:
    """The name of the group that `column` belongs to; "key" for the key."""
    if column in KEY:
        return "key"
    return next(group.name for group in COLUMN_GROUPS if column in group.written_schema.names)


def measure_fill(rows: pa.Table) -> list[GroupFill]:
    """One entry per column group, in table order."""

    def count(column: str) -> int:
        return int(pc.count(rows[column], mode="only_valid").as_py())

    return [
        GroupFill(
            name=group.name,
            row_count=rows.num_rows,
            known_count=count(group.sequence),
            column_counts={name: count(name) for name in group.value_names},
        )
        for group in COLUMN_GROUPS
    ]


def draw_sample(rows: pa.Table, count: int) -> list[dict[str, Any]]:
    """`count` rows in key order: mostly flights that arrived, and one that never left."""
    generator = np.random.default_rng(_SAMPLE_SEED)
    arrived = np.flatnonzero(pc.is_valid(rows[LABEL]).to_numpy())
    never_left = np.flatnonzero(pc.is_null(rows["dep_time"]).to_numpy())
    chosen = generator.choice(arrived, min(count, len(arrived)), replace=False)
    if len(never_left) and len(chosen):
        chosen[-1] = generator.choice(never_left)
    picked = rows.select(SAMPLE_COLUMNS).take(np.sort(chosen))
    sample: list[dict[str, Any]] = picked.to_pylist()
    return sample


def cell_text(value: Any) -> str:
    """A value as it is shown: "·" for null, floats with one decimal."""
    if value is None:
        return "·"
    if hasattr(value, "strftime"):
        return str(value.strftime("%Y-%m-%d %H:%MZ"))
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def percent_text(share: float) -> str:
    """A share as a percentage that never rounds up to 100."""
    return "100 %" if share == 1 else f"{math.floor(share * 1000) / 10:.1f} %"
