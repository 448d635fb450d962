"""A random history of a table, and what every reader must say of it after each step: what the oracle says.

Steps: commits of several users with some of the columns, replays, compactions, expiry, batches that are refused; each
by a process whose clock may be wrong, by a minute or by decades. Scans, time travel, lookups, changelog are read.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.histories.drawn_table import KEYS, DrawnTable
from tests.histories.oracle import Key, Oracle, Row
from tests.support.faults.turned_clock import MINUTE_MILLIS, YEAR_MILLIS
from tests.support.models.bit_patterns import cells
from widetable.commit.notes.clock import SystemClock

USERS = ("left", "right", "third")
JUMPS = (MINUTE_MILLIS, -MINUTE_MILLIS, YEAR_MILLIS, -YEAR_MILLIS, 40 * YEAR_MILLIS)
ROWS = 10


def as_rows(table: pa.Table, key: tuple[str, ...]) -> dict[Key, Row]:
    """Rows as cells, by the cells of their key; each key once."""
    columns = {name: cells(table[name].combine_chunks()) for name in table.column_names}
    listed = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    found = {tuple(row[name] for name in key): row for row in listed}
    assert len(found) == table.num_rows, "a key came twice"
    return found


class History:
    """counts: what was done, by name."""

    def __init__(self, rng: random.Random, drawn: DrawnTable, folder: Path) -> None:
        self._rng = rng
        self._drawn = drawn
        self._table = wt.Catalog(str(folder)).create_table(
            "db.t",
            drawn.schema,
            primary_key=list(drawn.rules.key),
            partition_by=list(drawn.partition_by),
            options=dict(drawn.options),
        )
        self._oracle = Oracle(drawn.rules)
        self._last: dict[str, tuple[int, pa.Table]] = {}
        self._remembered: dict[int, dict[Key, Row]] = {}
        self._emitted: dict[Key, Row] = {}
        self._emitted_id = 0
        self.counts: Counter[str] = Counter()

    def step(self) -> None:
        """One thing that somebody does to the table, and all that must hold then."""
        act = self._rng.choices(
            (self._write, self._replay, self._compact, self._expire, self._refused),
            (10, 1, 2, 1, 1),
        )[0]
        with pytest.MonkeyPatch.context() as patch:
            # Who expires has a right clock: what a wrong one does to the rows is the same.
            if self._rng.random() < 0.3 and act != self._expire:
                self._turn_clock(patch, self._rng.choice(JUMPS))
            act()
        self.counts["steps"] += 1
        self.check()

    def check(self) -> None:
        """Every way to read gives what the oracle gives."""
        expected = self._oracle.rows()
        key = self._drawn.rules.key
        assert as_rows(self._table.scan().to_arrow(), key) == expected
        self._check_lookup(expected)
        snapshots = self._table.snapshots()
        kept = [snapshot.id for snapshot in snapshots]
        for snapshot in snapshots:
            # What was compacted behind a commit may come after the look at that one, and before the next one.
            is_compacted = snapshot.commit_kind == "COMPACT"
            before = self._remembered.get(snapshot.id - 1, expected) if is_compacted else expected
            self._remembered.setdefault(snapshot.id, before)
        if kept:
            id = self._rng.choice(kept)
            past = as_rows(self._table.scan(snapshot_id=id).to_arrow(), key)
            assert past == self._remembered[id], f"snapshot {id} of {kept}"

    def finish(self) -> None:
        """The end of all that waits, by clocks that are right: whole, audited, expired."""
        self._compact(full=True)
        self.check()
        self._check_audit()
        self._expire(least=1)
        self._write()
        self.check()
        self._check_audit()

    def _check_audit(self) -> None:
        report = self._table.audit()
        assert report.ok, [str(finding) for finding in report.findings]

    def _check_lookup(self, expected: dict[Key, Row]) -> None:
        asked = pa.table({name: self._drawn.pools[name] for name in self._drawn.rules.key})
        found = self._table.lookup(asked)
        columns = {name: cells(found[name].combine_chunks()) for name in found.column_names}
        for row, key in enumerate(
            zip(*(cells(asked[n].combine_chunks()) for n in asked.column_names), strict=True)
        ):
            one = {name: column[row] for name, column in columns.items()}
            assert one == expected.get(key, dict.fromkeys(self._drawn.rules.types))

    # Steps

    def _write(self) -> None:
        data, records = self._draw_batch()
        user = self._rng.choice(USERS)
        identifier = self._last[user][0] + self._rng.randint(1, 3) if user in self._last else 0
        before = self._latest_id()
        result = self._table.write(data, user, identifier)
        written = self._oracle.write(records)
        assert result.committed is bool(written)
        if result.committed:
            self._last[user] = (identifier, data)
        self.counts["commits"] += 1
        self._follow(before, written)

    def _replay(self) -> None:
        if self._last:
            user = self._rng.choice(sorted(self._last))
            identifier, data = self._last[user]
            assert not self._table.write(data, user, identifier).committed
            self.counts["replays"] += 1
            self._follow(self._latest_id(), [])

    def _compact(self, *, full: bool | None = None) -> None:
        is_full = self._rng.random() < 0.5 if full is None else full
        before = self._latest_id()
        self._table.compact(full=is_full)
        self.counts["compactions"] += 1
        self._follow(before, [], is_full=is_full)

    def _expire(self, least: int = 3) -> None:
        self._follow(self._latest_id(), [])
        self._table.wait_for_compactions()
        gone = self._table.expire_snapshots(num_retained_min=least, time_retained_millis=0)
        self.counts["expired"] += len(gone.ids)

    def _refused(self) -> None:
        """Bytes that are no text, in one value: the batch is refused as a whole, by column and row."""
        data, _ = self._draw_batch()
        names = [name for name in data.column_names[:-1] if data[name].type == pa.string()]
        if not names:
            return
        name, row = self._rng.choice(names), self._rng.randrange(len(data))
        values = data[name].combine_chunks().view(pa.binary()).to_pylist()
        values[row] = self._rng.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"abc\xe2\x82"))
        at = data.column_names.index(name)
        wrong = data.set_column(at, name, pa.array(values, pa.binary()).view(pa.string()))
        before = self._latest_id()
        with pytest.raises(wt.InvalidError, match=f"(?s)column '{name}'.* row {row} "):
            self._table.write(wrong)
        assert self._latest_id() == before
        self.counts["refused"] += 1

    # What steps need

    @staticmethod
    def _turn_clock(patch: pytest.MonkeyPatch, millis: int) -> None:
        right = SystemClock.now_nanos
        patch.setattr(SystemClock, "now_nanos", lambda self: right(self) + millis * 1_000_000)

    def _draw_batch(self) -> tuple[pa.Table, list[tuple[str, Row]]]:
        rng, rules, pools = self._rng, self._drawn.rules, self._drawn.pools
        keys = pa.array([rng.randrange(KEYS) for _ in range(rng.randint(1, ROWS))])
        columns: dict[str, Any] = {name: pools[name].take(keys) for name in rules.key}
        owned = {*rules.order, *(n for g in rules.groups if rng.random() < 0.6 for n in g.columns)}
        grouped = {name for group in rules.groups for name in group.columns}
        for name in rules.types:
            if name in owned or (
                name not in grouped and name not in columns and rng.random() < 0.6
            ):
                columns[name] = pools[name].take(pa.array([rng.randrange(KEYS) for _ in keys]))
        kinds = ["+I", "+I", "+U", *(("-D", "-U") if self._drawn.has_retractions else ())]
        values = {name: cells(column) for name, column in columns.items()}
        rows = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
        drawn = [self._taken(rng.choice(kinds), row) for row in rows]
        return pa.table({**columns, "_row_kind": drawn}), list(zip(drawn, rows, strict=True))

    def _taken(self, kind: str, row: Row) -> str:
        """A -D without any sequence is refused; a -U that says as little is not."""
        names = [name for group in self._drawn.rules.groups for name in group.sequence]
        is_empty = names and all(row.get(name) is None for name in names)
        return "-U" if kind == "-D" and is_empty else kind

    def _latest_id(self) -> int:
        snapshots = self._table.snapshots()
        return snapshots[-1].id if snapshots else 0

    def _follow(
        self, before: int, written: list[tuple[str, Row]], *, is_full: bool = False
    ) -> None:
        """The changelog since it was looked at last, and what must have become of the rows by it."""
        producer, last = self._drawn.options["changelog-producer"], self._latest_id()
        if producer == "none" or last == 0:
            return
        start = before if producer == "input" else self._emitted_id
        changes = self._table.changes(start, last)
        columns = {name: cells(changes[name].combine_chunks()) for name in changes.column_names}
        emitted = [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]
        self.counts["changes"] += len(emitted)
        if producer == "input":
            given = Counter(repr({**row, "_row_kind": kind.encode()}) for kind, row in written)
            assert Counter(map(repr, emitted)) == given
            return
        for change in emitted:
            self._apply(change)
        self._emitted_id = last
        if is_full or (producer == "lookup" and self._drawn.options["write-only"] == "false"):
            assert self._emitted == self._oracle.rows()

    def _apply(self, change: Row) -> None:
        kind = change.pop("_row_kind").decode()
        key = tuple(change[name] for name in self._drawn.rules.key)
        if kind in ("-U", "-D"):
            assert self._emitted.pop(key, None) == change, kind
        else:
            assert key not in self._emitted, kind
            self._emitted[key] = change
