"""Random histories of append tables under two masters: we and another client write, delete, compact and alter in turn.

After every step all readers have the rows of the model (`append_model`): the table as it is, behind a condition that is
pushed down to the values of files, and as it was at an older snapshot; at the end the changes are what was appended.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Final, Protocol

import pyarrow as pa

import widetable as wt
from tests.interop.append.model import (
    NUMBER,
    PLACE,
    TEXT,
    VALUES,
    WIDER,
    Column,
    Model,
    Row,
    Where,
    texts,
)
from tests.support.models.changelog_follower import changes_of
from tests.support.models.plain_rows import plain, python_rows, row_texts
from widetable.operations.handle.compaction_threads import wait_for_compactions

KINDS: Final[dict[str, dict[str, str]]] = {
    "free": {},
    "vectors": {"deletion-vectors.enabled": "true"},
    "vectors of 64 bits": {
        "deletion-vectors.enabled": "true",
        "deletion-vectors.bitmap64": "true",
    },
    "a bucket": {"bucket": "1", "bucket-key": "s"},
    "buckets": {"bucket": "3", "bucket-key": "s,n"},
    "buckets and vectors": {"bucket": "2", "bucket-key": "s", "deletion-vectors.enabled": "true"},
}
_METHODS: Final = ("equal", "equal", "in", "isNull", "lessThan", "greaterOrEqual")


class Reader(Protocol):
    """A way to read of another client."""

    def read(self, table: wt.Table, where: Where | None, snapshot: int | None) -> list[str]:
        """The rows as texts; where: what is pushed down; snapshot: the newest if None."""

    def changes(self, table: wt.Table, last: int) -> list[tuple[int, str, str]]:
        """Snapshot, kind and row of what its streaming reader is given up to a snapshot."""


@dataclass(frozen=True)
class Other:
    """The other client. delete: rows by their numbers, in a table with deletion vectors. absent: types that it does not
    have. has_null_places: it writes null partitions of buckets. reads_older_schemas: an older snapshot with the columns
    that the table had. keeps_order: rows of a bucket come as they were written.
    """

    readers: Sequence[Reader]
    write: Callable[[wt.Table, pa.Table], None]
    compact: Callable[[wt.Table, bool], None] | None = None
    delete: Callable[[wt.Table, Sequence[int]], None] | None = None
    alter: Callable[[wt.Table, dict[str, Any]], None] | None = None
    absent: Sequence[str] = ()
    methods: Sequence[str] = (*_METHODS, "startsWith")
    has_null_places: bool = True
    reads_older_schemas: bool = True
    keeps_order: bool = False


@dataclass
class AppendHistory:
    """A table, its model, and what happened to them. has_order: rows of a bucket must come as they were written: Java's
    full compaction takes files in the order of a heap. indexed: columns that options of file indexes name; these names
    stay.
    """

    table: wt.Table
    model: Model
    other: Other
    steps: list[str] = field(default_factory=list)
    has_order: bool = True
    indexed: Set[str] = frozenset()

    @classmethod
    def made(cls, folder: str, rng: random.Random, kind: str, other: Other) -> AppendHistory:
        model = Model.drawn(rng, other.absent)
        options = {"widetable.fsync": "false", **KINDS[kind]}
        options["write-only"] = rng.choice(["true", "false"])
        options["widetable.level0-columns"] = rng.choice(["written", "all"])
        if rng.random() < 0.5:
            options |= {"target-file-size": "4 kb", "compaction.min.file-num": "2"}
        indexed = model.file_indexes() if rng.random() < 0.5 else {}
        options |= {
            f"file-index.{kind}.columns": ",".join(names) for kind, names in indexed.items()
        }
        options["file-index.in-manifest-threshold"] = rng.choice(["0 b", "500 b", "1 mb"])
        table = wt.Catalog(folder).create_table(
            "db.t",
            {column.name: column.type for column in model.columns},
            partition_by=["p"] if rng.random() < 0.6 else [],
            options=options,
        )
        about = {c.name: c.type for c in model.columns}, table.schema.partition_keys, options
        return cls(table, model, other, [f"create {about}"], indexed={*chain(*indexed.values())})

    @property
    def rng(self) -> random.Random:
        return self.model.rng

    def go(self, steps: int) -> None:
        """Random steps; after each, everybody reads the same."""
        self.write()
        self.check()
        for _ in range(steps):
            self.rng.choice(STEPS)(self)
            wait_for_compactions(self.table.path)
            self.note()
            self.check()
        self.check_changes()

    def note(self, new: Sequence[Row] = ()) -> None:
        self.model.note([snapshot.id for snapshot in self.table.snapshots()], new)

    # The steps.

    def write(self) -> None:
        chosen = self.model.some_columns()
        rows = self.model.drawn_rows(chosen)
        self._say(f"we write {[c.name for c in chosen]} {rows}")
        self.table.write(self.model.data(rows, chosen))
        self._appended(rows)

    def they_write(self) -> None:
        rows = self.model.drawn_rows(self.model.columns)
        if not (self.other.has_null_places or self.table.schema.has_free_rows):
            rows = [row | {PLACE: row[PLACE] or self.model.places[1]} for row in rows]
        self._say(f"they write {rows}")
        self.other.write(self.table, self.model.data(rows, self.model.columns))
        self._appended(rows)

    def _appended(self, rows: Sequence[Row]) -> None:
        wait_for_compactions(self.table.path)
        self.model.rows += rows
        self.note(rows)

    def compact(self) -> None:
        full = self.rng.random() < 0.5
        self._say(f"we compact, full={full}")
        self.table.compact(full=full)

    def they_compact(self) -> None:
        if self.other.compact is not None:
            full = self.rng.random() < 0.5
            self._say(f"they compact, full={full}")
            self.has_order &= not full
            self.other.compact(self.table, full)

    def delete(self) -> None:
        where = self.model.condition(_METHODS)
        self._say(f"we delete {where}")
        gone = sum(map(where.holds, self.model.rows))
        assert self.table.delete(where.ours).rows == gone
        self.model.delete(where)

    def they_delete(self) -> None:
        numbers = [row[NUMBER] for row in self.model.rows if self.rng.random() < 0.2]
        if self.other.delete is None or not numbers or not self._has_vectors:
            return
        self._say(f"they delete {numbers}")
        self.other.delete(self.table, numbers)
        self.model.rows = [row for row in self.model.rows if row[NUMBER] not in numbers]

    def update(self) -> None:
        columns = [column for column in self.model.columns if column.id > TEXT]
        where, column = self.model.condition(_METHODS), self.rng.choice(columns)
        value = self.model.drawn_value(column)
        self._say(f"we update {where}: {column.name} = {value!r}")
        changed = sum(map(where.holds, self.model.rows))
        (given,) = column.array([value]).to_pylist()
        assert self.table.update(where.ours, {column.name: given}).rows == changed
        self.model.update(where, column, value)

    def sort(self) -> None:
        plain_ones = [column.name for column in self.model.columns if "<" not in column.type]
        if self.table.schema.has_free_rows:
            by = self.rng.sample(plain_ones, self.rng.randint(1, 2))
            order = self.rng.choice(["linear", "zorder", "hilbert"])
            self._say(f"we sort by {by}, {order}")
            self.table.sort_compact(by, order)

    def alter(self) -> None:
        model = self.model
        others = [column for column in model.columns if column.id > TEXT]
        narrow = [column for column in others if column.type in WIDER]
        free = [column for column in others if column.name not in self.indexed]
        what = self.rng.choice(["add", "rename" if free else "add", "widen" if narrow else "add"])
        if what == "add":
            types = [name for name in VALUES if name not in self.other.absent]
            new = model.add_column(self.rng.choice(types))
            self._alter({"add_columns": [pa.field(new.name, new.arrow_type)]})
        elif what == "rename":
            column, name = self.rng.choice(free), f"r{len(self.steps)}"
            model.change_column(column, replace(column, name=name))
            self._alter({"rename_columns": {column.name: name}})
        else:
            column = self.rng.choice(narrow)
            wide = WIDER[column.type]
            model.change_column(column, replace(column, type=wide))
            self._alter({"change_types": {column.name: Column(0, "", wide).arrow_type}})

    def _alter(self, change: dict[str, Any]) -> None:
        by_them = self.other.alter is not None and self.rng.random() < 0.5
        self._say(f"{'they' if by_them else 'we'} alter {change}")
        if by_them:
            assert self.other.alter is not None
            self.other.alter(self.table, change)
        else:
            wt.Catalog(self.table.path.rsplit("/", 2)[0]).alter_table("db.t", **change)

    @property
    def _has_vectors(self) -> bool:
        return self.table.schema.options.get("deletion-vectors.enabled") == "true"

    def _say(self, text: str) -> None:
        self.steps.append(text)

    # What must hold.

    def check(self) -> None:
        expected = self.model.texts()
        self._same("we", ours(self.table), expected)
        for reader in self.other.readers:
            self._same(reader, reader.read(self.table, None, None), expected)
        self._check_condition()
        self._check_an_older_snapshot()
        if self.has_order and self.other.keeps_order and not self.table.schema.has_free_rows:
            self.check_order()

    def _check_condition(self) -> None:
        where = self.model.condition(self.other.methods)
        expected = self.model.texts(where)
        if where.method != "startsWith":
            self._same(f"we where {where}", ours(self.table, filter=where.ours), expected)
        for reader in self.other.readers:
            given = reader.read(self.table, where, None)
            self._same(f"{reader} where {where}", given, expected)

    def _check_an_older_snapshot(self) -> None:
        id = self.rng.choice(list(self.model.at))
        columns, rows = self.model.at[id]
        expected = texts(columns, rows)
        self._same(f"we at {id}", ours(self.table, snapshot_id=id), expected)
        if columns == self.model.columns or self.other.reads_older_schemas:
            for reader in self.other.readers:
                self._same(f"{reader} at {id}", reader.read(self.table, None, id), expected)

    def check_order(self) -> None:
        """Rows of one place, by its partition and bucket key, come in the order of their commits."""
        self.same_order("we", self.table.scan().to_arrow().to_pylist())

    def same_order(self, who: str, rows: Sequence[dict[str, Any]]) -> None:
        expected = self.model.data(self.model.rows, self.model.columns[: TEXT + 1])
        wanted, given = (by_place(each, self.table) for each in (expected.to_pylist(), rows))
        assert given == wanted, f"{who}: {given}, not {wanted}\n{self.story}"

    def check_changes(self) -> None:
        """Every append is given once, with the columns of today; what was deleted or sorted later is no change."""
        last = self.table.snapshots()[-1].id
        expected = Counter(
            (id, "+I", text)
            for id, rows in self.model.appended.items()
            for text in texts(self.model.columns, rows)
        )
        our_changes = [
            (id, kind, text)
            for id in range(1, last + 1)
            for kind, row in changes_of(self.table, id - 1, id)
            for text in row_texts([plain(row)])
        ]
        self._same("our changes", our_changes, expected.elements())
        for reader in self.other.readers:
            given = reader.changes(self.table, last)
            self._same(f"changes of {reader}", given, expected.elements())

    def _same(self, who: object, given: Iterable[Any], expected: Iterable[Any]) -> None:
        """Equal as multisets; else a failure that shows a few rows, and what was done."""
        actual, wanted = Counter(given), Counter(expected)
        if actual != wanted:
            lost, more = list((wanted - actual).elements()), list((actual - wanted).elements())
            some = [str(row) for row in lost[:3]], [str(row) for row in more[:3]]
            counts = f"{len(lost)} lost, {len(more)} too many"
            raise AssertionError(f"{who}: {counts}: {some}\n{self.story}")

    @property
    def story(self) -> str:
        return "\n".join(self.steps)


def ours(table: wt.Table, **choice: Any) -> list[str]:
    scan = table.scan(**choice)
    rows = [plain(row) for row in python_rows(scan.to_arrow())]
    assert scan.count() == len(rows)
    return row_texts(rows)


def by_place(rows: Sequence[dict[str, Any]], table: wt.Table) -> dict[str, list[int]]:
    """The numbers of the rows of each partition and bucket key, or of each partition with one bucket."""
    schema = table.schema
    names = [*schema.partition_keys, *(schema.bucket_keys if schema.num_buckets > 1 else ())]
    places: dict[str, list[int]] = {}
    for row in rows:
        places.setdefault(repr([row[name] for name in names]), []).append(row["n"])
    return places


STEPS: Final[Sequence[Callable[[AppendHistory], None]]] = (
    AppendHistory.write,
    AppendHistory.write,
    AppendHistory.they_write,
    AppendHistory.they_write,
    AppendHistory.compact,
    AppendHistory.they_compact,
    AppendHistory.delete,
    AppendHistory.they_delete,
    AppendHistory.update,
    AppendHistory.sort,
    AppendHistory.alter,
)
