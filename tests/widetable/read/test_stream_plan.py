"""Where a stream starts, how far a batch goes, and that offsets cut a stream into pieces without loss or repetition."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.widetable.commit.transaction.fake_table import data_file
from widetable.errors import InvalidError
from widetable.format.bucket_id import BucketId
from widetable.format.data_file_meta import DataFileMeta
from widetable.read.change_plan import ChangeSplit
from widetable.read.stream_plan import (
    Advance,
    Kept,
    Limits,
    Offset,
    Step,
    advance,
    after,
    check_offset,
    first_offset,
    offset_from_json,
    pieces_between,
    start_of,
)

NO_LIMIT = Limits()


def split(snapshot_id: int, files: Sequence[DataFileMeta]) -> ChangeSplit:
    return ChangeSplit(snapshot_id, BucketId(b"", 0), tuple(files))


class Snapshots:
    """A table of steps. splits[i]: of snapshot i + 1, each as (files, rows per file); full: of its rows."""

    def __init__(
        self,
        splits: Sequence[Sequence[tuple[int, int]]],
        full: Sequence[tuple[int, int]] = (),
        watermarks: Sequence[int | None] = (),
    ) -> None:
        self._splits = splits
        self._full = full
        self._watermarks = watermarks
        self.asked: list[int] = []

    @property
    def last(self) -> int | None:
        return len(self._splits) or None

    def step(self, snapshot_id: int, is_full: bool) -> Step:
        self.asked.append(snapshot_id)
        shape = self._full if is_full else self._splits[snapshot_id - 1]
        splits = [split(snapshot_id, [data_file(rows=rows)] * files) for files, rows in shape]
        watermark = self._watermarks[snapshot_id - 1] if self._watermarks else None
        return Step(snapshot_id, is_full, splits, watermark)


ONE = (1, 10)


@pytest.mark.parametrize(
    ("mode", "snapshot_id", "timestamp", "kept", "at_time", "expected"),
    [
        ("default", None, None, Kept(3, 7), None, Offset(7, is_full=True)),
        ("latest-full", None, None, Kept(3, 7), None, Offset(7, is_full=True)),
        ("latest-full", None, None, Kept(None, None), None, Offset(1)),
        ("latest", None, None, Kept(3, 7), None, Offset(8)),
        ("latest", None, None, Kept(None, None), None, Offset(1)),
        ("from-snapshot", 5, None, Kept(3, 7), None, Offset(5)),
        ("from-snapshot", 12, None, Kept(3, 7), None, Offset(12, awaited=True)),
        ("from-snapshot", 8, None, Kept(3, 7), None, Offset(8)),
        ("from-snapshot", 2, None, Kept(None, None), None, Offset(2, awaited=True)),
        ("from-snapshot-full", 9, None, Kept(3, 7), None, Offset(9, is_full=True, awaited=True)),
        ("default", 5, None, Kept(3, 7), None, Offset(5)),
        ("from-snapshot-full", 5, None, Kept(3, 7), None, Offset(5, is_full=True)),
        ("from-snapshot-full", 1, None, Kept(None, None), None, Offset(1, is_full=True)),
        ("from-timestamp", None, 99, Kept(3, 7), 4, Offset(4)),
        ("from-timestamp", None, 99, Kept(3, 7), None, Offset(8)),
        ("from-timestamp", None, 99, Kept(None, None), None, Offset(1)),
        ("default", None, 99, Kept(3, 7), 4, Offset(4)),
    ],
)
def test_a_mode_says_where_a_new_stream_starts(
    mode: str,
    snapshot_id: int | None,
    timestamp: int | None,
    kept: Kept,
    at_time: int | None,
    expected: Offset,
) -> None:
    start = start_of(mode, snapshot_id, timestamp)
    assert first_offset(start, kept, None, at_time) == expected
    assert first_offset(start, kept, 6, at_time) == Offset(6)


@pytest.mark.parametrize(
    ("mode", "snapshot_id", "timestamp", "message"),
    [
        ("newest", None, None, "found 'newest'; expected one of default, latest-full"),
        ("from-snapshot", None, None, "found no snapshot id; expected a snapshot id"),
        ("from-snapshot-full", None, 5, "found no snapshot id"),
        ("from-timestamp", None, None, "found no timestamp; expected a timestamp"),
        ("latest", 3, None, "found the snapshot id 3; expected no snapshot id"),
        ("latest-full", None, 3, "found the timestamp 3; expected no timestamp"),
        ("default", 3, 3, "found the timestamp 3"),
        ("from-snapshot", 0, None, "found 0 of type int; expected a whole number from 1"),
    ],
)
def test_a_mode_without_what_it_needs_is_refused(
    mode: str, snapshot_id: int | None, timestamp: int | None, message: str
) -> None:
    with pytest.raises(InvalidError, match=message):
        start_of(mode, snapshot_id, timestamp)


@pytest.mark.parametrize(
    "offset",
    [
        Offset(1),
        Offset(9, is_full=True, position=3),
        Offset(7, watermark=-5, barrier=2**40),
        Offset(7, watermark=-5, barrier=2**40, table="t"),
        Offset(9, is_full=True, table="t", awaited=True),
        Offset(9, position=3, table="t", last_read="m", partly_read="n"),
    ],
)
def test_an_offset_comes_back_from_a_checkpoint(offset: Offset) -> None:
    text = json.dumps(offset.to_json())
    assert offset_from_json(json.loads(text)) == offset
    assert json.dumps(offset_from_json(json.loads(text)).to_json()) == text


def test_the_offset_of_another_version_is_refused() -> None:
    body = Offset(3).to_json()
    newer = Offset(3, table="t").to_json()
    for wrong in (
        {**body, "version": 4},
        {**newer, "last_read": "m"},
        {**body, "shard": 1},
        {**newer, "shard": 1},
        {**newer, "version": 1},
        {**body, "next_snapshot": "3"},
        {**body, "position": -1},
        {"version": 1},
        {},
    ):
        with pytest.raises(InvalidError, match="stream offset"):
            offset_from_json(wrong)


_ANYTHING: tuple[Any, ...] = (None, "no", "7", 1.5, [], {}, -1, 0, 1, True, 2**63, "\ud800")


@pytest.mark.parametrize("name", ["version", *Offset.__annotations__])
def test_what_no_offset_has_in_a_field_is_refused(name: str) -> None:
    offset = Offset(7, is_full=True, position=2, watermark=9, barrier=20, table="t", awaited=True)
    body = offset.to_json()
    wrong: list[str] = []
    for value in _ANYTHING:
        changed = {**body, name: value}
        try:
            found = offset_from_json(changed)
        except InvalidError as refused:
            wrong.append(refused.subject)
        else:
            kinds = {type(each) for each in (value, body[name], getattr(found, name))}
            assert len(kinds) == 1, (name, value)
    assert len(wrong) >= 7
    assert all("stream offset" in subject for subject in wrong)
    with pytest.raises(InvalidError, match="stream offset"):
        offset_from_json([body])  # type: ignore[arg-type]


def test_an_offset_of_the_first_version_is_read() -> None:
    text = '{"version": 1, "next_snapshot": 7, "is_full": false, "position": 2, "watermark": 9}'
    assert offset_from_json(json.loads(text)) == Offset(7, position=2, watermark=9)


@pytest.mark.parametrize(
    ("offset", "newest", "found"),
    [
        (Offset(8, table="t"), 7, None),
        (Offset(8), 7, None),
        (Offset(1), None, None),
        (Offset(3, is_full=True, position=4, table="t"), 7, None),
        (Offset(99, table="t", awaited=True), 7, None),
        (Offset(9, table="t"), 7, "an offset past the newest snapshot, 7"),
        (Offset(9), 7, "an offset past the newest snapshot, 7"),
        (Offset(2), None, "an offset in a table without snapshots"),
        (Offset(3, table="other"), 7, "an offset of the table other"),
        (Offset(99, table="other", awaited=True), 7, "an offset of the table other"),
    ],
)
def test_an_offset_is_of_this_table_and_not_past_it(
    offset: Offset, newest: int | None, found: str | None
) -> None:
    if found is None:
        check_offset(offset, "t", newest, "/wh/t")
        return
    with pytest.raises(InvalidError, match=f"of /wh/t: found {found}.*Start again|start again"):
        check_offset(offset, "t", newest, "/wh/t")


def test_a_stream_that_goes_on_is_not_awaited_and_stays_with_its_table() -> None:
    offset = after(Step(12, True, []), Offset(12, is_full=True, table="t", awaited=True))
    assert offset == Offset(13, table="t")


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (NO_LIMIT, [(Offset(6), 6)]),
        (Limits(snapshots=1), [(Offset(3), 1), (Offset(4), 3), (Offset(5), 1), (Offset(6), 1)]),
        (Limits(snapshots=2), [(Offset(4), 4), (Offset(6), 2)]),
        (Limits(rows=30), [(Offset(3, position=2), 3), (Offset(6), 3)]),
        (
            Limits(rows=5),
            [
                (Offset(3), 1),
                (Offset(3, position=1), 1),
                (Offset(3, position=2), 1),
                (Offset(4), 1),
                (Offset(5), 1),
                (Offset(6), 1),
            ],
        ),
        (Limits(bytes=2000), [(Offset(3, position=1), 2), (Offset(4), 2), (Offset(6), 2)]),
        (Limits(files=5), [(Offset(5), 5), (Offset(6), 1)]),
        (Limits(files=2, snapshots=1), [(Offset(3), 1), (Offset(3, position=2), 2)]),
    ],
)
def test_limits_cut_between_splits(limits: Limits, expected: list[tuple[Offset, int]]) -> None:
    # Snapshot 2 has no splits, snapshot 3 three.
    table = Snapshots([[ONE], [], [ONE, ONE, ONE], [ONE], [ONE]])
    offset = Offset(1)
    found: list[Advance] = []
    while offset.next_snapshot <= 5 and len(found) < len(expected):
        found.append(advance(offset, table.step, table.last, limits))
        offset = found[-1].offset
    assert [tuple(one) for one in found] == expected


def test_the_first_split_is_taken_whatever_its_size() -> None:
    table = Snapshots([[(3, 1000), (3, 1000)]])
    assert advance(Offset(1), table.step, 1, Limits(rows=1, bytes=1, files=1)) == (
        Offset(1, position=1),
        1,
    )


def test_the_rows_of_a_snapshot_come_before_the_changes_after_it() -> None:
    table = Snapshots([[ONE], [ONE, ONE], [ONE]], full=[ONE, ONE])
    start = Offset(2, is_full=True)
    assert advance(start, table.step, 3, Limits(rows=10)) == (replace(start, position=1), 1)
    assert advance(start, table.step, 3, NO_LIMIT) == (Offset(4), 3)
    steps = [
        (piece.step.snapshot_id, piece.step.is_full)
        for piece in pieces_between(start, Offset(4), table.step)
    ]
    assert steps == [(2, True), (3, False)]


def test_nothing_is_there_yet() -> None:
    table = Snapshots([[ONE]])
    for offset in (Offset(1), Offset(7), Offset(7, is_full=True)):
        assert advance(offset, table.step, None, NO_LIMIT) == (offset, 0)
    assert advance(Offset(2), table.step, 1, NO_LIMIT) == (Offset(2), 0)
    assert table.asked == []


def test_no_more_is_looked_up_than_a_batch_takes() -> None:
    table = Snapshots([[ONE]] * 100)
    advance(Offset(1), table.step, 100, Limits(snapshots=2))
    assert max(table.asked) == 3


def test_the_watermark_is_that_of_what_is_wholly_read() -> None:
    table = Snapshots([[ONE], [ONE, ONE], [ONE]], watermarks=[100, 200, None])
    first = advance(Offset(1), table.step, 3, Limits(rows=20)).offset
    assert first == Offset(2, position=1, watermark=100)
    assert advance(first, table.step, 3, NO_LIMIT).offset == Offset(4, watermark=200)


def test_a_barrier_is_carried_on() -> None:
    offset = after(Step(3, False, [], barrier=17), Offset(3))
    assert after(Step(4, False, []), offset) == Offset(5, barrier=17)


def test_any_limits_give_every_split_once_and_in_order(rng: random.Random) -> None:
    for _ in range(50):
        table = Snapshots(
            [
                [
                    (rng.randint(1, 3), rng.randint(0, 20))
                    for _ in range(rng.choice([0, 0, 1, 2, 5]))
                ]
                for _ in range(rng.randint(1, 8))
            ],
            full=[ONE] * rng.randint(0, 4),
        )
        assert table.last is not None
        start = Offset(rng.randint(1, table.last), is_full=rng.random() < 0.5)
        whole = pieces_between(start, Offset(table.last + 1), table.step)
        expected = [
            (piece.step.snapshot_id, piece.step.is_full, index)
            for piece in whole
            for index in range(piece.first, piece.end)
        ]
        found = []
        offset = start
        while True:
            limits = Limits(
                *(rng.choice([None, rng.randint(1, ceiling)]) for ceiling in (3, 40, 4000, 5))
            )
            end = advance(offset, table.step, table.last, limits)
            batch = [
                (piece.step.snapshot_id, piece.step.is_full, index)
                for piece in pieces_between(offset, end.offset, table.step)
                for index in range(piece.first, piece.end)
            ]
            assert len(batch) == end.splits
            found += batch
            offset = offset_from_json(end.offset.to_json())
            if not batch:
                break
        assert found == expected
        assert offset.next_snapshot == table.last + 1
