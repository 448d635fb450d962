"""Random rounds over random changes of both tables, crashes at each step: after each round the joined table is the join
of the two, by plain Python, and its changelog says what changed, each key once.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import widetable as wt
from tests.support.tables.joined import changes, newest
from widetable.commit.notes.consumer_store import ConsumerStore
from widetable.derive.changes import row_changes
from widetable.derive.joins import delta_join, join_difference, join_side
from widetable.derive.joins.join_difference import JoinDifference
from widetable.operations.writes.table_commit import append_messages

Row = dict[str, Any]
Rows = dict[str, Row]

_KEYS: dict[pa.DataType, list[Any]] = {
    pa.int64(): [1, 2, -(2**63)],
    pa.string(): ["", "a", "aa"],
    pa.float64(): [0.0, -0.0, float("nan")],
}
STEPS = (None, None, "piece", "files", "commit", "0", "1", "2")
SEEDS = st.integers(0, 2**32)
_VALUES = [None, 0.0, -0.0, float("nan"), 2.5]


@dataclass(frozen=True)
class Shape:
    """Primary keys of both tables and the join key; what is no key has a value of its own in `_VALUES`."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    on: tuple[tuple[str, str], ...]
    hows: tuple[str, ...] = ("inner",)
    partition_by: tuple[str, ...] = ()


SHAPES = (
    Shape(("u", "o"), ("u",), (("u", "u"),), ("inner", "left")),
    Shape(("u",), ("w",), (("u", "w"),), ("inner", "left")),
    Shape(("u", "v", "o"), ("w", "x"), (("v", "w"), ("u", "x")), ("inner", "left")),
    Shape(("p", "u", "o"), ("p", "w"), (("p", "p"), ("u", "w")), ("left",), ("p",)),
    Shape(("u", "o"), ("w", "t"), (("u", "w"),)),
    Shape(("u",), ("w", "t"), (("u", "w"),)),
    Shape(("u", "v", "o"), ("w", "x", "t"), (("v", "x"), ("u", "w"))),
)


class Killed(BaseException):
    """What a crash is here: nobody catches it."""


def text(row: Row, names: Any) -> str:
    """NaN is one value, zero has a sign."""
    return repr([row[name] for name in names])


