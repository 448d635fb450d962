"""The covering array: each pair that may meet lies in a row, none that may not, and a seed repeats it."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.pairs.covering import covering, legal_pairs, pairs_of
from tests.pairs.dimensions import DIMENSIONS, PLAIN
from tests.pairs.rules import RULES, may_meet

SMALL = {"one": ("a", "b", "c"), "two": ("a", "b"), "three": ("a", "b", "c"), "four": ("a", "b")}


def test_each_pair_lies_in_a_row() -> None:
    rows = covering(SMALL, lambda one, other: True, "seed")
    assert set(legal_pairs(SMALL, lambda one, other: True)) == {
        p for r in rows for p in pairs_of(r)
    }
    assert len(rows) < 3 * 2 * 3 * 2 / 2


def test_a_pair_that_may_not_meet_is_in_no_row() -> None:
    forbidden = frozenset([("one", "a"), ("three", "b")])
    rows = covering(SMALL, lambda one, other: {one, other} != forbidden, "seed")
    covered = {pair for row in rows for pair in pairs_of(row)}
    assert forbidden not in covered
    assert len(covered) == len(legal_pairs(SMALL, lambda one, other: True)) - 1


def test_a_seed_repeats_the_rows_and_another_gives_others() -> None:
    def rows(seed: str) -> list[dict[str, str]]:
        return covering(SMALL, lambda one, other: True, seed)

    assert rows("1") == rows("1")
    assert rows("1") != rows("2")


def test_a_pair_that_no_row_can_have_is_an_error() -> None:
    def never(one: tuple[str, str], other: tuple[str, str]) -> bool:
        return ("three" not in (one[0], other[0])) or one[0] == other[0]

    with pytest.raises(ValueError, match="no row can have"):
        covering(SMALL, never, "seed")


def test_all_that_may_meet_in_a_table_lies_in_a_scenario() -> None:
    rows = covering(DIMENSIONS, may_meet, "seed")
    assert {p for r in rows for p in pairs_of(r)} == set(legal_pairs(DIMENSIONS, may_meet))
    assert all(list(row) and set(row) == set(DIMENSIONS) for row in rows)


def test_rules_name_values_that_there_are() -> None:
    for rule in RULES:
        assert all(value in DIMENSIONS[name] for pair in rule.pairs() for name, value in pair), rule


def test_a_value_that_is_plain_is_excluded_by_nothing_that_is() -> None:
    assert all(may_meet(one, other) for one, other in combinations(PLAIN.items(), 2))
