"""Random histories of tables under barriers: several writers, compactions, expiry, another client, at any moment. At
each complete barrier that is kept the table has the rows that an oracle makes of the records with labels up to it, the
same at all times; sessions over two tables see one barrier of both. Some tables were under no barriers for a while.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import widetable as wt
from tests.support.models.barrier_labels import INTERVAL, Labels
from tests.support.programs.tallies import Note
from tests.support.tables.barrier_tables import (
    NAME,
    UNDER_BARRIERS,
    commit_without_barriers,
    compact_without_barriers,
    new_table,
    plain_table,
    rows_of,
    write_as_another_client,
)
from widetable.errors import ConflictError, InvalidError, NotFoundError
from widetable.lsm.bucket_plan import Scope
from widetable.operations.compaction.compaction import compact_all
from widetable.operations.handle.barrier_scan import barrier_changes, barrier_views
from widetable.operations.handle.chosen_state import state_of_view

Rows = list[tuple[int | None, ...]]
_KEYS = 6
_STEPS = 60
_MOST_STEPS_BEFORE = 12


@dataclass
class Oracle(Labels):
    """Knows the rule of labels, and nothing of the engine. records: (label, key, column, value) as they were
    committed; those of before the table was under barriers have the label 0. began: whether there was such a time.
    first: the first complete barrier, 0 until there is one.
    """

    records: list[tuple[int, int, str, int]] = field(default_factory=list)
    began: bool = False
    first: int = 0

    def _advance(self) -> None:
        super()._advance()
        self.first = self.first or self.complete

    @property
    def barriers(self) -> range:
        """That there are: of a table that was put under them later none before the first complete one."""
        return range((self.began and self.first) or INTERVAL, self.complete + INTERVAL, INTERVAL)

    def write(self, writer: str, barrier: int, values: dict[int, int], *, all: bool) -> None:
        label = self.written(writer, barrier, all=all)
        self.records += [(label, key, writer, value) for key, value in values.items()]

    def strange(self, values: dict[int, int]) -> None:
        label = self.complete + INTERVAL
        self.records += [(label, key, "c", value) for key, value in values.items()]

    def rows(self, barrier: int) -> Rows:
        """(id, a, b, c) of the records with labels up to the barrier."""
        found: dict[int, dict[str, int]] = {}
        for label, key, column, value in self.records:
            if label <= barrier:
                found.setdefault(key, {})[column] = value
        return [(key, *(found[key].get(c) for c in "abc")) for key in sorted(found)]


def folded(rows: dict[int, tuple[int | None, ...]], changes: list[dict[str, Any]]) -> Rows:
    """The rows after changes, each of which must be one of the row that is there."""
    found = dict(rows)
    for change in changes:
        kind, row = change.pop("_row_kind"), tuple(change.values())
        if kind in ("+I", "+U"):
            assert (row[0] in found) == (kind == "+U"), f"{kind} {row}"
            found[row[0]] = row
        else:
            assert found.get(row[0]) == row, f"{kind} {row}"
            if kind == "-D":
                del found[row[0]]
    return [found[key] for key in sorted(found)]


def written(changes: list[dict[str, Any]]) -> Iterator[tuple[int, str, int]]:
    """(key, column, value) of records as they were written."""
    for change in changes:
        for column in "abc":
            if change[column] is not None:
                yield change["id"], column, change[column]


class History:
    """One table, its writers `a` and `b`, each with the column of its name. began: it is under barriers only after a
    while.
    """

    def __init__(self, warehouse: Path, rng: random.Random, *, began: bool) -> None:
        self.rng = rng
        write_only, kept = rng.choice(("true", "false")), rng.choice("013")
        self.producer = rng.choice(("none", "input", "lookup", "lookup"))
        options = {"write_only": write_only, "bucket": rng.choice("123")}
        options["changelog_producer"] = self.producer
        options["widetable__barriers_kept"] = kept
        self.table = (plain_table if began else new_table)(warehouse, **options)
        self.catalog = wt.Catalog(warehouse)
        self.oracle = Oracle(began=began)
        self.start = rng.choice((0, 30, 70)) if began else 0
        self.numbers = 0
        self.changes = self.hidden = 0
        self.strangers = write_only == "true"
        self.before = self.table._state()  # as who opened it before knows it
        if began:
            self._live_without_barriers()
        self.writers = {name: self._joined(name) for name in "ab"}

    def _live_without_barriers(self) -> None:
        """Then the table is put under them."""
        things = {
            self._write_without: 6,
            self._overwrite_without: 1,
            self._compact: 2,
            self._expire: 1,
            self._another_without: int(self.strangers),
        }
        for _ in range(self.rng.randint(0, _MOST_STEPS_BEFORE)):
            [thing] = self.rng.choices(list(things), list(things.values()))
            thing()
        self.before = self.table._state()
        rows = rows_of(self.table.scan())
        assert rows == self.oracle.rows(0)
        self.oracle.began = bool(self.table.snapshots())
        self.catalog.alter_table(NAME, set_options=UNDER_BARRIERS)
        assert rows_of(self.table.scan()) == rows

    def step(self) -> str:
        """One thing that happens; its name."""
        things = {
            self._write: 8,
            self._complete: 4,
            self._leave: 1,
            self._take_over: 1,
            self._compact: 2,
            self._expire: 1,
            self._another_client: int(self.strangers),
            self._another_compaction: int(self.strangers),
            self._compaction_of_before: int(self.oracle.began),
        }
        [thing] = self.rng.choices(list(things), list(things.values()))
        thing()
        return thing.__name__

    def check(self) -> int:
        """All complete barriers that are kept; how many."""
        checked = 0
        if self.oracle.began and self.oracle.first > INTERVAL:
            with pytest.raises(
                NotFoundError, match=f"completed under barriers.*{self.oracle.first} or a later"
            ):
                self.table.scan(barrier=self.oracle.first - INTERVAL)
        for barrier in self.oracle.barriers:
            scan = self._scan(barrier)
            if scan is None:
                assert not checked, "a barrier between kept ones has expired"
                continue
            assert rows_of(scan) == self.oracle.rows(barrier), f"at barrier {barrier}"
            if scan.snapshot_id is not None:
                assert rows_of(self.table.scan(snapshot_id=scan.snapshot_id)) == rows_of(scan)
            checked += 1
        assert checked or not self.oracle.complete, "the newest complete barrier has expired"
        with pytest.raises(NotFoundError, match="complete up to"):
            self.table.scan(barrier=self.oracle.complete + INTERVAL)
        if checked:
            first = self.oracle.complete // INTERVAL - checked + 1
            for number in self.rng.sample(range(first, first + checked), min(checked, 2)):
                self._check_both_forms(number * INTERVAL)
        self._check_changes()
        return checked

    def _check_both_forms(self, barrier: int) -> None:
        """A barrier's rows by its base as a snapshot, and by its base as a cut."""
        views = barrier_views(self.table)
        forms = [views.by_cut(barrier)]
        with contextlib.suppress(NotFoundError):
            forms.append(views.by_snapshot(barrier))
        for view in forms:
            if view is not None:
                rows = rows_of(state_of_view(self.table, view).scan(None))
                assert rows == self.oracle.rows(barrier), f"at barrier {barrier}, by {view}"
                self.hidden += len(view.hidden)

    def _check_changes(self) -> None:
        """Between barriers that changes can stop at: what the oracle says happened, whatever came when."""
        found = barrier_changes(self.table)
        stops = [0] if found.has_all else []
        stops += [b for span in found.available(0) for b in range(span[0], span[1] + 1, INTERVAL)]
        complete = self.oracle.barriers
        for barrier in {*self.rng.sample(complete, min(len(complete), 2))} - {*stops}:
            with pytest.raises(NotFoundError, match=r"changes (up to|after) barrier"):
                self.table.changes(0, barrier, mode="barrier")
        if len(stops) < 2:
            return
        start, end = sorted(self.rng.sample(stops, 2))
        if not found.has_all and self.producer != "lookup":
            views = barrier_views(self.table)
            if views.state(views.ids[0]).highest > start:
                with pytest.raises(NotFoundError, match="have expired"):
                    self.table.changes(start, end, mode="barrier")
                return
        changes = self.table.changes(start, end, mode="barrier").to_pylist()
        self.changes += len(changes)
        if self.producer == "lookup":
            before = self.oracle.rows(start)
            rows = {row[0]: row for row in before if row[0] is not None}
            assert folded(rows, changes) == self.oracle.rows(end), f"from {start} to {end}"
        else:
            expected = [r[1:] for r in self.oracle.records if start < r[0] <= end]
            assert Counter(written(changes)) == Counter(expected), f"from {start} to {end}"

    def _scan(self, barrier: int) -> wt.TableScan | None:
        """None for a barrier that has expired."""
        try:
            return self.table.scan(barrier=barrier)
        except NotFoundError as error:
            if "has expired" not in str(error):
                raise
            return None

    def _joined(self, name: str) -> wt.BarrierWriter:
        self.oracle.join(name)
        return self.catalog.writer(NAME, name, [name])

    def _barrier(self, name: str) -> int:
        own = max(self.start, self.oracle.frontier.get(name, self.oracle.complete))
        return max(INTERVAL, own + self.rng.choice((-1, 0, 1, 1, 1, 2)) * INTERVAL)

    def _values(self) -> dict[int, int]:
        self.numbers += 1
        keys = self.rng.sample(range(_KEYS), self.rng.randint(1, 3))
        return {key: self.numbers * 10 + key for key in keys}

    def _write(self) -> None:
        name, all = self.rng.choice("ab"), self.rng.random() < 0.5
        barrier, values = self._barrier(name), self._values()
        rows = {"id": list(values), name: list(values.values())}
        self.numbers += 1
        for _ in range(self.rng.choice((1, 1, 2))):  # the second one commits nothing
            self.writers[name].write(rows, self.numbers, barrier=barrier, complete=all)
        self.oracle.write(name, barrier, values, all=all)

    def _complete(self) -> None:
        name = self.rng.choice("ab")
        barrier = self._barrier(name)
        self.writers[name].complete(barrier)
        self.oracle.finish(name, barrier)

    def _leave(self) -> None:
        name = self.rng.choice("ab")
        self.writers[name].leave()
        self.oracle.leave(name)

    def _take_over(self) -> None:
        name = self.rng.choice("ab")
        self.writers[name] = self._joined(name)

    def _compact(self) -> None:
        self.table.compact(full=self.rng.random() < 0.5)

    def _expire(self) -> None:
        self.table.expire_snapshots(1, self.rng.randint(1, 5))

    def _compaction_of_before(self) -> None:
        """By who opened the table when it was under no barriers, and has not looked since."""
        scope = self.rng.choice((Scope.FULL, Scope.DUE, Scope.COMMIT))
        with contextlib.suppress(ConflictError):  # it would take records of an open barrier
            compact_all(self.before, wt.Table.open(self.table.path)._committer, scope)

    def _write_without(self) -> None:
        column, values = self.rng.choice("abc"), self._values()
        self.table.write({"id": list(values), column: list(values.values())})
        self._said(column, values)

    def _overwrite_without(self) -> None:
        column, values = self.rng.choice("abc"), self._values()
        self.table.overwrite({"id": list(values), column: list(values.values())}, whole_table=True)
        self.oracle.records.clear()
        self._said(column, values)

    def _another_without(self) -> None:
        values = self._values()
        write_as_another_client(self.table, {"id": list(values), "c": list(values.values())})
        self._said("c", values)

    def _said(self, column: str, values: dict[int, int]) -> None:
        self.oracle.records += [(0, key, column, value) for key, value in values.items()]

    def _another_compaction(self) -> None:
        compact_without_barriers(self.table)

    def _another_client(self) -> None:
        values = self._values()
        commit_without_barriers(self.table, {"id": list(values), "c": list(values.values())})
        self.oracle.strange(values)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("began", [False, True], ids=["made under barriers", "later"])
