"""Histories: what the maintainer writes for each snapshot, and reads of a past whose snapshots have expired."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.kill.killing_file_io import kill_now
from tests.support.faults.forked import in_a_child
from tests.widetable.derive.versions.test_known_rows import (
    ASKED,
    CASE_4,
    COLUMNS,
    ENGINES,
    HOUR,
    entities,
    history,
    minutes,
)
from tests.widetable.derive.versions.timed_table import TimedTable, moments
from widetable.derive.versions.history_feed import feed_history
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.local import LocalFileIO

HISTORY = {"history.table": "db.h"}
CITIES = {"id": "BIGINT", "city": "STRING"}


def versions(timed: TimedTable, *names: str) -> list[tuple[Any, ...]]:
    rows = timed.catalog.table("db.h").scan(list(names)).to_arrow().to_pylist()
    return [tuple(row.values()) for row in rows]


def fed(base: OpenTable) -> None:
    feed_history(base)


def forget(timed: TimedTable) -> None:
    """Let all snapshots expire that nobody keeps."""
    timed.table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=1)


def cities(folder: Path, **options: str) -> TimedTable:
    timed = TimedTable(folder, CITIES, ["id"], {**HISTORY, **options})
    timed.write(minutes(0), {"id": 1, "city": "Oslo"})
    timed.write(minutes(5), {"id": 1, "city": "Rome"})
    timed.delete(minutes(7), {"id": 1})
    timed.write(minutes(9), {"id": 1, "city": "Bonn"})
    return timed


def answers(timed: TimedTable) -> Any:
    rows = moments([{"id": 1, "at": minutes(at)} for at in ASKED])
    return timed.table.point_in_time(rows, "at")["city"].to_pylist()


@pytest.mark.parametrize("producer", ["none", "lookup", "input", "full-compaction"])
def test_case_4_from_a_history(tmp_path: Path, producer: str) -> None:
    timed = cities(tmp_path, **{"changelog-producer": producer})
    assert feed_history(timed.table) is not None
    assert answers(timed) == CASE_4
    forget(timed)
    assert len(timed.table.snapshots()) < 4
    assert answers(timed) == CASE_4
    timed.write(minutes(10), {"id": 1, "city": "Later"})
    assert answers(timed) == CASE_4
    assert timed.table.maintain(once=True).derived_rows == (2 if producer == "input" else 1)
    assert answers(timed) == CASE_4
    late = moments([{"id": 1, "at": minutes(10)}])
    assert timed.table.point_in_time(late, "at")["city"].to_pylist() == ["Later"]


def test_a_version_has_the_time_and_the_snapshot_that_made_it(tmp_path: Path) -> None:
    timed = cities(tmp_path)
    timed.write(minutes(9), {"id": 1, "city": "Bonn"})  # changes nothing
    feed_history(timed.table)
    assert versions(timed, "_snapshot", "_place", "city", "_deleted") == [
        (1, 0, "Oslo", False),
        (2, 0, "Rome", False),
        (3, 0, None, True),
        (4, 0, "Bonn", False),
    ]
    times = timed.catalog.table("db.h").scan(["_from"]).to_arrow()["_from"]
    assert times.type == pa.timestamp("ms")
    expected = [timed.times[id] for id in (1, 2, 3, 4)]
    assert times.cast(pa.int64()).to_pylist() == expected


def test_correction_1_a_write_only_table_has_a_version_for_each_append(tmp_path: Path) -> None:
    options = {**HISTORY, "write-only": "true", "changelog-producer": "lookup"}
    timed = TimedTable(tmp_path, {"id": "BIGINT", "v": "INT"}, ["id"], options)
    for v in (1, 2, 3):
        timed.write(v * 1000, {"id": 1, "v": v})
    timed.table.maintain(once=True, expire=False)
    assert versions(timed, "_snapshot", "v") == [(1, 1), (2, 2), (3, 3)]


def test_correction_2_rollbacks_overwrites_and_dropped_partitions_are_versions(
    tmp_path: Path,
) -> None:
    columns = {"p": "INT", "id": "BIGINT", "v": "INT"}
    timed = TimedTable(tmp_path, columns, ["p", "id"], HISTORY, partition_by=["p"])
    timed.write(1000, {"p": 1, "id": 1, "v": 1}, {"p": 2, "id": 2, "v": 1})
    timed.write(2000, {"p": 1, "id": 1, "v": 2})
    timed.table.rollback(1)
    timed.stamp(3000)
    timed.table.overwrite([{"p": 1, "id": 7, "v": 7}])
    timed.stamp(4000)
    timed.table.drop_partitions([{"p": 2}])
    timed.stamp(5000)
    rows = moments(
        [
            {"p": p, "id": id, "at": at}
            for p, id in ((1, 1), (1, 7), (2, 2))
            for at in (999, 1000, 2000, 3000, 4000, 5000)
        ]
    )
    expected = timed.expected(rows, "at", ["v"])
    feed_history(timed.table)
    forget(timed)
    assert timed.table.point_in_time(rows, "at", ["v"]).select(["v"]).to_pylist() == expected
    assert [row["v"] for row in expected] == [
        *(None, 1, 2, 1, None, None),
        *(None, None, None, None, 7, 7),
        *(None, 1, 1, 1, 1, None),
    ]


def test_rows_whose_deletion_a_rollback_takes_back_are_versions(tmp_path: Path) -> None:
    """With deletion vectors it adds and deletes no data file."""
    options = {**HISTORY, "bucket": "1", "deletion-vectors.enabled": "true"}
    timed = TimedTable(tmp_path, CITIES, ["id"], options)
    timed.write(1000, {"id": 1, "city": "Oslo"}, {"id": 2, "city": "Rome"})
    timed.table.compact(full=True)
    timed.stamp(1000)
    full = max(timed.times)
    timed.delete(2000, {"id": 1})
    timed.table.compact()
    timed.stamp(2000)
    timed.table.rollback(full)
    timed.stamp(3000)
    rows = moments([{"id": id, "at": at} for id in (1, 2) for at in (1000, 2000, 3000)])
    expected = timed.expected(rows, "at", ["city"])
    assert [row["city"] for row in expected] == ["Oslo", None, "Oslo", *["Rome"] * 3]
    feed_history(timed.table)
    for ttl in (None, "1 d"):
        given = timed.table.point_in_time(rows, "at", ["city"], ttl=ttl)
        assert given.select(["city"]).to_pylist() == expected


def test_correction_4_all_records_of_one_commit_are_in_an_input_history(tmp_path: Path) -> None:
    columns = {"id": "BIGINT", "at": "BIGINT", "clicks": "STRING", "city": "STRING"}
    options = {
        **HISTORY,
        "changelog-producer": "input",
        "merge-engine": "partial-update",
        "fields.at.sequence-group": "clicks",
    }
    timed = TimedTable(tmp_path, columns, ["id"], options)
    timed.write(1000, {"id": 1, "city": "Oslo"})
    timed.write(2000, {"id": 1, "at": 5, "clicks": "A"}, {"id": 1, "at": 3, "clicks": "B"})
    feed_history(timed.table)
    assert versions(timed, "_snapshot", "_place", "at", "clicks", "city") == [
        (1, -1, None, None, "Oslo"),
        (1, 0, None, None, "Oslo"),
        (2, -2, 5, "A", None),
        (2, -1, 3, "B", None),
        (2, 0, 5, "A", "Oslo"),
    ]
    rows = moments([{"id": 1, "at": 2000}], "at").rename_columns(["id", "then"])
    given = timed.table.point_in_time(rows, "then", ["clicks", "city"])
    assert given.select(["clicks", "city"]).to_pylist() == [{"clicks": "A", "city": "Oslo"}]


def test_correction_8_a_history_of_a_table_with_rows_begins_with_their_image(
    tmp_path: Path,
) -> None:
    timed = TimedTable(tmp_path, CITIES, ["id"])
    timed.write(1000, {"id": 1, "city": "Oslo"}, {"id": 2, "city": "Rome"})
    timed.write(2000, {"id": 1, "city": "Bonn"})
    forget(timed)
    timed.table.alter_options({"history.table": "db.h"})
    feed_history(timed.table)
    timed.write(3000, {"id": 1, "city": "Kyiv"})
    feed_history(timed.table)
    forget(timed)
    rows = moments([{"id": id, "at": at} for id in (1, 2) for at in (2000, 3000)])
    given = timed.table.point_in_time(rows, "at")["city"].to_pylist()
    assert given == ["Bonn", "Kyiv", "Rome", "Rome"]
    with pytest.raises(wt.NotFoundError) as raised:
        timed.table.point_in_time(moments([{"id": 2, "at": 1999}]), "at")
    assert "2000 " in raised.value.expected


def test_correction_6_a_clock_that_was_ahead_hides_no_version_of_a_history(tmp_path: Path) -> None:
    timed = TimedTable(tmp_path, {"id": "BIGINT", "v": "INT"}, ["id"], HISTORY)
    for millis, key, v in (
        (1000, 1, 1),
        (24 * HOUR, 1, 2),
        (25 * HOUR, 2, 2),
        (3000, 3, 3),
        (4000, 3, 4),
    ):
        timed.write(millis, {"id": key, "v": v})
    asked = (999, 1000, 2999, 3000, 3999, 4000, 26 * HOUR)
    rows = moments([{"id": key, "at": at} for key in (1, 2, 3) for at in asked])
    expected = timed.expected(rows, "at", ["v"])
    feed_history(timed.table)
    forget(timed)
    assert timed.table.point_in_time(rows, "at", ["v"]).select(["v"]).to_pylist() == expected


def test_a_clock_that_falls_behind_a_history_leaves_the_ages_of_versions(tmp_path: Path) -> None:
    timed = TimedTable(tmp_path, {"id": "BIGINT", "v": "INT"}, ["id"], HISTORY)
    for millis, key, v in ((1000, 1, 1), (HOUR, 1, 2)):
        timed.write(millis, {"id": key, "v": v})
    feed_history(timed.table)
    for millis, key, v in ((2 * HOUR, 2, 1), (3000, 3, 3)):
        timed.write(millis, {"id": key, "v": v})
    rows = moments([{"id": key, "at": at} for key in (1, 2, 3) for at in (1000, 2999, 3000)])
    expected = timed.expected(rows, "at", ["v"])
    for _ in range(2):
        given = timed.table.point_in_time(rows, "at", ["v"], ttl="1 d")
        assert given.select(["v"]).to_pylist() == expected
        feed_history(timed.table)


@pytest.mark.parametrize("column", ["_from", "_snapshot", "_place", "_deleted"])
def test_correction_16_a_table_with_a_column_of_histories_is_refused(
    tmp_path: Path, column: str
) -> None:
    with pytest.raises(wt.InvalidError, match=column):
        TimedTable(tmp_path, {"id": "BIGINT", column: "INT"}, ["id"], HISTORY)


def test_rows_that_expire_without_a_commit_are_refused(tmp_path: Path) -> None:
    options = {
        **HISTORY,
        "record-level.expire-time": "1 h",
        "record-level.time-field": "id",
    }
    with pytest.raises(wt.InvalidError, match="expire-time"):
        TimedTable(tmp_path, CITIES, ["id"], options)


def test_nobody_else_writes_a_history(tmp_path: Path) -> None:
    timed = cities(tmp_path)
    feed_history(timed.table)
    rows = timed.catalog.table("db.h").scan().to_arrow()
    with pytest.raises(wt.InvalidError, match=r"history of db\.t"):
        timed.catalog.table("db.h").write(rows)


class KillingAt(LocalFileIO):
    """Kills its own process where a file whose path contains `name` is published: before that, or after it."""

    def __init__(self, name: str, *, is_after: bool) -> None:
        super().__init__(fsync=False)
        self._name, self._is_after = name, is_after

    def publish(self, path: str, data: bytes) -> bool:
        if self._name in path and not self._is_after:
            kill_now()
        done = super().publish(path, data)
        if self._name in path:
            kill_now()
        return done

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        if self._name in path and not self._is_after:
            kill_now()
        super().replace(path, data, durable=durable)
        if self._name in path:
            kill_now()


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("place", ["consumer/consumer-history", "h/snapshot/snapshot-"])
def test_case_9_a_kill_between_commit_and_progress_leaves_each_version_once(
    tmp_path: Path, place: str, is_after: bool
) -> None:
    timed = cities(tmp_path)
    feed_history(timed.table)
    timed.write(minutes(12), {"id": 1, "city": "Kyiv"})
    killing = KillingAt(place, is_after=is_after)
    child = in_a_child(lambda: fed(OpenTable(timed.path, killing)))
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    feed_history(timed.table)
    assert timed.table.consumers() == {"history": 5}
    assert versions(timed, "_snapshot", "city") == [
        (1, "Oslo"),
        (2, "Rome"),
        (3, None),
        (4, "Bonn"),
        (5, "Kyiv"),
    ]
    committed = [
        each.commit_identifier
        for each in timed.catalog.table("db.h").snapshots()
        if each.commit_user == "history/db.t"
    ]
    assert committed == [4, 5]


def test_a_history_that_lost_its_snapshots_is_refused(tmp_path: Path) -> None:
    timed = cities(tmp_path)
    feed_history(timed.table)
    timed.table.delete_consumer("history")
    for minute in (20, 21):
        timed.write(minutes(minute), {"id": 1, "city": "x"})
    forget(timed)
    with pytest.raises(wt.NotFoundError, match=r"history\.table"):
        feed_history(timed.table)
    with pytest.raises(wt.NotFoundError, match=r"history\.table"):
        answers(timed)


@pytest.mark.parametrize("commits", [1, 3, 6])
def test_a_base_that_another_client_rolled_back_is_refused(tmp_path: Path, commits: int) -> None:
    """Paimon's `rollback_to` deletes the newer snapshots, and later commits get their ids."""
    timed = cities(tmp_path)
    feed_history(timed.table)
    for path in Path(timed.path, "snapshot").glob("snapshot-[34]"):
        path.unlink()
    Path(timed.path, "snapshot", "LATEST").write_text("2")
    for minute in range(commits):
        timed.write(minutes(10 + minute), {"id": 1, "city": "Kyiv"})
    with pytest.raises(wt.InvalidError, match=r"rolled the table back.*history\.table"):
        answers(timed)
    with pytest.raises(wt.InvalidError, match=r"rolled the table back.*history\.table"):
        feed_history(timed.table)
    timed.table.alter_options({"history.table": "db.other"})
    feed_history(timed.table)
    assert answers(timed) == [None, "Oslo", "Oslo", "Rome", "Rome", "Rome", "Rome"]


