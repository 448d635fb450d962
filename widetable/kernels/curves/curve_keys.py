"""The place of points on a space-filling curve, so that points that are near in all dimensions are near on the curve.

In: the coordinates of n points in k dimensions, uint64[n, k], each below 2^bits, with k * bits <= 64. Out: uint64[n],
equal exactly for equal points. Nothing is raised; callers guarantee the ranges.

    z order       the bits of the coordinates in turn, the highest first; neighbours on the curve may jump
    Hilbert       the coordinates are turned first so that neighbours on the curve always touch

    two dimensions of one bit:    z  (0,0) (0,1) (1,0) (1,1)      Hilbert  (0,0) (0,1) (1,1) (1,0)

Source of the Hilbert transform: J. Skilling, "Programming the Hilbert curve", AIP Conf. Proc. 707, 2004.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from widetable.kernels.jit import kernel

Points: TypeAlias = npt.NDArray[np.uint64]


def z_keys(points: Points, bits: int) -> Points:
    """Return the places of points in z order."""
    keys = np.zeros(len(points), np.uint64)
    _interleave(points, bits, keys)
    return keys


def hilbert_keys(points: Points, bits: int) -> Points:
    """Return the places of points on the Hilbert curve. The points are changed."""
    _turn(points, bits)
    return z_keys(points, bits)


@kernel
def _interleave(points: Points, bits: int, keys: Points) -> None:
    dimensions = points.shape[1]
    one = np.uint64(1)
    for row in range(len(keys)):
        key = np.uint64(0)
        for bit in range(bits - 1, -1, -1):
            for dimension in range(dimensions):
                key = (key << one) | ((points[row, dimension] >> np.uint64(bit)) & one)
        keys[row] = key


@kernel
def _turn(points: Points, bits: int) -> None:
    """Turn each point so that its bits, read in turn, are its place on the Hilbert curve."""
    dimensions = points.shape[1]
    one = np.uint64(1)
    for row in range(points.shape[0]):
        for bit in range(bits - 1, 0, -1):
            side = one << np.uint64(bit)
            below = side - one
            for dimension in range(dimensions):
                if points[row, dimension] & side:
                    points[row, 0] ^= below
                else:
                    swapped = (points[row, 0] ^ points[row, dimension]) & below
                    points[row, 0] ^= swapped
                    points[row, dimension] ^= swapped
        for dimension in range(1, dimensions):
            points[row, dimension] ^= points[row, dimension - 1]
        flips = np.uint64(0)
        for bit in range(bits - 1, 0, -1):
            side = one << np.uint64(bit)
            if points[row, dimensions - 1] & side:
                flips ^= side - one
        for dimension in range(dimensions):
            points[row, dimension] ^= flips
