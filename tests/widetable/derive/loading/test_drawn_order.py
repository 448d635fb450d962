"""The drawn order is SplitMix64's, as others compute it, and never changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.derive.loading.drawn_order import drawn_order, draws, key_of

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    """The finalizer of SplitMix64, as Vigna's C has it, with Python's integers."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def test_draws_are_those_of_splitmix64() -> None:
    """The known answers for the seed 1234567, as programs in many languages print them (Rosetta Code)."""
    assert draws(1234567, 5).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


@given(st.integers(0, MASK), st.integers(0, 200))
def test_an_order_sorts_positions_by_the_upper_half_of_their_draws(key: int, count: int) -> None:
    numbers = [mix((key + (place + 1) * GAMMA) & MASK) for place in range(count)]
    expected = sorted(range(count), key=lambda place: (numbers[place] >> 32, place))
    assert drawn_order(key, count).tolist() == expected


@given(st.lists(st.integers(0, MASK), max_size=6))
def test_a_key_mixes_number_by_number(numbers: list[int]) -> None:
    key = 0
    for number in numbers:
        key = mix((key + number + GAMMA) & MASK)
    assert key_of(*numbers) == key


@pytest.mark.parametrize(
    ("numbers", "count", "order"),
    [
        # Computed once by a program in C; whoever resumes a training relies on them.
        ((0, 1, 0), 10, [8, 5, 6, 3, 4, 7, 9, 0, 1, 2]),
        ((1, 7, 2, 1, 0, 3), 12, [3, 11, 6, 10, 7, 4, 0, 9, 1, 5, 2, 8]),
    ],
)
def test_golden_orders(numbers: tuple[int, ...], count: int, order: list[int]) -> None:
    assert drawn_order(key_of(*numbers), count).tolist() == order