class JoinMachine(RuleBasedStateMachine):
    """Both sources are kept in `models`, side by side."""

    @initialize(seed=SEEDS)
    def make(self, seed: int) -> None:
        rng = random.Random(seed)
        self.stack = contextlib.ExitStack()
        folder = self.stack.enter_context(TemporaryDirectory())
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(row_changes, "_KEYS_AT_ONCE", rng.choice([1, 3, 1 << 16]))
        patch.setattr(join_side, "_FIRST_KEYS", rng.choice([1, 2, 256]))
        patch.setattr(join_difference, "_KEYS_AT_ONCE", rng.choice([1, 1 << 20]))
        self.shape = rng.choice(SHAPES)
        kind = rng.choice(list(_KEYS))
        self.how = rng.choice(self.shape.hows)
        self.producer = rng.choice(["none", "input", "input", "lookup"])
        self.catalog = wt.Catalog(folder)
        sides = ((self.shape.left, "a", 0), (self.shape.right, "b", 1))
        self.keys = {"a": self.shape.left, "b": self.shape.right}
        self.kinds = {name: pa.int64() if name in "ot" else kind for name in "uvwxpot"}
        self.kinds["p"] = pa.string()
        self.tables = {
            name: self.table(rng, name, key, [pair[at] for pair in self.shape.on])
            for key, name, at in sides
        }
        self.models: dict[str, Rows] = {"a": {}, "b": {}}
        self.join = wt.DeltaJoin(
            self.catalog, "db.out", "db.a", "db.b", dict(self.shape.on), self.how
        )
        self.out = self.join.create(
            {
                "changelog-producer": self.producer,
                "bucket": rng.choice(["1", "3"]),
                "write-only": rng.choice(["false", "true"])
                if self.producer != "lookup"
                else "false",
                "widetable.fsync": "false",
            }
        )
        self.joined: Rows = {}
        self.seen_id = 0

    def table(self, rng: random.Random, name: str, key: Any, on: list[str]) -> wt.Table:
        schema = pa.schema([(each, self.kinds[each]) for each in key] + [(name, pa.float64())])
        parts = self.shape.partition_by
        options = {
            "bucket-key": ",".join(each for each in on if each not in parts or name == "b"),
            "bucket": rng.choice(["1", "2"]),
            "widetable.fsync": "false",
            "num-sorted-run.compaction-trigger": rng.choice(["2", "5"]),
        }
        partition_by = parts if name == "a" else ()
        return self.catalog.create_table(
            f"db.{name}", schema, primary_key=key, partition_by=partition_by, options=options
        )

    def drawn(self, rng: random.Random, side: str) -> list[tuple[str, Row]]:
        records = []
        for _ in range(rng.randint(1, 8)):
            row = {key: rng.choice(self.pool(key)) for key in self.keys[side]}
            row[side] = rng.choice(_VALUES)
            records.append((rng.choice(["+I", "+U", "+I", "-D"]), row))
        return records

    def pool(self, name: str) -> list[Any]:
        """Few values, so that many rows match; two where keys have several columns of them."""
        if name in "ot":
            return [1, 2, 3]
        return _KEYS[self.kinds[name]][: 2 if len(self.shape.on) > 1 else 3]

    def given(self, side: str, records: list[tuple[str, Row]]) -> pa.Table:
        rows = [{**row, "_row_kind": kind} for kind, row in records]
        schema = self.tables[side].arrow_schema
        return pa.Table.from_pylist(rows, schema.append(pa.field("_row_kind", pa.string())))

    def merge(self, side: str, records: list[tuple[str, Row]]) -> None:
        for kind, row in records:
            key = text(row, self.keys[side])
            if kind == "-D":
                self.models[side].pop(key, None)
            else:
                self.models[side][key] = row

    @rule(seed=SEEDS, step=st.sampled_from(STEPS))
    def change_and_join(self, seed: int, step: str | None) -> None:
        """Both tables, by any of the ways, then a round that is killed at a step, or none; and a whole one."""
        rng = random.Random(seed)
        for _ in range(rng.randint(1, 4)):
            self.change(rng)
        if step is not None:
            self.crash(step)
        assert not self.join.run_once().gave_way
        self.fold(self.expected())
        assert self.join.run_once().snapshot_id is None

    def change(self, rng: random.Random) -> None:
        side = rng.choice("ab")
        ways = [self.write, self.write, self.write, self.write_again, self.overwrite]
        rng.choice([*ways, self.compact, self.expire])(rng, side)

    def write(self, rng: random.Random, side: str) -> None:
        records = self.drawn(rng, side)
        self.tables[side].write(self.given(side, records))
        self.merge(side, records)

    def write_again(self, rng: random.Random, side: str) -> None:
        rows = list(self.models[side].values())
        if rows:
            chosen = rng.choices(rows, k=3)
            self.tables[side].write(self.given(side, [("+U", row) for row in chosen]))

    def overwrite(self, rng: random.Random, side: str) -> None:
        records = [("+I", row) for _, row in self.drawn(rng, side)]
        self.tables[side].overwrite(self.given(side, records), whole_table=True)
        self.models[side] = {}
        self.merge(side, records)

    def compact(self, rng: random.Random, side: str) -> None:
        rng.choice([self.out, self.tables[side]]).compact(full=rng.random() < 0.5)

    def expire(self, rng: random.Random, side: str) -> None:
        table = rng.choice([self.out, self.tables[side], self.tables[side]])
        if rng.random() < 0.5:
            table.delete_consumer("join-db.out")
        table.expire_snapshots(num_retained_min=1, num_retained_max=1, time_retained_millis=0)

    def crash(self, step: str) -> None:
        rounds = self.rounds()
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
            _kill_at(patch, step)
            self.join.run_once()
        if self.rounds() > rounds:
            assert step != "files"
            self.fold(self.expected())

    @precondition(lambda self: self.producer == "lookup")
    @rule()
    def audit(self) -> None:
        assert self.out.audit(start=None).ok

    def rounds(self) -> int:
        return len([each for each in self.out.snapshots() if each.commit_user == "join"])

    def expected(self) -> Rows:
        """The join, row by row."""
        found: Rows = {}
        names = self.out.schema.names
        for left in self.models["a"].values():
            rights = [
                right
                for right in self.models["b"].values()
                if all(repr(left[one]) == repr(right[other]) for one, other in self.shape.on)
            ]
            if self.how == "left":
                rights = rights or [dict.fromkeys([*self.keys["b"], "b"])]
            for right in rights:
                row = {name: left.get(name, right.get(name)) for name in names}
                assert text(row, self.out.schema.primary_keys) not in found
                found[text(row, self.out.schema.primary_keys)] = row
        return found

    def fold(self, expected: Rows) -> None:
        """What the changelog adds to what was joined before: the rows are as expected, and each key that differs has
        changed once.
        """
        names, key = self.out.schema.names, self.out.schema.primary_keys
        last = newest(self.out)
        before = {each: text(row, names) for each, row in self.joined.items()}
        touched = []
        for kind, *values in changes(self.out, self.seen_id, last, in_order=True):
            row = dict(zip(names, values, strict=True))
            of_key = text(row, key)
            was = self.joined.get(of_key)
            if kind in ("-U", "-D"):
                assert was is not None
                assert text(self.joined.pop(of_key), names) == text(row, names)
            else:
                assert was is None or (kind == "+U" and self.producer == "none")
                self.joined[of_key] = row
            if kind != "-U":
                touched.append(of_key)
        self.seen_id = last
        after = {each: text(row, names) for each, row in self.joined.items()}
        assert after == {each: text(row, names) for each, row in expected.items()}
        rows = self.out.scan().to_arrow().to_pylist()
        assert sorted(text(row, names) for row in rows) == sorted(after.values())
        differing = [k for k in before.keys() | after.keys() if before.get(k) != after.get(k)]
        assert sorted(touched) == sorted(differing)

    def teardown(self) -> None:
        if hasattr(self, "stack"):
            self.stack.close()


