"""The choice between scanning a file, using its cache and building one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widetable.lsm.lookup_cost import Choice, FileLookup, build_micros, choose, scan_micros
from widetable.lsm.scan_history import ScanHistory

MILLION = 1_000_000
# One of a stream's batches over a large file, nothing cached.
LOOKUP = FileLookup(
    rows=MILLION, keys=50_000, columns=60, stored_columns=60, has_cache=False, can_build=True
)

_LOOKUPS = st.builds(
    FileLookup,
    rows=st.integers(1, 10**9),
    keys=st.integers(1, 10**9),
    columns=st.integers(0, 60),
    stored_columns=st.integers(60, 5000),
    has_cache=st.booleans(),
    can_build=st.booleans(),
    scanned_micros=st.floats(0, 1e9),
)


@pytest.mark.parametrize(
    ("strategy", "has_cache", "can_build", "expected"),
    [
        ("scan", True, True, Choice.SCAN),
        ("lookup", True, True, Choice.LOOKUP),
        ("lookup", False, True, Choice.BUILD_THEN_LOOKUP),
        ("lookup", False, False, Choice.SCAN),
        ("auto", True, False, Choice.LOOKUP),
        ("auto", False, False, Choice.SCAN),
    ],
)
def test_a_forced_strategy_is_followed_where_it_can_be(
    strategy: str, has_cache: bool, can_build: bool, expected: Choice
) -> None:
    lookup = replace(LOOKUP, has_cache=has_cache, can_build=can_build, scanned_micros=1e12)
    assert choose(replace(lookup, keys=MILLION), strategy) is choose(lookup, strategy) is expected


@given(_LOOKUPS)
def test_the_first_scan_of_a_file_never_builds_a_cache(lookup: FileLookup) -> None:
    first = replace(lookup, has_cache=False, scanned_micros=0.0)
    assert choose(first, "auto") is Choice.SCAN


def test_a_cache_is_built_when_scans_have_cost_as_much() -> None:
    """A stream whose batches touch a twentieth of a file: the second one pays for the cache (engine.md section A)."""
    spent, choices = 0.0, []
    for _ in range(3):
        lookup = replace(LOOKUP, scanned_micros=spent)
        choices.append(choose(lookup, "auto"))
        spent += scan_micros(lookup)
    assert choices == [Choice.SCAN, Choice.BUILD_THEN_LOOKUP, Choice.BUILD_THEN_LOOKUP]


def test_a_few_keys_do_not_build_a_cache_soon() -> None:
    lookup = replace(LOOKUP, keys=1)
    assert build_micros(lookup) > 10 * scan_micros(lookup)
    assert choose(replace(lookup, scanned_micros=9 * scan_micros(lookup)), "auto") is Choice.SCAN
    much = replace(lookup, scanned_micros=build_micros(lookup))
    assert choose(much, "auto") is Choice.BUILD_THEN_LOOKUP


def test_a_batch_of_much_of_the_file_builds_no_cache() -> None:
    lookup = replace(LOOKUP, keys=MILLION // 2, scanned_micros=1e12)
    assert choose(lookup, "auto") is Choice.SCAN


@given(_LOOKUPS)
def test_a_scan_costs_less_than_building(lookup: FileLookup) -> None:
    assert scan_micros(lookup) < build_micros(lookup)


def test_scans_are_remembered_by_file_and_the_oldest_forgotten() -> None:
    history = ScanHistory(max_files=2)
    history.add("a", 1.0)
    history.add("b", 2.0)
    history.add("a", 3.0)
    assert (history.micros("a"), history.micros("b"), history.micros("c")) == (4.0, 2.0, 0.0)
    history.add("c", 5.0)
    assert (history.micros("a"), history.micros("b"), history.micros("c")) == (4.0, 0.0, 5.0)
    history.forget("a")
    history.forget("b")
    assert history.micros("a") == 0.0
