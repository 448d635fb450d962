"""What commits do to the barriers of a table: which label they get, and how far its writers are after it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from widetable.commit.barriers.barrier_state import BARRIER, BARRIERS, WRITER, BarrierState, Member
from widetable.commit.barriers.barrier_step import MAX_WRITERS, Act, BarrierStep, properties_after
from widetable.errors import ConflictError, InvalidError

RUN = "the only run"


def state(frontier: int = 0, highest: int = 0, **members: tuple[int, int]) -> BarrierState:
    """members: (frontier, last label)."""
    found = {name: Member(*numbers, RUN) for name, numbers in members.items()}
    return BarrierState(10, frontier, highest, found)


def after(
    before: BarrierState, act: Act, writer: str = "a", tick: int = 0, barrier: int | None = None
) -> tuple[int | None, int, int, dict[str, tuple[int, int]]] | None:
    """(label, frontier of the table, highest label, frontier and last label of each writer)."""
    said = properties_after(before, BarrierStep(act, writer, RUN, tick, barrier))
    if said is None:
        return None
    assert said[WRITER] == writer
    body = json.loads(said[BARRIERS])
    label = int(said[BARRIER]) if BARRIER in said else None
    writers = {name: (each["frontier"], each["last"]) for name, each in body["writers"].items()}
    return label, body["frontier"], body["highest"], writers


def test_rows_get_the_barrier_of_the_clock_and_leave_it_open() -> None:
    assert after(state(a=(0, 0)), Act.WRITE, tick=30) == (30, 0, 30, {"a": (0, 30)})


def test_rows_after_a_complete_barrier_get_the_next_one() -> None:
    assert after(state(30, 30, a=(30, 30)), Act.WRITE, tick=30) == (40, 30, 40, {"a": (30, 40)})
    assert after(state(30, 30, a=(30, 30)), Act.WRITE, barrier=10) == (40, 30, 40, {"a": (30, 40)})


def test_a_whole_batch_completes_its_barrier() -> None:
    assert after(state(a=(10, 10)), Act.WRITE_ALL, tick=30) == (30, 30, 30, {"a": (30, 30)})


def test_a_whole_batch_that_comes_too_late_leaves_the_next_barrier_open() -> None:
    before = state(30, 30, a=(30, 20))
    assert after(before, Act.WRITE_ALL, tick=30) == (40, 30, 40, {"a": (30, 40)})


def test_a_barrier_without_rows_is_that_of_the_clock() -> None:
    before = state(10, 20, a=(10, 20))
    assert after(before, Act.COMPLETE, tick=10) is None
    assert after(before, Act.COMPLETE, tick=20) == (20, 20, 20, {"a": (20, 20)})
    assert after(before, Act.COMPLETE, tick=50) == (50, 50, 20, {"a": (50, 20)})
    assert after(before, Act.COMPLETE, barrier=20) == (20, 20, 20, {"a": (20, 20)})
    assert after(before, Act.COMPLETE, barrier=10) is None


def test_a_table_is_complete_up_to_its_last_writer() -> None:
    before = state(10, 20, a=(10, 20), b=(20, 20))
    assert after(before, Act.COMPLETE, tick=40) == (40, 20, 20, {"a": (40, 20), "b": (20, 20)})


def test_who_joins_opens_no_complete_barrier() -> None:
    before = state(50, 50, b=(60, 50))
    assert after(before, Act.JOIN) == (None, 50, 50, {"a": (50, 0), "b": (60, 50)})
    assert after(before, Act.WRITE, barrier=30) == (60, 50, 60, {"a": (50, 60), "b": (60, 50)})


def test_nobody_waits_for_who_left() -> None:
    before = state(20, 60, a=(20, 20), b=(60, 60))
    assert after(before, Act.LEAVE) == (None, 60, 60, {"b": (60, 60)})
    assert after(state(20, 60, b=(60, 60)), Act.LEAVE) is None
    assert after(state(20, 20, a=(20, 20)), Act.LEAVE) == (None, 20, 20, {})


def test_who_comes_back_goes_on_with_its_labels_unless_its_clock_was_ahead() -> None:
    day = 86_400_000
    before = replace(state(20, day, b=(20, 20)), left={"a": day})
    for tick, last in ((0, day), (30, 0), (day - 60_030, 0), (day - 60_020, day), (day, day)):
        assert after(before, Act.JOIN, tick=tick) == (
            None,
            20,
            day,
            {"a": (20, last), "b": (20, 20)},
        )
    assert after(before, Act.WRITE, tick=30, barrier=40) == (
        day,
        20,
        day,
        {"a": (20, day), "b": (20, 20)},
    )


def test_another_process_of_a_name_is_refused_and_takes_it_by_joining() -> None:
    before = BarrierState(10, 20, 20, {"a": Member(20, 20, "another run")})
    for step in (Act.WRITE, Act.WRITE_ALL, Act.COMPLETE, Act.LEAVE):
        with pytest.raises(ConflictError, match="another process"):
            after(before, step, tick=30)
    assert after(before, Act.JOIN) == (None, 20, 20, {"a": (20, 20)})


def test_who_has_joined_need_not_join_again() -> None:
    assert after(state(20, 20, a=(20, 20)), Act.JOIN) is None


@pytest.mark.parametrize("barrier", [-10, 0, 5, 15])
def test_what_is_no_barrier_is_refused(barrier: int) -> None:
    for step in Act:
        with pytest.raises(InvalidError, match="multiple of the table's interval of 10 ms"):
            after(state(a=(0, 0)), step, barrier=barrier)


def test_a_table_waits_for_so_many_writers() -> None:
    members = {f"w{i}": Member(0, 0, RUN) for i in range(MAX_WRITERS)}
    before = BarrierState(10, 0, 0, members)
    with pytest.raises(InvalidError, match="at most"):
        after(before, Act.JOIN)
