"""The protocol of timestamp barriers, and the order of overlapping commits, in all interleavings that a configuration
allows: no state is wrong, each can still be finished, and every planted mistake is found.

How many states there are was measured with the model that this one was split from (docs/proof.md): another number means
that the model says something else now, though nothing may be wrong in it. WIDETABLE_MODEL=all (`make model`): those of
LONG, too.
"""

from __future__ import annotations

import os
from typing import Any, Final, get_args

import pytest

from tests.model_checking.configuration import Mistake
from tests.model_checking.configurations import (
    CONFIGURATIONS,
    LARGE,
    MISTAKES,
    ORDERS,
    OVERLAPS,
    REVISION,
    search,
)
from tests.support.programs.tallies import Note

STATES: Final = {
    "changelog": 48_788,
    "groups": 83_308,
    "open": 126_320,
    "races": 12_541,
    "layers": 386_724,
    "sinks": 4_566,
    "sinks2": 48_516,
    "expiry": 362_872,
    "again": 3_218,
    "floor": 13_268,
    "leave": 343_794,
    "away": 23_172,
    "late": 11_692,
    "skips": 582_636,
    "revision": 6_644,
    "changelog+": 253_522,
    "layers+": 280_492,
    "away+": 1_635_534,
    "sinks+": 271_114,
    # Not in that model: what came to the design later.
    "order-shared": 19_362,
    "order-own": 21_564,
    "overlap-rows": 11_256,
    "overlap-columns": 18_755,
}
LONG: Final = {"expiry", "layers", "leave", "skips", *LARGE}  # ten seconds to minutes each
IS_ALL: Final = os.environ.get("WIDETABLE_MODEL") == "all"


def searched(name: str) -> Any:
    """A parameter; one of the long form is named as skipped in the short one."""
    is_left = name in LONG and not IS_ALL
    mark = pytest.mark.skipif(is_left, reason=f"{name} takes long: make model")
    return pytest.param(name, marks=[mark])


def test_all_configurations_and_mistakes_are_searched() -> None:
    assert STATES.keys() == {*CONFIGURATIONS, *LARGE, REVISION, *ORDERS, *OVERLAPS}
    assert STATES.keys() >= LONG
    assert list(MISTAKES) == list(get_args(Mistake))
    assert set(MISTAKES.values()) <= STATES.keys()


@pytest.mark.parametrize("name", [searched(name) for name in STATES])
def test_no_state_is_wrong_and_each_can_be_finished(name: str, tally: Note) -> None:
    found = search(name)
    tally(states=found.states, steps=found.steps)
    assert (found.fault, found.way) == (None, [])
    assert found.states == STATES[name]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake: Mistake, tally: Note) -> None:
    found = search(MISTAKES[mistake], mistake)
    tally(states=found.states, steps=found.steps)
    assert found.fault is not None
    assert found.way