@pytest.mark.parametrize("how", ["dropped and added", "swapped"])
def test_a_history_of_other_columns_with_the_same_names_is_refused(
    tmp_path: Path, how: str
) -> None:
    timed = TimedTable(tmp_path, {"id": "BIGINT", "a": "INT", "b": "INT"}, ["id"], HISTORY)
    timed.write(1000, {"id": 1, "a": 1, "b": 2})
    feed_history(timed.table)
    if how == "swapped":
        timed.catalog.alter_table("db.t", rename_columns={"a": "b", "b": "a"})
        timed.catalog.alter_table("db.t", move_columns={"a": "after id"})
    else:
        timed.catalog.alter_table("db.t", drop_columns=["b"])
        timed.catalog.alter_table("db.t", add_columns=[pa.field("b", pa.int32())])
    rows = moments([{"id": 1, "at": 1000}])
    with pytest.raises(wt.InvalidError, match="other columns"):
        timed.table.point_in_time(rows, "at")
    with pytest.raises(wt.InvalidError, match="other columns"):
        feed_history(timed.table)
    timed.table.alter_options({"history.table": "db.other"})
    feed_history(timed.table)
    given = timed.table.point_in_time(rows, "at", ["a", "b"])
    expected = {"a": 2, "b": 1} if how == "swapped" else {"a": 1, "b": None}
    assert given.select(["a", "b"]).to_pylist() == [expected]


