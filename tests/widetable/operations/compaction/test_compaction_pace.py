"""Appends at the pace of what is compacted behind them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.operations.handle import compaction_pace
from widetable.operations.handle.compaction_pace import Pace

_SHORT_SECONDS = 0.05


def pace_of(rows: int) -> Pace:
    """With one compaction, of file a."""
    pace = Pace("t")
    assert pace.hand_over({"a": rows}) == {"a"}
    return pace


@contextmanager
def waits(pace: Pace, rows: int) -> Iterator[threading.Thread]:
    """An append that waits, until the block is left."""
    append = threading.Thread(target=lambda: pace.follow(rows))
    append.start()
    append.join(_SHORT_SECONDS)
    assert append.is_alive(), "it did not wait"
    yield append
    append.join(PATIENCE_SECONDS)
    assert not append.is_alive(), "it waits for ever"


def test_an_append_waits_until_as_many_rows_are_done_as_were_appended_before() -> None:
    """But for an eighth, 20 rows."""
    pace = pace_of(160)
    pace.follow(20)
    pace.follow(80)
    with waits(pace, 20) as append:
        pace.rows_done(79)
        append.join(_SHORT_SECONDS)
        assert append.is_alive()
        pace.rows_done(1)
    with waits(pace, 1000):
        pace.rows_done(20)


def test_nobody_waits_where_nothing_is_compacted() -> None:
    pace = Pace("t")
    for _ in range(3):
        pace.follow(100)


def test_nobody_waits_for_what_is_done_or_has_failed() -> None:
    pace = pace_of(100)
    pace.follow(50)
    with waits(pace, 50):
        pace.finish({"a"})
    pace.follow(50)
    pace.follow(50)
    pace.hand_over({"b": 100})
    pace.follow(50)  # of what was appended before that nothing counts


def test_what_is_handed_over_next_does_not_hold_who_keeps_the_pace() -> None:
    """Two barriers, one after the other: a writer stays as far ahead as it was."""
    pace = pace_of(160)
    pace.follow(90)
    pace.rows_done(70)
    pace.follow(0)
    assert pace.hand_over({"a": 160, "b": 80}) == {"b"}
    pace.follow(30)
    with waits(pace, 0):
        pace.rows_done(20)
    pace.follow(80)
    with waits(pace, 0):
        pace.finish({"a"})
        pace.rows_done(30)
    pace.finish({"b"})
    pace.follow(1)


def test_a_writer_that_is_never_caught_up_with_gets_no_further_ahead() -> None:
    """A thousand barriers, of which one is always left: what was done long ago gives no slack."""
    pace = pace_of(80)
    left = "a"
    for number in range(1000):
        pace.follow(80)
        name = f"{number}"
        assert pace.hand_over({left: 80, name: 80}) == {name}
        pace.rows_done(80)
        pace.finish({left})
        left = name
    pace.follow(11)
    with waits(pace, 1):
        pace.rows_done(1)


def test_who_hands_over_again_and_again_what_nobody_has_begun_gets_no_further() -> None:
    pace = pace_of(80)
    for _ in range(100):
        assert pace.hand_over({"a": 80}) == frozenset()
    pace.follow(11)
    with waits(pace, 1):
        pace.finish(())
        pace.rows_done(1)


def test_a_compaction_that_does_the_work_of_the_next_counts_for_it() -> None:
    pace = pace_of(100)
    pace.hand_over({"b": 50})
    pace.rows_done(150)
    pace.follow(150)
    pace.finish({"a"})
    pace.follow(1)
    pace.finish({"b"})


def test_what_was_done_by_somebody_else_counts() -> None:
    pace = pace_of(100)
    pace.hand_over({"b": 100})
    pace.follow(100)
    with waits(pace, 50):
        pace.finish({"a"})


def test_what_merges_nothing_holds_nobody_for_long() -> None:
    pace = pace_of(0)
    pace.follow(10)
    with waits(pace, 10):
        pace.finish({"a"})


def test_a_long_wait_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compaction_pace, "_LONG_SECONDS", _SHORT_SECONDS / 2)
    pace = pace_of(80)
    pace.follow(80)
    with waits(pace, 1):
        pace.finish({"a"})
    assert "an append to t waited another" in caplog.text
