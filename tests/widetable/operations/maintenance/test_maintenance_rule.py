"""Which compaction is due, and what an error asks of a maintainer."""

from __future__ import annotations

import pytest

from widetable.errors import (
    ConflictError,
    DamagedError,
    InvalidError,
    NotFoundError,
    StorageError,
    UnsupportedError,
    WidetableError,
)
from widetable.operations.maintenance.maintenance_rule import (
    FULL_COMPACTION_MILLIS,
    Answer,
    Compaction,
    Failures,
    Progress,
    answer_to,
    due_compaction,
    wait_millis,
)


@pytest.mark.parametrize(
    ("progress", "interval_millis", "due"),
    [
        (Progress(None, None, None, None), None, Compaction.NONE),
        (Progress(None, None, None, None), 0, Compaction.NONE),
        (Progress(3, None, None, None), None, Compaction.PICKED),
        (Progress(3, 2, None, None), None, Compaction.PICKED),
        (Progress(3, 3, None, None), None, Compaction.NONE),
        (Progress(3, 3, None, None, has_request=True), None, Compaction.PICKED),
        (Progress(3, 3, None, None), 1000, Compaction.FULL),
        (Progress(3, 3, 2, 999), 1000, Compaction.NONE),
        (Progress(4, 3, 2, 999), 1000, Compaction.PICKED),
        (Progress(4, 3, 2, 1000), 1000, Compaction.FULL),
        (Progress(4, 4, 4, 5000), 1000, Compaction.NONE),
        (Progress(3, 3, None, None, millis_since_damage=59_999), None, Compaction.NONE),
        (Progress(3, 3, None, None, millis_since_damage=60_000), None, Compaction.PICKED),
    ],
)
def test_a_compaction_is_due_when_something_is_new(
    progress: Progress, interval_millis: int | None, due: Compaction
) -> None:
    assert due_compaction(progress, "lookup", interval_millis) is due


@pytest.mark.parametrize(
    ("since_full_millis", "due"),
    [
        (None, Compaction.FULL),
        (FULL_COMPACTION_MILLIS - 1, Compaction.PICKED),
        (FULL_COMPACTION_MILLIS, Compaction.FULL),
    ],
)
def test_full_compactions_come_by_themselves_where_the_changelog_needs_them(
    since_full_millis: float | None, due: Compaction
) -> None:
    progress = Progress(3, None, 2, since_full_millis)
    assert due_compaction(progress, "full-compaction", None) is due
    assert due_compaction(progress, "lookup", None) is Compaction.PICKED


def error(kind: type[WidetableError], subject: str = "a file") -> WidetableError:
    return kind(subject, found="x", expected="y", action="Z.")


@pytest.mark.parametrize(
    ("errors", "answer"),
    [
        ([error(ConflictError)], Answer.AGAIN),
        ([error(ConflictError)] * 9, Answer.AGAIN),
        ([error(InvalidError)], Answer.GIVE_UP),
        ([error(UnsupportedError)], Answer.GIVE_UP),
        ([error(StorageError)] * 99, Answer.LATER),
        ([OSError(28, "No space left")] * 99, Answer.LATER),
        ([error(NotFoundError)], Answer.AGAIN),
        ([error(NotFoundError)] * 2, Answer.LATER),
        ([error(ConflictError), error(NotFoundError)], Answer.AGAIN),
        ([error(NotFoundError), error(ConflictError), error(NotFoundError)], Answer.LATER),
        ([error(StorageError), error(NotFoundError)], Answer.LATER),
        ([error(DamagedError)], Answer.LATER),
        ([error(DamagedError), error(DamagedError, "other"), error(DamagedError)], Answer.LATER),
        ([error(DamagedError), error(StorageError), error(DamagedError)], Answer.LATER),
        ([error(DamagedError)] * 3, Answer.GIVE_UP),
    ],
)
def test_only_what_the_user_must_mend_ends_maintenance(
    errors: list[BaseException], answer: Answer
) -> None:
    before = Failures()
    for each in errors[:-1]:
        before = before.plus(each, answer_to(each, before, table_is_there=True))
    assert answer_to(errors[-1], before, table_is_there=True) is answer


def test_a_table_that_is_gone_ends_maintenance() -> None:
    gone = error(NotFoundError)
    assert answer_to(gone, Failures(), table_is_there=False) is Answer.GIVE_UP


def test_waits_double_up_to_a_minute() -> None:
    assert [wait_millis(1000, failures) for failures in (0, 1, 2, 5, 6, 99)] == [
        1000,
        2000,
        4000,
        32000,
        60000,
        60000,
    ]
    assert wait_millis(0, 0) == 0
    assert wait_millis(0, 1) == 200
    assert wait_millis(300_000, 4) == 300_000
