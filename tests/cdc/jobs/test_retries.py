"""When a job tries again: pauses that double up to 30 s, from the first failure on until the limit."""

from __future__ import annotations

from widetable_cdc.jobs.retries import Retries


def test_pauses_double_and_never_end_without_a_limit() -> None:
    retries = Retries(None)
    pauses = [retries.pause(float(now)) for now in range(2000)]
    assert pauses[:8] == [0.25, 0.5, 1, 2, 4, 8, 16, 30]
    assert set(pauses[8:]) == {30}


def test_a_limit_counts_from_the_first_failure() -> None:
    retries = Retries(10)
    assert [retries.pause(now) for now in (100, 104, 109.5)] == [0.25, 0.5, 0.5]
    assert retries.pause(110) is None


def test_what_went_well_begins_anew() -> None:
    retries = Retries(10)
    retries.pause(100)
    retries.pause(109)
    retries.went_well()
    assert retries.pause(200) == 0.25


def test_without_time_there_is_no_second_try() -> None:
    assert Retries(0).pause(5) is None
