"""Features by their own times, with limits of age: the cases, and random records against a loop over all of them."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.widetable.derive.versions.timed_table import Row, TimedTable, moments
from widetable.derive.versions.history_feed import feed_history

MINUTE = 60_000
# (user, item), event and commit in minutes, value: the sheet's section 7.
FEATURES = (
    ((1, 23), 0, 0, 10),
    ((12, 3), 0, 0, 99),
    ((5, 5), 10, 10, 1),
    ((5, 5), 20, 20, 2),
    ((5, 5), 20, 25, 3),
    ((5, 5), 30, 90, 4),
    ((7, 7), 100, 100, 7),
)
ENTITIES = (
    ((1, 23), 50, "a"),
    ((12, 3), 50, "b"),
    ((5, 5), 9, "c"),
    ((5, 5), 10, "d"),
    ((5, 5), 20, "e"),
    ((5, 5), 31, "f"),
    ((5, 5), 31, "f2"),
    ((5, 5), 95, "g"),
    ((7, 7), 50, "h"),
    ((8, 8), 50, "i"),
)
CASE_1 = [10, 99, None, 1, 3, 4, 4, None, None, None]
CASE_2 = [10, 99, None, 1, 2, 3, 3, None, None, None]
HISTORY = {"history.table": "db.h"}
FED = pytest.mark.parametrize("is_fed", [False, True], ids=["snapshots", "history"])


def features(folder: Path, is_fed: bool) -> wt.Table:
    """A history in which one of the keys is written after it was fed, or none."""
    columns = {"user": "BIGINT", "item": "BIGINT", "f": "INT", "event": "TIMESTAMP(3)"}
    options = {"sequence.field": "event", **(HISTORY if is_fed else {})}
    timed = TimedTable(folder, columns, ["user", "item"], options)
    for at in sorted({commit for _, _, commit, _ in FEATURES}):
        rows = [
            {"user": user, "item": item, "f": value, "event": timedelta_of(event)}
            for (user, item), event, commit, value in FEATURES
            if commit == at
        ]
        timed.write(at * MINUTE, *rows)
        if is_fed and at in (20, 25):
            feed_history(timed.table)
    if is_fed:
        timed.table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)
        assert min(snapshot.id for snapshot in timed.table.snapshots()) > 1
    return timed.table


def timedelta_of(minutes: float) -> Any:
    return pa.scalar(int(minutes * MINUTE), pa.timestamp("ms")).as_py()


def rows_of(entities: Any) -> pa.Table:
    return moments(
        [
            {"user": user, "item": item, "at": minute * MINUTE, "label": label}
            for (user, item), minute, label in entities
        ]
    )


@FED
def test_case_1_the_newest_value_by_its_own_time(tmp_path: Path, is_fed: bool) -> None:
    table = features(tmp_path, is_fed)
    given = table.point_in_time(
        rows_of(ENTITIES), "at", ["f"], basis="event", ttl=timedelta(minutes=60)
    )
    assert given["f"].to_pylist() == CASE_1
    assert given["label"].to_pylist() == [label for *_, label in ENTITIES]
    assert given.schema.metadata == {b"widetable.basis": b"event"}


@FED
def test_case_2_what_was_written_later_does_not_count_as_known(
    tmp_path: Path, is_fed: bool
) -> None:
    table = features(tmp_path, is_fed)
    rows = rows_of(ENTITIES)
    given = table.point_in_time(rows, "at", ["f"], basis="event", ttl="60 min", as_known=True)
    assert given["f"].to_pylist() == CASE_2
    assert b"widetable.final_before_micros" in given.schema.metadata


@FED
def test_case_3_the_limit_of_age_is_inclusive(tmp_path: Path, is_fed: bool) -> None:
    table = features(tmp_path, is_fed)
    rows = rows_of([((5, 5), minute, "") for minute in (80, 81, 90, 91)])
    how: dict[str, Any] = {"basis": "event", "ttl": 60 * MINUTE}
    assert table.point_in_time(rows, "at", ["f"], **how)["f"].to_pylist() == [4, 4, 4, None]
    known = table.point_in_time(rows, "at", ["f"], **how, as_known=True)
    assert known["f"].to_pylist() == [3, None, 4, None]


def test_an_age_that_no_number_holds_is_too_old(tmp_path: Path) -> None:
    timed = clicks(tmp_path)
    timed.write(10, {"id": 1, "clicked_at": -(2**63), "clicks": "A"})
    rows = moments([{"id": 1, "at": 5_000_000_000_000}])
    for unit in ("seconds", "millis", "micros", "nanos"):
        how: dict[str, Any] = {"basis": "event", "event_times": {"clicked_at": unit}}
        assert timed.table.point_in_time(rows, "at", ["clicks"], **how)["clicks"].to_pylist() == [
            "A"
        ]
        young = timed.table.point_in_time(rows, "at", ["clicks"], ttl="60 min", **how)
        assert young["clicks"].to_pylist() == [None], unit


def clicks(folder: Path, **options: str) -> TimedTable:
    columns = {"id": "BIGINT", "clicked_at": "BIGINT", "clicks": "STRING"}
    given = {"merge-engine": "partial-update", "fields.clicked_at.sequence-group": "clicks"}
    return TimedTable(folder, columns, ["id"], given | options)


@FED
@pytest.mark.parametrize(("producer", "at_4"), [("lookup", None), ("none", None), ("input", "B")])
def test_case_5_a_late_record_is_there_with_an_input_changelog(
    tmp_path: Path, producer: str, at_4: str | None, is_fed: bool
) -> None:
    timed = clicks(tmp_path, **{"changelog-producer": producer}, **(HISTORY if is_fed else {}))
    timed.write(1000, {"id": 1, "clicked_at": 5, "clicks": "A"})
    timed.write(2000, {"id": 1, "clicked_at": 3, "clicks": "B"})
    if is_fed:
        feed_history(timed.table)
    rows = moments([{"id": 1, "at": at / 1000} for at in (2, 4, 5)])
    given = timed.table.point_in_time(
        rows, "at", ["clicks"], basis="event", event_times={"clicked_at": "micros"}
    )
    assert given["clicks"].to_pylist() == [None, at_4, "A"]


def test_correction_5_a_record_overtaken_in_its_own_commit_needs_an_input_changelog(
    tmp_path: Path,
) -> None:
    for producer, expected in (("lookup", None), ("input", "A")):
        timed = clicks(tmp_path / producer, **{"changelog-producer": producer})
        both = [{"id": 1, "clicked_at": at, "clicks": value} for at, value in ((5, "A"), (8, "B"))]
        timed.write(1000, *both)
        given = timed.table.point_in_time(
            moments([{"id": 1, "at": 7}]),
            "at",
            ["clicks"],
            basis="event",
            event_times={"clicked_at": "millis"},
        )
        assert given["clicks"].to_pylist() == [expected]


@FED
@pytest.mark.parametrize(
    "options",
    [
        {"sequence.field": "g,m"},
        {"sequence.field": "m,g"},
        {"sequence.field": "g,m", "sequence.field.sort-order": "descending"},
        {"merge-engine": "partial-update", "fields.g,m.sequence-group": "v"},
    ],
    ids=["first", "second", "descending", "group"],
)
def test_of_equal_times_the_other_columns_of_the_order_decide(
    tmp_path: Path, options: dict[str, str], is_fed: bool
) -> None:
    """As the table itself decides: it shows one of the records of the time."""
    columns = {"id": "BIGINT", "g": "BIGINT", "m": "STRING", "v": "STRING"}
    given = {**options, "changelog-producer": "input", **(HISTORY if is_fed else {})}
    timed = TimedTable(tmp_path, columns, ["id"], given)
    for number, order in enumerate(("b", "ab", "ba", "bab", "ca"), 1):
        for place, minor in enumerate(order):
            record = {"id": number, "g": 5, "m": minor, "v": f"{minor}{place}"}
            timed.write(1000 + place, record)
    if is_fed:
        feed_history(timed.table)
    shown = {row["id"]: row["v"] for row in timed.table.scan().to_arrow().to_pylist()}
    rows = moments([{"id": key, "at": at} for key in shown for at in (4, 5, 2000)])
    answers = timed.table.point_in_time(
        rows, "at", ["v"], basis="event", event_times={"g": "millis"}
    )
    assert answers["v"].to_pylist() == [each for v in shown.values() for each in (None, v, v)]


@FED
@pytest.mark.parametrize(
    "options",
    [
        {"fields.g.sequence-group": "v", "fields.v.aggregate-function": "sum"},
        {"fields.g.sequence-group": "v", "fields.v.aggregate-function": "last_non_null_value"},
        {},
    ],
    ids=["sum", "last non-null value", "no group"],
)
def test_a_record_does_not_count_for_a_column_that_it_does_not_replace(
    tmp_path: Path, options: dict[str, str], is_fed: bool
) -> None:
    """A late record has a part of the sum, or no value: neither was ever the value of the column."""
    columns = {"id": "BIGINT", "g": "BIGINT", "v": "INT"}
    given = {"merge-engine": "partial-update", "changelog-producer": "input", **options}
    timed = TimedTable(tmp_path, columns, ["id"], given | (HISTORY if is_fed else {}))
    shown = []
    commits: list[list[tuple[int, int | None]]] = [
        [(5, 3)],
        [(10, 4)],
        [(7, 1)],
        [(8, None), (9, 2)],
    ]
    for second, records in enumerate(commits, 1):
        timed.write(second * 1000, *({"id": 1, "g": at, "v": v} for at, v in records))
        shown += timed.table.scan(["g", "v"]).to_arrow().to_pylist()
    if is_fed:
        feed_history(timed.table)
    rows = moments([{"id": 1, "at": at} for at in range(4, 12)])
    answers = timed.table.point_in_time(
        rows, "at", ["v"], basis="event", event_times={"g": "millis"}
    )
    dated = [
        max((each["g"], n) for n, each in enumerate(shown) if each["g"] <= at)
        for at in range(5, 12)
    ]
    assert answers["v"].to_pylist() == [None, *(shown[place]["v"] for _, place in dated)]


@FED
def test_case_6_groups_have_times_of_their_own(tmp_path: Path, is_fed: bool) -> None:
    columns = {
        "id": "BIGINT",
        "clicked_at": "TIMESTAMP(3)",
        "clicks": "INT",
        "moved_at": "INT",
        "city": "STRING",
    }
    options = {
        "merge-engine": "partial-update",
        "fields.clicked_at.sequence-group": "clicks",
        "fields.moved_at.sequence-group": "city",
    }
    timed = TimedTable(tmp_path, columns, ["id"], options | (HISTORY if is_fed else {}))
    timed.write(1000, {"id": 1, "clicked_at": timedelta_of(10), "clicks": 3})
    timed.write(2000, {"id": 1, "moved_at": 20 * 60, "city": "Oslo"})
    if is_fed:
        feed_history(timed.table)
    rows = moments([{"id": 1, "at": minute * MINUTE} for minute in (9, 10, 15, 20)])
    given = timed.table.point_in_time(
        rows,
        "at",
        ["city", "clicks"],
        basis="event",
        event_times={"clicked_at": None, "moved_at": "seconds"},
    )
    assert given["clicks"].to_pylist() == [None, 3, 3, 3]
    assert given["city"].to_pylist() == [None, None, None, "Oslo"]


def test_correction_7_a_delete_ends_a_feature_where_its_record_has_a_time(tmp_path: Path) -> None:
    for producer, at_6 in (("none", "A"), ("input", None)):
        columns = {"id": "BIGINT", "g": "BIGINT", "v": "STRING"}
        options = {"sequence.field": "g", "changelog-producer": producer}
        timed = TimedTable(tmp_path / producer, columns, ["id"], options)
        timed.write(1000, {"id": 1, "g": 5, "v": "A"})
        timed.write(2000, {"id": 1, "g": 6, "v": "A", "_row_kind": "-D"})
        rows = moments([{"id": 1, "at": at} for at in (4, 5, 6)])
        given = timed.table.point_in_time(
            rows, "at", ["v"], basis="event", event_times={"g": "millis"}
        )
        assert given["v"].to_pylist() == [None, "A", at_6]


@FED
def test_correction_9_the_age_of_what_was_known_counts_from_its_last_change(
    tmp_path: Path, is_fed: bool
) -> None:
    options = HISTORY if is_fed else {}
    timed = TimedTable(tmp_path, {"id": "BIGINT", "v": "INT"}, ["id"], options)
    timed.write(1000, {"id": 1, "v": 1})
    timed.write(2000, {"id": 1, "v": 1}, {"id": 2, "v": 2})  # key 1 does not change
    if is_fed:
        feed_history(timed.table)
    timed.write(5000, {"id": 1, "v": 3})
    rows = moments([{"id": 1, "at": at} for at in (1000, 2000, 2001, 5000, 6000, 6001)])
    given = timed.table.point_in_time(rows, "at", ttl=1000)
    assert given["v"].to_pylist() == [1, 1, None, 3, 3, None]
    none = timed.table.point_in_time(rows, "at", ttl=0)
    assert none["v"].to_pylist() == [1, None, None, 3, None, None]


def test_a_clock_falls_after_the_newest_version_of_a_history(tmp_path: Path) -> None:
    """Versions of the history and of the snapshots after it are written again together."""
    timed = TimedTable(tmp_path, {"id": "BIGINT", "v": "INT"}, ["id"], HISTORY)
    timed.write(1000, {"id": 1, "v": 1})
    timed.write(9000, {"id": 1, "v": 2})
    feed_history(timed.table)
    timed.write(9500, {"id": 2, "v": 3})
    timed.write(4000, {"id": 3, "v": 4})
    rows = moments([{"id": id, "at": at} for id in (1, 2, 3) for at in (1000, 3999, 4000)])
    given = timed.table.point_in_time(rows, "at", ["v"], ttl="1 h")
    assert given["v"].to_pylist() == [1, 1, 2, None, None, 3, None, None, 4]


def test_what_may_have_expired_is_refused(tmp_path: Path) -> None:
    timed = clicks(tmp_path)
    for commit, clicked_at, value in ((1000, 5, "A"), (2000, 9, "B"), (3000, 12, "C")):
        timed.write(commit, {"id": 1, "clicked_at": clicked_at, "clicks": value})
    timed.table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)

    def asked(at: int, **how: Any) -> Any:
        rows = moments([{"id": 1, "at": at}])
        return timed.table.point_in_time(rows, "at", ["clicks"], **how)["clicks"].to_pylist()

    by_event: dict[str, Any] = {"basis": "event", "event_times": {"clicked_at": "millis"}}
    assert asked(12, **by_event) == ["C"]
    with pytest.raises(wt.NotFoundError, match="row 0"):
        asked(11, **by_event)
    with pytest.raises(wt.NotFoundError, match="row 0"):  # it may have been there for longer
        asked(3000, ttl=600)
    assert asked(3601, ttl=600) == [None]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"basis": "now"}, "basis"),
    ({"ttl": -1}, "ttl"),
    ({"ttl": timedelta(seconds=-1)}, "ttl"),
    ({"ttl": "soon"}, "ttl"),
    ({"as_known": True}, "as_known"),
    ({"event_times": {"clicked_at": "micros"}}, "event_times"),
    ({"basis": "event"}, "event_times"),
    ({"basis": "event", "event_times": ["clicked_at"]}, "clicked_at"),
    ({"basis": "event", "event_times": {"clicked_at": "hours"}}, "clicked_at"),
    ({"basis": "event", "event_times": {"clicks": "micros"}}, "event_times"),
]


@pytest.mark.parametrize(("how", "named"), REFUSED)
def test_arguments_that_do_not_fit_are_refused(
    tmp_path: Path, how: dict[str, Any], named: str
) -> None:
    table = clicks(tmp_path).table
    with pytest.raises(wt.InvalidError, match=named):
        table.point_in_time(moments([{"id": 1, "at": 5}]), "at", ["clicks"], **how)


def expected(
    log: list[tuple[int, Row]], entity: Row, limit: int | None, *, as_known: bool
) -> int | None:
    """The loop over all records. log: (commit, record) in the order of commits."""
    best: tuple[int, int] | None = None
    value = None
    for place, (commit, record) in enumerate(log):
        if record["id"] != entity["id"] or record["g"] > entity["at"]:
            continue
        if limit is not None and record["g"] < entity["at"] - limit:
            continue
        if as_known and commit > entity["at"]:
            continue
        if best is None or (record["g"], place) > best:
            best, value = (record["g"], place), record["v"]
    return value


@pytest.mark.parametrize("is_input", [False, True])
def test_random_records_are_found_by_their_times(
    rng: random.Random, tmp_path: Path, is_input: bool
) -> None:
    """With an input changelog all records count; without one those that won: here each is newer than all before."""
    for number in range(4):
        columns = {"id": "BIGINT", "g": "BIGINT", "v": "INT"}
        options = {"sequence.field": "g", **(HISTORY if rng.random() < 0.7 else {})}
        options["changelog-producer"] = "input" if is_input else rng.choice(("none", "lookup"))
        timed = TimedTable(tmp_path / str(number), columns, ["id"], options)
        log: list[tuple[int, Row]] = []
        millis = 100
        newest = [0] * 5
        for _ in range(rng.randrange(3, 10)):
            millis += rng.choice((1, 5))
            rows = []
            for key in rng.sample(range(5), rng.randrange(1, 4)):
                newest[key] = (
                    newest[key] + rng.choice((1, 20)) if not is_input else rng.randrange(150)
                )
                rows.append({"id": key, "g": newest[key], "v": rng.randrange(100)})
            if is_input and rng.random() < 0.5:
                rows.append({"id": rows[0]["id"], "g": rows[0]["g"] + 1, "v": rng.randrange(100)})
            timed.write(millis, *rows)
            log += [(millis, row) for row in rows]
            if "history.table" in options and rng.random() < 0.4:
                feed_history(timed.table)
        asked = [{"id": rng.randrange(6), "at": rng.randrange(160)} for _ in range(40)]
        limit = rng.choice((None, 0, 10, 60))
        as_known = rng.random() < 0.5
        given = timed.table.point_in_time(
            moments(asked),
            "at",
            ["v"],
            basis="event",
            ttl=limit,
            event_times={"g": "millis"},
            as_known=as_known,
        )
        assert given["v"].to_pylist() == [
            expected(log, entity, limit, as_known=as_known) for entity in asked
        ]
