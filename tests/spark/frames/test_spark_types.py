"""Batches in Spark's types: what does not fit is an error of the package that names the column."""

from __future__ import annotations

import pyarrow as pa
import pytest

import widetable as wt
from widetable_spark.frames.spark_types import cast_batch


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (pa.array([300]), pa.int8()),
        (pa.array([1], pa.timestamp("ns")), pa.timestamp("us")),
        (pa.array([[1]]), pa.int64()),
        (pa.array([{"x": 1}]), pa.string()),
    ],
    ids=str,
)
def test_values_that_spark_cannot_hold_are_refused(values: pa.Array, type: pa.DataType) -> None:
    with pytest.raises(wt.InvalidError, match="column 'v'"):
        cast_batch(pa.record_batch({"v": values}), pa.schema({"v": type}))