def test_barriers_show_what_their_records_say(
    tmp_path: Path, rng: random.Random, number: int, began: bool, tally: Note
) -> None:
    history = History(tmp_path, rng, began=began)
    done, checked = [], 0
    for _ in range(_STEPS):
        done.append(history.step())
        if rng.random() < 0.3:
            checked += history.check()
    checked += history.check()
    report = history.table.audit()
    assert not report.findings
    assert report.checks["barriers"]
    tally(steps=len(done), barriers=checked, changes=history.changes, hidden=history.hidden)


def test_sessions_see_one_barrier_of_all_tables(tmp_path: Path, rng: random.Random) -> None:
    catalog = wt.Catalog(tmp_path)
    options = {"widetable.fsync": "false", "widetable.barrier-interval": "10 ms", "bucket": "1"}
    columns = {"id": "BIGINT", "n": "BIGINT"}
    names = ["bank.debits", "bank.credits"]
    for name in names:
        catalog.create_table(name, columns, primary_key=["id"], options=options)
    writers = [catalog.writer(name, "transfers") for name in names]
    sums = [0, 0]
    shown: list[int] = []
    mixed = 0
    for barrier in range(INTERVAL, 30 * INTERVAL, INTERVAL):
        for i in rng.sample((0, 1), 2):
            sums[i] = barrier
            writers[i].write({"id": [0], "n": [sums[i]]}, barrier=barrier, complete=True)
            catalog.table(names[i]).expire_snapshots(1, 1)
            if barrier == INTERVAL:
                continue
            with catalog.session() as session:
                found = {_sum(session, name) for name in names}
                assert found == {session.barrier}
                shown.append(session.barrier or 0)
            with catalog.session(names, consistency="ReadUncommitted") as newest:
                mixed += len({_sum(newest, name) for name in names}) > 1
    assert shown == sorted(shown)
    assert mixed, "read uncommitted never mixes: this test could not fail"


