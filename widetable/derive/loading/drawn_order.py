"""An order drawn from numbers: the same on every machine, in every version. Pure; raises nothing.

In: numbers, such as a seed and an epoch. Out: a key of 64 bits, and the order of n things that the key draws, n at most
2**32. The rule is a promise to whoever resumes a training, so no library may change it:

    mix          the finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits
    key          mix of each number in turn, added to the key so far and to GAMMA
    draws        SplitMix64 with the key as its seed: number i is mix(key + (i + 1) * GAMMA)
    order        the positions 0 .. n - 1, sorted by the upper 32 bits of their draws, equal ones by position

    draws of the key 1234567     6457827717110365317, 3203168211198807973, 9817491932198370423, ..
    order of three things        1 0 2
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

_GAMMA: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB
_MASK: Final = (1 << 64) - 1
_LOWER: Final = (1 << 32) - 1
_UPPER: Final = _MASK - _LOWER


def key_of(*numbers: int) -> int:
    """Return the key of these numbers, each from 0 to 2**64 - 1, in this order."""
    key = 0
    for number in numbers:
        key = int(_mixed(np.array([(key + number + _GAMMA) & _MASK], np.uint64))[0])
    return key


def draws(key: int, count: int) -> npt.NDArray[np.uint64]:
    """Return the first `count` numbers of SplitMix64 with the key as its seed."""
    return draws_at(key, np.arange(count, dtype=np.uint64))


def draws_at(key: int, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the draws of these numbers, of which 0 is the first."""
    steps = numbers + np.uint64(1)
    steps *= np.uint64(_GAMMA)
    steps += np.uint64(key)
    return _mixed(steps)


def drawn_order(key: int, count: int) -> npt.NDArray[np.intp]:
    """Return the order of `count` things: which of them comes first, second, and so on."""
    packed = draws(key, count)
    packed &= np.uint64(_UPPER)
    packed |= np.arange(count, dtype=np.uint64)
    # Numbers are sorted four times as fast as positions by numbers.
    packed.sort()
    packed &= np.uint64(_LOWER)
    return packed.astype(np.intp)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the values mixed, in place: shifts and products modulo 2**64."""
    values ^= values >> np.uint64(30)
    values *= np.uint64(_FIRST)
    values ^= values >> np.uint64(27)
    values *= np.uint64(_SECOND)
    values ^= values >> np.uint64(31)
    return values
