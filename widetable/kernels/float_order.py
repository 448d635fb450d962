"""Java's total order of floats, as unsigned integers: -inf .. -0.0, 0.0 .. inf, NaN; all NaNs are equal.

Source: `Double.compare`, `Float.compare`. Columns (key_lanes), keys of lookup caches and values of manifests use it.

    -inf      -1        -0.0      0.0       1         inf       NaN             FLOAT
    007FFFFF  407FFFFF  7FFFFFFF  80000000  BF800000  FF800000  FFC00000

A negative number has all bits inverted, so that a larger size sorts lower; any other gets the
sign bit, so that it sorts behind negative ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def order_bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return u4[n] for f4[n], u8[n] for f8[n]: integers in the order of the values, equal where these are."""
    bits = values.view(np.dtype(f"u{values.dtype.itemsize}"))
    sign = bits.dtype.type(1 << (8 * values.dtype.itemsize - 1))
    ordered = np.where(bits & sign, ~bits, bits | sign)
    # Every NaN sorts behind infinity, whatever its sign and payload.
    ordered[np.isnan(values)] = np.array(np.nan, values.dtype).view(bits.dtype) | sign
    return ordered
