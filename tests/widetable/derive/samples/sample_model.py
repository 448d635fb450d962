"""What samples must be, by a loop over commits: plain Python, which knows nothing of the engine.

A history is a list of commits, each of a writer with rows, deletes and perhaps a watermark. Minutes stand for times.
The model has the rows of a partial-update table in a dict, the watermark of each writer, and the samples that were
given. `Samples.after` returns what one commit gives: (kind, key, values, is a correction).
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import widetable as wt

Row = dict[str, Any]
COLUMNS = {
    "id": "BIGINT",
    "exposed_at": "TIMESTAMP(3)",
    "clicked_at": "TIMESTAMP(3)",
    "label": "INT",
    "price": "DOUBLE",
}
OPTIONS = {
    "bucket": "2",
    "merge-engine": "partial-update",
    "partial-update.remove-record-on-delete": "true",
    "widetable.fsync": "false",
}
BEGIN = dt.datetime(2026, 1, 1)
TIMES = ("exposed_at", "clicked_at")


def moment(minute: int) -> dt.datetime:
    return BEGIN + dt.timedelta(minutes=minute)


def watermark(minute: int) -> int:
    return int(moment(minute).replace(tzinfo=dt.UTC).timestamp() * 1000)


def made(folder: Path, **options: str) -> wt.Table:
    """An empty table of samples to be."""
    catalog = wt.Catalog(str(folder))
    return catalog.create_table("db.t", COLUMNS, primary_key=["id"], options={**OPTIONS, **options})


@dataclass
class Commit:
    """rows: without keys that they do not write; times in minutes. reached: the writer's watermark, in minutes."""

    writer: str
    number: int
    rows: list[Row] = field(default_factory=list)
    deletes: list[int] = field(default_factory=list)
    reached: int | None = None

    def make(self, table: wt.Table) -> None:
        rows = [
            {"_row_kind": "+I"}
            | {name: moment(value) if name in TIMES else value for name, value in row.items()}
            for row in self.rows
        ]
        rows += [{"id": key, "_row_kind": "-D"} for key in self.deletes]
        mark = None if self.reached is None else watermark(self.reached)
        table.write(rows, self.writer, self.number, watermark=mark)


@dataclass
class Samples:
    """The model. within: of a label "soon" on clicked_at, which has the price; None: no label."""

    wait: int
    eager: Sequence[str] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    late: str = "drop"
    within: int | None = None
    kept: frozenset[int] | None = None
    rows: dict[int, Row] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    given: dict[int, Row] = field(default_factory=dict)
    decided: set[int] = field(default_factory=set)

    def after(self, commit: Commit) -> list[tuple[str, int, Row, bool]]:
        before = {key: dict(row) for key, row in self.rows.items()}
        for row in commit.rows:
            self.rows.setdefault(row["id"], {}).update(row)
        for key in commit.deletes:
            self.rows.pop(key, None)
        if commit.reached is not None:
            self.reached[commit.writer] = max(
                commit.reached, self.reached.get(commit.writer, commit.reached)
            )
        out = []
        for key in sorted({*before, *self.rows}):
            out += self._of_key(key, before.get(key) != self.rows.get(key))
        self.decided = {key for key in self.rows if self._is_ready(key)} - set(self.given)
        return out

    def _of_key(self, key: int, is_changed: bool) -> list[tuple[str, int, Row, bool]]:
        sample = self._sample(key)
        is_kept = sample is not None and self._is_kept(key, sample)
        if key not in self.given:
            late = key in self.decided
            if not self._is_ready(key) or not is_kept or (late and self.late == "drop"):
                return []
            self.given[key] = sample or {}
            return [("+I", key, sample or {}, late)]
        if self.late == "drop" or not is_changed or (is_kept and sample == self.given[key]):
            return []
        if not is_kept:
            return [("-D", key, self.given.pop(key), True)]
        self.given[key] = sample or {}
        return [("+U", key, sample or {}, True)]

    @property
    def slowest(self) -> int | None:
        return min(self.reached.values(), default=None)

    def _is_ready(self, key: int) -> bool:
        row = self.rows.get(key, {})
        start = row.get("exposed_at")
        if start is None:
            return False
        if self.eager and all(row.get(name) is not None for name in self.eager):
            return True
        due = start + max(self.wait, self.within or 0)
        return self.slowest is not None and due <= self.slowest

    def _sample(self, key: int) -> Row | None:
        row = self.rows.get(key)
        if row is None or row.get("exposed_at") is None:
            return None
        sample = {name: row.get(name) for name in COLUMNS}
        if self.within is not None:
            click = row.get("clicked_at")
            start = row["exposed_at"]
            is_in = click is not None and start <= click <= start + self.within
            sample["soon"] = row.get("price") if is_in else None
        for name, value in self.defaults.items():
            if sample[name] is None:
                sample[name] = value
        return sample

    def _is_kept(self, key: int, sample: Row) -> bool:
        return self.kept is None or sample["label"] != 0 or key in self.kept


def random_commits(rng: random.Random, count: int, keys: int) -> list[Commit]:
    """Commits of two writers whose watermarks do not fall; some rows come late, and some are deleted."""
    numbers = {"exposures": 0, "clicks": 0}
    reached = {"exposures": 0, "clicks": 0}
    commits = []
    for _ in range(count):
        writer = rng.choice(list(numbers))
        numbers[writer] += 1
        chosen = rng.sample(range(keys), rng.randint(0, 3))
        now = max(reached.values())
        rows: list[Row] = []
        for key in chosen:
            row: Row = {"id": key}
            if writer == "exposures":
                row["exposed_at"] = max(0, now + rng.randint(-25, 5))
            else:
                row["clicked_at"] = max(0, now + rng.randint(-25, 5))
                if rng.random() < 0.8:
                    row["label"] = rng.randint(0, 1)
                if rng.random() < 0.5:
                    row["price"] = float(rng.randint(1, 9))
            rows.append(row)
        deletes = [key for key in rng.sample(range(keys), 1) if key not in chosen]
        mark = None
        if rng.random() < 0.7 or not rows:
            reached[writer] += rng.randint(0, 12)
            mark = reached[writer]
        gone = deletes if rng.random() < 0.15 else []
        commits.append(Commit(writer, numbers[writer], rows, gone, mark))
    return commits