def test_a_history_of_another_nested_field_is_refused(tmp_path: Path) -> None:
    columns = {"id": "BIGINT", "my v": "ROW<a INT, b INT>"}
    timed = TimedTable(tmp_path, columns, ["id"], HISTORY)
    timed.write(1000, {"id": 1, "my v": {"a": 1, "b": 2}})
    feed_history(timed.table)
    assert timed.table.point_in_time(moments([{"id": 1, "at": 1000}]), "at").num_rows == 1
    timed.catalog.alter_table("db.t", drop_columns=["`my v`.b"])
    timed.catalog.alter_table("db.t", add_columns={"`my v`.b": "INT"})
    with pytest.raises(wt.InvalidError, match="other columns"):
        feed_history(timed.table)


def test_a_rollback_of_a_history_is_refused(tmp_path: Path) -> None:
    """The history goes on from its last commit, so nobody would write the versions again."""
    timed = cities(tmp_path)
    feed_history(timed.table)
    timed.write(minutes(12), {"id": 1, "city": "Kyiv"})
    feed_history(timed.table)
    with pytest.raises(wt.InvalidError, match=r"history of db\.t.* Roll back db\.t"):
        timed.catalog.table("db.h").rollback(snapshot_id=1)
    assert answers(timed)[-1] == "Bonn"


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_random_histories_give_what_scans_gave(
    rng: random.Random, tmp_path: Path, engine: str
) -> None:
    """Fed at random moments; then all snapshots expire that the history does not need."""
    for number in range(3):
        producer = rng.choice(("none", "input", "lookup"))
        if engine == "first-row":
            producer = "lookup"
        timed = history(
            rng,
            tmp_path / str(number),
            engine,
            {**HISTORY, "changelog-producer": producer},
            lambda made: rng.random() < 0.3 and feed_history(made.table),
        )
        rows, features = entities(rng, timed, 40), rng.sample(["g", "a", "h", "b"], 3)
        expected = timed.expected(rows, "at", features)
        assert (
            timed.table.point_in_time(rows, "at", features).select(features).to_pylist() == expected
        )
        feed_history(timed.table)
        forget(timed)
        assert (
            timed.table.point_in_time(rows, "at", features).select(features).to_pylist() == expected
        )
        assert set(COLUMNS) < set(timed.catalog.table("db.h").schema.names)