def test_a_session_reads_the_same_until_it_is_closed(tmp_path: Path) -> None:
    table = new_table(tmp_path, widetable__barriers_kept="0")
    catalog = wt.Catalog(tmp_path)
    writer = catalog.writer(NAME, "a", ["a"])
    writer.write({"id": list(range(100)), "a": [1] * 100}, barrier=20, complete=True)
    session = catalog.session([NAME])
    before = rows_of(session.table(NAME).scan())
    for barrier in range(30, 330, INTERVAL):
        writer.write({"id": [barrier], "a": [2]}, barrier=barrier, complete=True)
        table.compact(full=True)
        table.expire_snapshots(1, 1)
    assert session.barrier == 20
    assert rows_of(session.table(NAME).scan()) == before
    assert before == [(id, 1, None, None) for id in range(100)]
    held = session.table(NAME)
    session.close()
    for closed in (held, session.table(NAME)):
        with pytest.raises(InvalidError, match="a closed session"):
            closed.scan()
    table.expire_snapshots(1, 1)
    with pytest.raises(NotFoundError, match="or a later one"):
        catalog.session([NAME], as_of=20)
    with catalog.session([NAME]) as newest:
        assert newest.snapshot_ids() == {NAME: newest.table(NAME).scan().snapshot_id}


def _sum(session: wt.Session, name: str) -> int:
    values = session.table(name).scan(["n"]).to_arrow()["n"].to_pylist()
    return int(sum(values))
