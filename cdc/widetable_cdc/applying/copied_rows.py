"""Rows that were read from a table of the source, with the types of its target. Pure.

In: a batch as `TargetType.select` reads it, in the target's names. Out: the same n rows with the target's types, and
which of them the types do not hold; their values are null where they are bad. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable_cdc.values.column_type import TargetType
from widetable_cdc.values.text_cast import Cast


@dataclass(frozen=True)
class CopiedRows:
    """Rows of a batch. rows: all n of them. bad: bool[n]. casts: of each column, with the reasons."""

    rows: pa.RecordBatch
    bad: npt.NDArray[np.bool_]
    casts: Mapping[str, Cast]

    @property
    def good(self) -> pa.RecordBatch:
        """The rows that the target holds."""
        return self.rows.filter(pa.array(~self.bad)) if self.bad.any() else self.rows


def copied_rows(batch: pa.RecordBatch, types: Mapping[str, TargetType]) -> CopiedRows:
    """Return the rows of a batch. types: of the target's columns, by their names."""
    casts = {name: types[name].from_copied(batch.column(name)) for name in batch.schema.names}
    bad = np.zeros(batch.num_rows, dtype=np.bool_)
    for cast in casts.values():
        bad |= cast.bad
    rows = pa.RecordBatch.from_pydict({name: cast.values for name, cast in casts.items()})
    return CopiedRows(rows, bad, casts)
