"""A random history of a database and of a job that follows it, and what must hold whenever both stand still.

Steps of the source: transactions of several sessions that end in any order, changes of schemas, new tables, restarts
and crashes of the server. Steps of the job: a round, a chunk, a look at the tables, an end at any point, a new start.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest

import widetable as wt
from tests.cdc.histories.drawn_source import TYPES, DrawnTable
from tests.cdc.histories.source_session import SourceSession, columns_of
from tests.support.databases.synced_database import SyncedDatabase
from widetable_cdc.jobs.round import RoundCounts, run_round
from widetable_cdc.running.chunk_task import ChunkOutcome, ChunkTask
from widetable_cdc.running.sync_run import SyncRun

SESSIONS = 3
_INTERVALS = "-c timezone=UTC -c intervalstyle=iso_8601"
Rows = dict[tuple[Any, ...], dict[str, Any]]


class Died(Exception):
    """The job's process ends here."""


class SyncedHistory:
    """counts: what was done, by name. notes: what was done, in its order."""

    def __init__(self, rng: random.Random, database: SyncedDatabase) -> None:
        self._rng = rng
        self._database = database
        self._tables: dict[str, DrawnTable] = {}
        self.notes: list[str] = []
        self.counts: Counter[str] = Counter()
        self._job: SyncRun | None = None
        self._sessions: list[SourceSession | None] = [None] * SESSIONS
        limits = {
            "chunk-rows": rng.choice((3, 8, 500)),
            "max-changes": rng.choice((1, 20, 100_000)),
            "max-delay": "5 ms",
        }
        self._entries = {"limits": limits}
        database.execute("create type mood as enum ('glad', 'so so', 'sad')")
        for number in range(rng.randint(1, 3)):
            self._session(0).create(f"t{number}")

    def step(self) -> None:
        """One thing that happens to the source or to the job."""
        acts = {
            self._write: 8,
            self._end: 5,
            self._alter: 2,
            self._create: 0.3,
            self._round: 5,
            self._chunk: 6,
            self._look: 1,
            self._die: 1,
            self._restart_server: 0.3,
        }
        act = self._rng.choices(list(acts), list(acts.values()))[0]
        self.counts[act.__name__.strip("_")] += 1
        act()

    def rest(self) -> None:
        """Let both stand still, and compare them."""
        self._end_all(is_blocking=False)
        session = self._session(0)
        # A commit that does not wait for the log's flush is not in the log yet.
        session.connection.execute("set local synchronous_commit = on")
        for table in self._tables.values():
            session.touch(table, self.counts["rests"])
        session.connection.commit()
        session.is_open = False
        self.notes.append("rest")
        self._look()  # a job that runs looks for new tables now and then
        job = self._started()
        job.follow("caught-up", threading.Event())
        status = job.status()
        self._leave()
        self.counts["rests"] += 1
        states = {one.relation: (one.status.value, one.reason) for one in status.tables}
        wanted = {f"public.{name}": ("streaming", "") for name in self._tables}
        assert states == wanted, states
        assert status.errors == 0
        with psycopg.connect(self._database.dsn, options=_INTERVALS) as connection:
            kinds = {name: columns_of(connection, name) for name in self._tables}
            expected = {name: self._source(connection, name, kinds[name]) for name in self._tables}
        catalog = wt.Catalog(str(self._database.warehouse))
        for name in self._tables:
            target = catalog.table(f"shop.{name}")
            rows = target.scan().to_arrow().to_pylist()
            _compare(name, self._formed(name, rows, kinds[name]), expected[name])
            assert _folded(target) == {_cells(row) for row in rows}, f"fold of {name}"
            report = target.audit(start=0)
            assert report.ok, [str(finding) for finding in report.findings]
        names = [f"shop.{name}" for name in self._tables]
        with catalog.session(names) as view:
            for name in self._tables:
                rows = view.table(f"shop.{name}").scan().to_arrow().to_pylist()
                _compare(
                    f"{name} of a session", self._formed(name, rows, kinds[name]), expected[name]
                )

    def close(self) -> None:
        """End all sessions."""
        self._leave()
        for session in self._sessions:
            if session is not None:
                session.connection.close()

    # The source

    def _session(self, number: int) -> SourceSession:
        session = self._sessions[number]
        if session is None:
            session = SourceSession(
                self._rng, self._database.dsn, self._tables, self.notes, f"session {number}"
            )
            self._sessions[number] = session
        return session

    def _write(self) -> None:
        self._session(self._rng.randrange(SESSIONS)).write()

    def _end(self) -> None:
        self._session(self._rng.randrange(SESSIONS)).end()

    def _alter(self) -> None:
        """Alter a table, often when nobody has a lock on it."""
        if self._rng.random() < 0.7:
            self._end_all(is_blocking=False)
        session = self._session(self._rng.randrange(SESSIONS))
        if self._rng.random() < 0.3:
            session.write()
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            session.alter()
        if self._rng.random() < 0.3:
            session.write()
        session.end()

    def _create(self) -> None:
        self._end_all(is_blocking=False)
        self._session(0).create(f"t{len(self._tables)}")

    def _restart_server(self) -> None:
        is_crash = self._rng.random() < 0.5
        self.notes.append("server crashes" if is_crash else "server restarts")
        server = self._database.server
        if is_crash:
            server.crash()
        else:
            server.stop()
        server.start()
        self._leave()
        for session in self._sessions:
            if session is not None:
                session.connection.close()
        self._sessions = [None] * SESSIONS

    def _end_all(self, *, is_blocking: bool) -> None:
        """End transactions; those alone that readers wait for, if `is_blocking`."""
        for session in self._sessions:
            if session is not None and (session.blocks or not is_blocking):
                session.end()

    # The job

    def _started(self) -> SyncRun:
        """A job whose sessions are open. A slot is made when no transaction runs."""
        if self._job is None:
            self._end_all(is_blocking="start" in self.counts)
            self.counts["start"] += 1
            self.notes.append("job starts")
            self._job = SyncRun(self._database.config(**self._entries), self._some)
            self._job.open()
        self._end_all(is_blocking=True)
        return self._job

    def _leave(self) -> None:
        if self._job is not None:
            self._job.close()
            self._job = None

    def _round(self) -> None:
        job = self._started()
        self.notes.append("job: round")
        run_round(job.link, job.tables, RoundCounts())
        job.tables.end_copies(job.link.position)
        if self._rng.random() < 0.3:
            job.tables.pass_on(job.link.position)

    def _chunk(self) -> None:
        job = self._started()
        before = job.progress().chunks_copied
        job.copy(threading.Event())
        self.counts["chunks read"] += job.progress().chunks_copied - before

    def _some(self, tasks: Iterator[ChunkTask]) -> Iterator[tuple[ChunkTask, ChunkOutcome]]:
        """Some chunks, all planned before the first is committed, that end in any order."""
        planned = list(itertools.islice(tasks, self._rng.randint(1, 3)))
        self._rng.shuffle(planned)
        for task in planned:
            outcome = task.run()
            self.notes.append(f"job: chunk of {task.state.relation}: {type(outcome).__name__}")
            yield task, outcome

    def _look(self) -> None:
        job = self._started()
        self.notes.append("job: look")
        job.tables.take_in(job.link)

    def _die(self) -> None:
        """End the job: between steps, before a chunk's state is saved, before a round is confirmed, or amid it."""
        job = self._started()
        where = self._rng.choice(("between", "chunk", "confirm", "commit"))
        self.notes.append(f"job dies: {where}")
        if where == "chunk":
            self._die_after_chunk(job)
        elif where in ("confirm", "commit"):
            self._die_in_round(job, where)
        self._leave()

    def _die_after_chunk(self, job: SyncRun) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job.tables.chunks, "save", _die)
            try:
                job.copy(threading.Event())
            except Died:
                self.counts["deaths after a chunk"] += 1

    def _die_in_round(self, job: SyncRun, where: str) -> None:
        link, tables = job.link, job.tables
        apply, left = tables.apply, self._rng.randrange(3)

        def apply_some(*arguments: Any) -> int:
            nonlocal left
            left -= 1
            if left < 0:
                raise Died
            return apply(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            if where == "confirm":
                patch.setattr(link, "confirm", _die)
            else:
                patch.setattr(tables, "apply", apply_some)
            try:
                run_round(link, tables, RoundCounts())
            except Died:
                self.counts["deaths in a round"] += 1

    # What is compared

    def _source(
        self, connection: psycopg.Connection[Any], name: str, kinds: Mapping[str, str]
    ) -> Rows:
        selected = ", ".join(f"{TYPES[kind].select.format(n)} as {n}" for n, kind in kinds.items())
        cursor = connection.execute(f"select {selected} from {name}")
        return self._formed(name, [dict(zip(kinds, row, strict=True)) for row in cursor], kinds)

    def _formed(self, name: str, rows: list[dict[str, Any]], kinds: Mapping[str, str]) -> Rows:
        """Rows by their key, with the columns of the source."""
        formed = [{n: TYPES[kind].form(row[n]) for n, kind in kinds.items()} for row in rows]
        return self._by_key(name, formed)

    def _by_key(self, name: str, rows: list[dict[str, Any]]) -> Rows:
        by_key = {tuple(row[n] for n in self._tables[name].key): row for row in rows}
        assert len(by_key) == len(rows), "a key came twice"
        return by_key


def _die(*arguments: Any) -> None:
    raise Died


def _compare(name: str, rows: Rows, expected: Rows) -> None:
    lacking, spare = expected.keys() - rows.keys(), rows.keys() - expected.keys()
    others = [
        (key, column, str(row[column])[:40], str(value)[:40])
        for key, row in rows.items()
        for column, value in expected.get(key, row).items()
        if row[column] != value
    ]
    differences = {"lacking": lacking, "spare": spare, "not equal": others}
    assert not any(differences.values()), f"{name}: {differences}"


def _cells(row: Mapping[str, Any]) -> str:
    """A row as a text: all NaNs are one."""
    return repr(sorted(row.items()))


def _folded(table: wt.Table) -> set[str]:
    """Return the rows that the whole changelog folds to. No row is inserted twice, or ends without being there."""
    rows: set[str] = set()
    for change in table.changes(0, table.snapshots()[-1].id).to_pylist():
        kind, row = change.pop("_row_kind"), _cells(change)
        assert (row in rows) is (kind in ("-U", "-D")), (kind, row)
        if kind in ("-U", "-D"):
            rows.remove(row)
        else:
            rows.add(row)
    return rows
