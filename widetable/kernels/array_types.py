"""The array types that kernels and their callers name in their signatures."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

# Sort keys of rows, uint64[n, L] (`key_lanes`).
Lanes: TypeAlias = npt.NDArray[np.uint64]
# One truth value for each row, record or key.
Mask: TypeAlias = npt.NDArray[np.bool_]
# Indices of rows, records or keys.
Positions: TypeAlias = npt.NDArray[np.int64]
