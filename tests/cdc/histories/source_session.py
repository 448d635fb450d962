"""One session with the source that does random things: it writes rows, alters tables, and may be amid a transaction.

What the tables are it asks the catalog each time, in its own transaction. Statements that must wait for another
session, or that break a rule of the table, are undone alone, by a savepoint. `notes` has what was done, for people.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import psycopg

from tests.cdc.histories.drawn_source import (
    KEY_NUMBERS,
    REWRITTEN,
    TYPES,
    WIDER,
    DrawnTable,
    draw_table,
)

_COLUMNS = """
select attname, format_type(atttypid, atttypmod) from pg_attribute
where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped order by attnum
"""
_SHOWN = 200


def columns_of(connection: psycopg.Connection[Any], table: str) -> dict[str, str]:
    """Return the types of a table's columns, by name."""
    return dict(connection.execute(_COLUMNS, (table,)).fetchall())


class SourceSession:
    """A session. tables: by name, shared with other sessions. is_open: amid a transaction.

    blocks: whether it has a lock that readers of a table wait for.
    """

    def __init__(
        self,
        rng: random.Random,
        dsn: str,
        tables: dict[str, DrawnTable],
        notes: list[str],
        name: str,
    ) -> None:
        self._rng = rng
        self._tables = tables
        self._notes = notes
        self._name = name
        self.connection = psycopg.connect(dsn)
        for setting in (
            "lock_timeout = '40ms'",
            f"synchronous_commit = {rng.choice(('on', 'off'))}",
        ):
            self.connection.execute(f"set {setting}")
        self.connection.commit()
        self.is_open = False
        self.blocks = False
        self._is_sure = False

    def write(self) -> None:
        """Do one to four things to rows, in the open transaction."""
        for _ in range(self._rng.randint(1, 4)):
            table = self._rng.choice(list(self._tables.values()))
            act = self._rng.choices(
                (self._insert, self._update, self._move, self._delete, self._swap, self._truncate),
                (6, 6, 3, 3, 1, 1 if self._rng.random() < 0.3 else 0),
            )[0]
            act(table)

    def alter(self) -> None:
        """Alter a table, in the open transaction."""
        table = self._rng.choice(list(self._tables.values()))
        others = {
            name: kind
            for name, kind in columns_of(self.connection, table.name).items()
            if name not in table.key and name not in ("pk", "big")
        }
        acts: list[Callable[[DrawnTable, Mapping[str, str]], str | None]] = [
            self._add, self._add, self._drop, self._rename, self._exchange, self._widen,
            self._rewrite, self._replace, self._vacate,
        ]  # fmt: skip
        statements = self._rng.choice(acts)(table, others)
        if statements is not None:
            self.blocks = True
            self._run(statements)

    def touch(self, table: DrawnTable, number: int) -> None:
        """Write a row with a key of its own, so that the log says what the table is now."""
        self._is_sure = True
        self._insert(table, number=KEY_NUMBERS + 2 + number)
        self._is_sure = False

    def end(self) -> None:
        """Commit, rarely roll back."""
        if not self.is_open:
            return
        if self._rng.random() < 0.85:
            self._notes.append(f"{self._name}: commit")
            self.connection.commit()
        else:
            self._notes.append(f"{self._name}: rollback")
            self.connection.rollback()
        self.is_open = self.blocks = False

    def _run(self, statement: str, values: list[Any] | None = None) -> None:
        """Run a statement; undo it alone if it fails, and sometimes if it does not."""
        self.is_open = True
        shown = [str(value)[:30] for value in values or ()]
        try:
            with self.connection.transaction() as savepoint:
                self.connection.execute(statement, values)
                if self._rng.random() < 0.1 and not self._is_sure:
                    self._notes.append(f"{self._name}: undone: {statement[:_SHOWN]} {shown}")
                    raise psycopg.Rollback(savepoint)
        except psycopg.errors.DatabaseError as error:
            if self.connection.closed:
                raise
            self._notes.append(
                f"{self._name}: {type(error).__name__}: {statement[:_SHOWN]} {shown}"
            )
            return
        self._notes.append(f"{self._name}: {statement[:_SHOWN]} {shown}")

    # Rows

    def _number(self) -> int:
        return self._rng.randrange(KEY_NUMBERS)

    def _value(self, kind: str) -> str | None:
        return None if self._rng.random() < 0.15 else TYPES[kind].draw(self._rng)

    def _where(self, table: DrawnTable, number: int) -> tuple[str, list[Any]]:
        parts = [f"{name} = %s::{kind}" for name, (kind, _) in table.key.items()]
        return " and ".join(parts), [text(number) for _, text in table.key.values()]

    def _kinds(self, table: DrawnTable) -> dict[str, str]:
        kinds = columns_of(self.connection, table.name)
        return {n: kind for n, kind in kinds.items() if n not in table.key and n != "pk"}

    def _insert(self, table: DrawnTable, number: int | None = None) -> None:
        rows = (
            [number]
            if number is not None
            else [self._number() for _ in range(self._rng.randint(1, 8))]
        )
        kinds = self._kinds(table)
        given = [name for name in kinds if self._rng.random() < 0.8]
        names = [*table.key, *given]
        types = [*(kind for kind, _ in table.key.values()), *(kinds[name] for name in given)]
        one = "(" + ", ".join(f"%s::{kind}" for kind in types) + ")"
        values: list[Any] = []
        for row in rows:
            values += [text(row) for _, text in table.key.values()]
            values += [self._value(kinds[name]) for name in given]
        self._run(
            f"insert into {table.name} ({', '.join(names)}) values {', '.join([one] * len(rows))} "
            "on conflict do nothing",
            values,
        )

    def _update(self, table: DrawnTable) -> None:
        kinds = self._kinds(table)
        given = [name for name in kinds if self._rng.random() < 0.4] or list(kinds)[:1]
        if not given:
            return
        sets = ", ".join(f"{name} = %s::{kinds[name]}" for name in given)
        values: list[Any] = [self._value(kinds[name]) for name in given]
        if self._rng.random() < 0.2:
            self._run(f"update {table.name} set {sets} where hashtext(ctid::text) %% 3 = 0", values)
            return
        where, key = self._where(table, self._number())
        self._run(f"update {table.name} set {sets} where {where}", values + key)

    def _move(self, table: DrawnTable, old: int | None = None, new: int | None = None) -> None:
        """Give a row another key, perhaps with other values."""
        kinds = self._kinds(table)
        given = [name for name in kinds if self._rng.random() < 0.2]
        where, key = self._where(table, self._number() if old is None else old)
        number = self._number() if new is None else new
        sets = [f"{name} = %s::{kind}" for name, (kind, _) in table.key.items()]
        sets += [f"{name} = %s::{kinds[name]}" for name in given]
        values: list[Any] = [text(number) for _, text in table.key.values()]
        values += [self._value(kinds[name]) for name in given]
        self._run(f"update {table.name} set {', '.join(sets)} where {where}", values + key)

    def _swap(self, table: DrawnTable) -> None:
        """Let two rows change their keys."""
        one, other, free = self._number(), self._number(), KEY_NUMBERS + 1
        self._move(table, one, free)
        self._move(table, other, one)
        self._move(table, free, other)

    def _delete(self, table: DrawnTable) -> None:
        where, key = self._where(table, self._number())
        self._run(f"delete from {table.name} where {where}", key)

    def _truncate(self, table: DrawnTable) -> None:
        self.blocks = True
        self._run(f"truncate {table.name}")

    # The schema

    def _add(self, table: DrawnTable, others: Mapping[str, str], name: str | None = None) -> str:
        del others
        kind = self._rng.choice(list(TYPES))
        name = name or self._rng.choice([f"c{at}" for at in range(12)])
        default = self._rng.random()
        clause = ""
        if default < 0.3:
            text = TYPES[kind].draw(self._rng).replace("'", "''").replace("%", "%%")
            clause = f" default '{text}'"
        elif default < 0.45:
            kind, clause = "double precision", " default random()"
        return f"alter table {table.name} add column {name} {kind}{clause}"

    def _drop(self, table: DrawnTable, others: Mapping[str, str]) -> str | None:
        if not others:
            return None
        return f"alter table {table.name} drop column {self._rng.choice(list(others))}"

    def _rename(self, table: DrawnTable, others: Mapping[str, str]) -> str | None:
        if not others:
            return None
        new = self._rng.choice([f"c{at}" for at in range(12)])
        return f"alter table {table.name} rename column {self._rng.choice(list(others))} to {new}"

    def _exchange(self, table: DrawnTable, others: Mapping[str, str]) -> str | None:
        """Swap the names of two columns."""
        if len(others) < 2:
            return None
        one, other = self._rng.sample(list(others), 2)
        renames = ((one, "between_names"), (other, one), ("between_names", other))
        return "; ".join(f"alter table {table.name} rename column {a} to {b}" for a, b in renames)

    def _widen(self, table: DrawnTable, others: Mapping[str, str]) -> str | None:
        names = [name for name, kind in others.items() if kind in WIDER]
        if not names:
            return None
        name = self._rng.choice(names)
        return f"alter table {table.name} alter column {name} type {WIDER[others[name]]}"

    def _rewrite(self, table: DrawnTable, others: Mapping[str, str]) -> str | None:
        names = [name for name, kind in others.items() if kind in REWRITTEN]
        if not names:
            return None
        name = self._rng.choice(names)
        kind, changed = others[name], REWRITTEN[others[name]].format(name)
        return f"alter table {table.name} alter column {name} type {kind} using ({changed})::{kind}"

    def _replace(self, table: DrawnTable, others: Mapping[str, str]) -> str | None:
        """Drop a column, and add another one under its name."""
        if not others:
            return None
        name = self._rng.choice(list(others))
        return f"alter table {table.name} drop column {name}; {self._add(table, others, name)}"

    def _vacate(self, table: DrawnTable, others: Mapping[str, str]) -> str | None:
        """Let the replica identity be another one that has the same key."""
        del others
        if table.identity == "index":
            return None
        return f"alter table {table.name} replica identity {self._rng.choice(('full', 'default'))}"

    def create(self, name: str) -> None:
        """Make a table, with rows."""
        table = draw_table(self._rng, name)
        for statement in table.statements():
            self.connection.execute(statement)
            self._notes.append(f"{self._name}: {statement}")
        self._tables[name] = table
        self._insert(table)
        self._insert(table)
        self.connection.commit()
        self.is_open = False
