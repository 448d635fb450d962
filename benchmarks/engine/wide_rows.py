"""Synthetic wide rows: an int64 key, then integers, doubles with two decimals, dates' worth of
low-cardinality strings and a few texts.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def wide_schema(columns: int, groups: int = 0) -> pa.Schema:
    """`k`, then `columns` value columns c0.. (4 of 10 BIGINT, 5 of 10 DOUBLE, 1 of 10 STRING), then
    `groups` BIGINT sequence columns g0..
    """
    fields = [pa.field("k", pa.int64(), nullable=False)]
    fields += [pa.field(f"c{i}", _type_of(i)) for i in range(columns)]
    fields += [pa.field(f"g{i}", pa.int64()) for i in range(groups)]
    return pa.schema(fields)


def wide_rows(
    schema: pa.Schema, keys: np.ndarray, seed: int, names: list[str] | None = None
) -> pa.Table:
    """Rows for `keys` with the columns `names` of `schema` (all by default), about one value in
    twenty null in every third column.
    """
    rng = np.random.default_rng(seed)
    chosen = schema.names if names is None else names
    arrays = []
    for name in chosen:
        field = schema.field(name)
        if name == "k":
            arrays.append(pa.array(keys, pa.int64()))
            continue
        mask = (
            rng.random(len(keys)) < 0.05
            if name.startswith("c") and int(name[1:]) % 3 == 0
            else None
        )
        arrays.append(pa.array(_values(rng, field.type, len(keys), name), field.type, mask=mask))
    return pa.table(arrays, schema=pa.schema([schema.field(name) for name in chosen]))


def _type_of(i: int) -> pa.DataType:
    return pa.string() if i % 10 == 9 else pa.float64() if i % 2 else pa.int64()


def _values(rng: np.random.Generator, t: pa.DataType, n: int, name: str) -> np.ndarray | pa.Array:
    if name.startswith("g"):
        return rng.integers(0, 1 << 40, n)
    if pa.types.is_int64(t):
        return rng.integers(0, 1_000_000, n)
    if pa.types.is_float64(t):
        return np.round(rng.random(n) * 1000, 2)
    words = np.array([f"value-{i:04d}" for i in range(500)], dtype=object)
    return words[rng.integers(0, 500, n)]
