"""Pairwise covering: few rows of choices, such that every two values that may meet lie in one row at least. Pure.

In: dimensions (name to values), and which two choices may not meet. Out: rows, each of a value for every dimension.
Greedy, after AETG: a row begins with a pair that no row has yet and takes, dimension by dimension, the value that meets
most such pairs. The same seed gives the same rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

Choice = tuple[str, str]  # a dimension, and one of its values
Pair = frozenset[Choice]
Row = dict[str, str]
Dimensions = Mapping[str, Sequence[str]]
# Whether two choices may lie in one row.
May = Callable[[Choice, Choice], bool]


def legal_pairs(dimensions: Dimensions, may_meet: May) -> list[Pair]:
    """All pairs of values of two dimensions that may meet, in the order of the dimensions."""
    return [
        frozenset([one, other])
        for first, second in combinations(dimensions, 2)
        for one in [(first, value) for value in dimensions[first]]
        for other in [(second, value) for value in dimensions[second]]
        if may_meet(one, other)
    ]


def pairs_of(row: Mapping[str, str]) -> set[Pair]:
    """The pairs that lie in a row."""
    return {frozenset(pair) for pair in combinations(row.items(), 2)}


def covering(dimensions: Dimensions, may_meet: May, seed: str) -> list[Row]:
    """Rows that have every legal pair. Raises ValueError for a pair that no whole row can have."""
    rng = random.Random(seed)
    pairs = legal_pairs(dimensions, may_meet)
    rng.shuffle(pairs)
    left = dict.fromkeys(pairs)
    rows: list[Row] = []
    while left:
        start = next(iter(left))
        row = _row(dimensions, may_meet, rng, left, dict(sorted(start)))
        rows.append(row)
        for pair in pairs_of(row):
            left.pop(pair, None)
    return rows


def _row(
    dimensions: Dimensions, may_meet: May, rng: random.Random, left: Mapping[Pair, None], row: Row
) -> Row:
    """The row with a value for each dimension. What a value excludes is taken from the others at once, and the
    dimension that has fewest left is next, so it seldom has to go back, and finds soon that it cannot go on.
    """
    open_values = {
        name: [v for v in values if all(may_meet((name, v), other) for other in row.items())]
        for name, values in dimensions.items()
        if name not in row
    }
    if not open_values:
        return row
    if not all(open_values.values()):
        raise ValueError(f"no row can have {row}: what they exclude leaves a dimension nothing")

    def gain(name: str, value: str) -> int:
        return sum(frozenset([(name, value), other]) in left for other in row.items())

    name = min(open_values, key=lambda n: (len(open_values[n]), rng.random()))
    values = open_values[name]
    rng.shuffle(values)
    for value in sorted(values, key=lambda value: gain(name, value), reverse=True):
        try:
            return _row(dimensions, may_meet, rng, left, {**row, name: value})
        except ValueError as error:
            refused = error
    raise refused
