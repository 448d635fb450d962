"""Samples of random histories, and of followers that are killed at any step: what a loop over commits gives."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.faults.forked import in_a_child
from tests.widetable.derive.samples.sample_model import (
    COLUMNS,
    TIMES,
    Commit,
    Samples,
    made,
    moment,
    random_commits,
)
from tests.widetable.derive.samples.test_samples import CASE_10, given, keeps, table_of, told
from tests.widetable.derive.versions.test_history import KillingAt
from widetable.operations.handle.open_table import OpenTable
from widetable.storage.local import LocalFileIO


@pytest.mark.parametrize("number", range(6))
def test_random_histories_give_what_a_loop_over_commits_gives(
    tmp_path: Path, rng: random.Random, number: int
) -> None:
    late = rng.choice(["drop", "correct"])
    rule: dict[str, Any] = {
        **CASE_10,
        "wait": "15 min",
        "eager": rng.choice([[], ["clicked_at"], ["clicked_at", "price"]]),
        "defaults": rng.choice([{}, {"label": 0}, {"label": 0, "price": -1.0}]),
        "late": late,
    }
    model = Samples(15, rule["eager"], rule["defaults"], late)
    if number % 3 == 1:
        rule["labels"] = {"soon": wt.label("clicked_at", within="20 min", value="price")}
        model.within = 20
    if number % 3 == 2:
        rule |= {"negatives": 0.5, "seed": number}
        model.kept = frozenset(key for key in range(8) if keeps(key, number, 0.5))
    table = made(tmp_path, **{"changelog-producer": rng.choice(["none", "lookup"])})
    rows = given(table, **rule)
    expected: list[Any] = []
    for commit in random_commits(rng, 25, 8):
        commit.make(table)
        expected += model.after(commit)
        if rng.random() < 0.1:
            table.compact(full=rng.random() < 0.5)
        if rng.random() < 0.2:
            rows += given(table, **rule)
    rows += given(table, **rule)
    names = [*COLUMNS, *(["soon"] if model.within else [])]
    actual = [
        (
            row["_row_kind"],
            *(minute(row[name]) if name in TIMES else row[name] for name in names),
            row["_correction"],
        )
        for row in rows
    ]
    wanted = [
        (kind, *(sample[name] for name in names), is_correction)
        for kind, _, sample, is_correction in expected
    ]
    assert Counter(actual) == Counter(wanted)
    kept = table_of(table).scan().to_arrow().to_pylist()
    assert {row["id"]: row["label"] for row in kept} == {
        key: sample["label"] for key, sample in model.given.items()
    }


def minute(value: Any) -> Any:
    return value and int((value - moment(0)).total_seconds() // 60)


class PausedAt(LocalFileIO):
    """Pauses where a file whose path contains `name` is published first, until its lease is over and `others` ran."""

    def __init__(self, name: str, others: Callable[[], object]) -> None:
        super().__init__(fsync=False)
        self._name, self._others = name, others
        self.is_over = False

    def publish(self, path: str, data: bytes) -> bool:
        if self._name in path and not self.is_over:
            self.is_over = True
            (lease,) = Path(path.split("/db.db/")[0]).rglob("widetable-samples-lease-*")
            lease.unlink()
            self._others()
        return super().publish(path, data)


@pytest.mark.parametrize("place", ["t_samples/snapshot/", "t_samples_waiting/snapshot/"])
def test_a_process_that_was_overtaken_while_it_paused_gives_what_the_other_gave(
    tmp_path: Path, place: str
) -> None:
    """To one who makes the second step again it seems to change what the third one gave."""
    table = made(tmp_path)
    rule: dict[str, Any] = {**CASE_10, "late": "correct", "columns": ["label"]}
    assert given(table, **rule) == []
    row = {"id": 1, "exposed_at": 0, "clicked_at": 0}
    for number, (name, value) in enumerate((("label", 1), ("price", 2), ("label", 2))):
        Commit("e", number, [{**row, name: value}]).make(table)
    pausing = PausedAt(place, lambda: given(table, "other", **rule))
    paused = OpenTable(table.path, pausing)
    with wt.Table.follow_samples(paused, "c", timeout=0, **rule) as follower:
        rows = [row for batch in follower for row in batch.to_pylist()]
    assert pausing.is_over
    assert told(rows, "id", "label") == [("+I", 1, 1), ("+U", 1, 2)]


PLACES = (
    "consumer/consumer-samples-db.t_samples",
    "t_samples/snapshot/snapshot-",
    "t_samples_waiting/snapshot/snapshot-",
    "t_samples/schema/",
    "t_samples_waiting/schema/",
    "t_samples/consumer/consumer-c",
)


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_case_10_a_kill_at_any_step_gives_each_sample_once(
    tmp_path: Path, place: str, is_after: bool
) -> None:
    table = made(tmp_path)
    rule: dict[str, Any] = {**CASE_10, "late": "correct"}
    model = Samples(30, ["clicked_at"], {"label": 0}, "correct")
    commits = [
        Commit("e", 1, [{"id": 1, "exposed_at": 0}, {"id": 2, "exposed_at": 0}], reached=0),
        Commit("c", 1, [{"id": 1, "clicked_at": 5, "label": 1}], reached=30),
        Commit("e", 2, reached=30),
        Commit("c", 2, [{"id": 2, "clicked_at": 20, "label": 1}], reached=40),
    ]
    wanted: list[Any] = []

    def follow() -> None:
        killing = OpenTable(table.path, KillingAt(place, is_after=is_after))
        for _ in wt.Table.follow_samples(killing, "c", timeout=0, **rule):
            pass

    kills = 0
    for commit in commits:
        child = in_a_child(follow)
        kills += os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        if commit is commits[0]:
            given(table, **rule)  # samples begin here
        commit.make(table)
        wanted += model.after(commit)
    assert kills
    given(table, **rule)
    everything = table_of(table).follow("all", "from-snapshot", 1, timeout=0)
    rows = [row for batch in everything for row in batch.to_pylist()]
    assert told(rows, "id", "label", "_correction") == sorted(
        (kind, key, sample["label"], is_correction) for kind, key, sample, is_correction in wanted
    )