def _kill_at(patch: pytest.MonkeyPatch, step: str) -> None:
    """piece: what is written first; files: all are written; commit: it is in; a number: so many consumers are moved."""
    append, pieces, record = append_messages, JoinDifference.pieces, ConsumerStore.record
    left = [int(step) if step.isdigit() else -1]

    def killed_append(*given: Any, **more: Any) -> Any:
        if step == "files":
            raise Killed
        append(*given, **more)
        raise Killed

    def killed_pieces(self: JoinDifference, since: Any) -> Iterator[pa.Table]:
        for piece in pieces(self, since):
            yield piece
            raise Killed

    def killed_record(self: ConsumerStore, consumer_id: str, next_snapshot: int) -> None:
        if not left[0]:
            raise Killed
        left[0] -= 1
        record(self, consumer_id, next_snapshot)

    if step in ("files", "commit"):
        patch.setattr(delta_join, "append_messages", killed_append)
    elif step == "piece":
        patch.setattr(JoinDifference, "pieces", killed_pieces)
    else:
        patch.setattr(ConsumerStore, "record", killed_record)


TestCase29: Callable[..., Any] = JoinMachine.TestCase
TestCase29.settings = settings(  # type: ignore[attr-defined]
    max_examples=max(10, settings().max_examples // 2), stateful_step_count=8, deadline=None
)
