"""Types of columns for tests of targets: Arrow's own casts, in place of those of PostgreSQL's types."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True)
class PlainCast:
    values: pa.Array
    bad: npt.NDArray[np.bool_]
    reason: str


@dataclass(frozen=True)
class PlainType:
    """Texts that Arrow casts to a type; those in `bad_texts` are not values of it."""

    arrow: pa.DataType
    bad_texts: tuple[str, ...] = ("NaN",)

    def from_texts(self, texts: pa.Array) -> PlainCast:
        listed = texts.to_pylist()
        bad = np.array(
            [text in self.bad_texts and self.arrow != TEXT for text in listed], dtype=np.bool_
        )
        good = [None if is_bad else text for text, is_bad in zip(listed, bad, strict=True)]
        return PlainCast(pa.array(good, pa.large_string()).cast(self.arrow), bad, "a NaN")


TEXT = pa.large_string()
INT64 = PlainType(pa.int64())
STRING = PlainType(TEXT)
DECIMAL = PlainType(pa.decimal128(10, 2))
