"""How well scores put what happened above what did not: the area under the curve (AUC), and the curve.

The area is the chance that of two flights, one late and one in time, the late one has the higher score; equal scores
count as a half. 0.5 is what chance gives, 1 is perfect. Without flights of both kinds it is not a number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def area_under_curve(scores: Floats, happened: Bools) -> float:
    """By the sum of ranks (Mann and Whitney); equal scores have the mean of their ranks."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    yes = int(happened.sum())
    no = len(happened) - yes
    if not yes or not no:
        return float("nan")
    return float((ranks[happened].sum() - yes * (yes + 1) / 2) / (yes * no))


def curve(scores: Floats, happened: Bools, points: int = 100) -> list[tuple[float, float]]:
    """The ROC curve: shares of what did not happen, ascending, and of what did, that lie above the same score."""
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # of equal scores
    yes = np.append(0, np.cumsum(happened[order])[last])
    no = np.append(0, np.cumsum(~happened[order])[last])
    x, y = no / max(int(no[-1]), 1), yes / max(int(yes[-1]), 1)
    grid = np.linspace(0, 1, points + 1)
    values = np.interp(grid, x, y).tolist()
    return [(0.0, 0.0), *zip(grid.tolist(), values, strict=True)]  # it may begin with a rise
