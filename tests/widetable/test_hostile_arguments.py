"""Every public call with values that nobody means, for one argument at a time and for several at once: it succeeds, or
raises one of the six kinds of error, and the table is as sound as before. What a caller's own iterator or callback
raises comes back as it is.
"""

from __future__ import annotations

import inspect
import os
import random
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import widetable as wt
from tests.support.models.hostile_values import hostile_values
from widetable.arguments import shown
from widetable.operations.inspection.inspected_names import OF_A_SNAPSHOT
from widetable.operations.maintenance.maintenance import Upkeep
from widetable.operations.queries.lookup_session import LookupSession
from widetable.write.table_writer import TableWriter

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("p", pa.float64()),
    ]
)
OPTIONS = {"widetable.fsync": "false", "changelog-producer": "lookup"}
ROWS = pa.table({"k": [1, 2], "s": ["a", "b"]})
KEYS = ROWS.select(["k"])
LEFT = pa.table({"id": [7, 8], "k": [1, 4]})
USUAL_NAME = "db.t"
FEATURES = {"features": {"f": wt.window("n", "sum", "1 h")}}


class Ground:
    """A table with two commits, a tag and a consumer, and all calls on it by name."""

    def __init__(self, path: Path) -> None:
        self.catalog = wt.Catalog(path / "warehouse")
        self.table = self.catalog.create_table("db.t", SCHEMA, primary_key=["k"], options=OPTIONS)
        self.table.write(ROWS)
        self.table.write(pa.table({"k": [2, 3], "s": ["c", None]}))
        self.table.create_tag("here")
        self.table.create_branch("side", tag="here")
        options = {"widetable.fsync": "false", "widetable.barrier-interval": "1 s"}
        options["merge-engine"] = "partial-update"
        self.catalog.create_table("db.under_barriers", SCHEMA, primary_key=["k"], options=options)
        self.appended = self.catalog.create_table("db.log", SCHEMA, options={"bucket": "-1"})
        self.appended.write(ROWS)
        self.writer = self.catalog.writer("db.under_barriers", "usual", ["s"])
        self.writer.complete(1000)
        sums = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
        tiles = pa.schema([("k", pa.int64()), ("tile", pa.timestamp("us")), ("n", pa.int64())])
        self.tiles = self.catalog.create_table(
            "db.tiles", tiles, primary_key=["k", "tile"], options=sums
        )
        self.tiles.write([{"k": 1, "tile": datetime(2026, 1, 1), "n": 1}])
        with self.table.lookup_session(served_log="db.served") as session:
            session.lookup([1])
        self.topology = self.catalog.topology()
        self.topology.register("job", sinks={"db.under_barriers": ["d"]})
        self.catalog.create_table("db.derived", SCHEMA, primary_key=["k"], options=options)
        self.topology.register("made", sources=["db.under_barriers"], sinks={"db.derived": None})
        self._altered = 0

    def call(self, call: str, /, **given: Any) -> None:
        """given: the arguments that are not the usual ones."""
        usual, done = self.calls()[call]
        done(**{**usual, **given})

    def calls(self) -> dict[str, tuple[dict[str, Any], Callable[..., object]]]:
        """Name -> usual arguments, and what is called."""
        table, catalog = self.table, self.catalog
        stop = threading.Event()
        stop.set()
        return {
            "Catalog": (
                {"warehouse": catalog.warehouse},
                lambda **of: wt.Catalog(**of).list_tables(),
            ),
            "Catalog.create_table": (
                {
                    "name": "db.new",
                    "schema": SCHEMA,
                    "primary_key": ["k"],
                    "if_not_exists": True,
                    "options": OPTIONS,
                },
                catalog.create_table,
            ),
            "Catalog.table": ({}, catalog.table),
            "Catalog.list_tables": ({}, catalog.list_tables),
            "Catalog.drop_table": ({"name": "db.none", "if_exists": True}, catalog.drop_table),
            "Catalog.copy_table": ({"source": USUAL_NAME, "target": USUAL_NAME}, self._copy),
            "Catalog.alter_table": ({"name": USUAL_NAME}, self._alter),
            "Table.open": ({"path": table.path}, wt.Table.open),
            "Catalog.writer": (
                {"table": "db.under_barriers", "writer": "w", "columns": ["p"]},
                catalog.writer,
            ),
            "Catalog.revise": (
                {"table": "db.derived", "to": 1000, "dry_run": True},
                catalog.revise,
            ),
            "Catalog.session": (
                {"tables": ["db.under_barriers"], "consistency": "ReadUncommitted"},
                lambda **of: catalog.session(**of).close(),
            ),
            "Topology.register": (
                {"job": "job", "sinks": {"db.under_barriers": ["d"]}},
                self.topology.register,
            ),
            "Topology.running": ({"job": "job"}, self.topology.running),
            "Topology.renew": ({"job": "job"}, self.topology.renew),
            "Topology.drop": ({"job": "none"}, self.topology.drop),
            "Topology.leave": (
                {"table": "db.under_barriers", "writer": "none"},
                self.topology.leave,
            ),
            "Topology.barriers": ({"table": "db.under_barriers"}, self.topology.barriers),
            "Topology.delays": ({"barrier": None}, self.topology.delays),
            "Topology.upstream": ({"table": "db.under_barriers"}, self.topology.upstream),
            "Topology.downstream": ({"table": "db.under_barriers"}, self.topology.downstream),
            "Topology.connected": ({"tables": ["db.under_barriers"]}, self.topology.connected),
            "Session.table": ({"name": "db.under_barriers"}, self._barrier_session),
            "SessionTable.scan": ({}, self._scan_in_session),
            "SessionTable.lookup": ({"keys": [1]}, self._look_up_in_session),
            "BarrierWriter.write": ({"data": ROWS}, self.writer.write),
            "BarrierWriter.commit_append": ({"messages": []}, self.writer.commit_append),
            "BarrierWriter.complete": ({}, self.writer.complete),
            "Table.write": (
                {"data": ROWS, "commit_user": "u", "commit_identifier": 1},
                table.write,
            ),
            "Table.overwrite": ({"data": ROWS}, table.overwrite),
            "Table.delete": ({"filter": "k = -77"}, table.delete),
            "Table.delete_keys": ({"keys": [-77]}, table.delete_keys),
            "Table.drop_partitions": ({"partitions": []}, table.drop_partitions),
            "Table.restore_partitions": (
                {"partitions": [], "snapshot_id": 1, "dry_run": True},
                table.restore_partitions,
            ),
            "Table.compact": ({}, table.compact),
            "Table.update": ({"where": "k = -77", "set": {"s": "x"}}, self.appended.update),
            "Table.sort_compact": ({"by": ["k"]}, self.appended.sort_compact),
            "Table.check_write_columns": ({"arrow_schema": SCHEMA}, table.check_write_columns),
            "Table.new_writer": ({"columns": ["k"]}, self._write_some),
            "TableWriter.write": ({}, lambda data: self._write_some(["k"], data=data)),
            "Table.commit_append": ({}, lambda **of: self._commit(table.commit_append, of)),
            "Table.commit_overwrite": ({}, lambda **of: self._commit(table.commit_overwrite, of)),
            "Table.discard": ({}, table.discard),
            "Table.find_commit": ({"commit_user": "u", "commit_identifier": 1}, table.find_commit),
            "Table.scan": ({}, lambda **of: table.scan(**of).to_arrow()),
            "Table.explain": ({"key": 2}, table.explain),
            "Table.lookup": ({"keys": [1]}, table.lookup),
            "Table.lookup_prefix": ({"keys": [1]}, table.lookup_prefix),
            "Table.lookup_index": ({"keys": [1]}, table.lookup_index),
            "Table.point_in_time": (
                {"entities": [{"k": 1, "t": datetime(2100, 1, 1)}], "at": "t", "prefix": "f_"},
                table.point_in_time,
            ),
            "Table.windows": (
                {"entities": [{"k": 1, "t": datetime(2026, 1, 2)}], "at": "t", **FEATURES},
                self.tiles.windows,
            ),
            "LookupSession.windows": ({"keys": [1], **FEATURES}, self._windows),
            "window": ({"column": "n", "function": "sum", "length": "1 h"}, wt.window),
            "Table.to_batches": (
                {"columns": ["k"]},
                lambda **of: table.to_batches(**of).close(),
            ),
            "Table.to_torch": ({"columns": ["k"]}, lambda **of: table.to_torch(**of).close()),
            "Table.lookup_session": ({}, lambda **of: table.lookup_session(**of).close()),
            "LookupSession.lookup": ({"keys": [1]}, self._session("lookup")),
            "LookupSession.lookup_prefix": ({"keys": [1]}, self._session("lookup_prefix")),
            "LookupSession.move": ({}, self._session("move")),
            "lookup_join": (
                {"batches": LEFT, "dim": table, "on": ["k"], "columns": ["s"]},
                lambda **of: list(wt.lookup_join(**of)),
            ),
            "Table.create_tag": ({"name": "there"}, table.create_tag),
            "Table.delete_tag": ({"name": "there"}, table.delete_tag),
            "Table.create_branch": ({"name": "there"}, table.create_branch),
            "Table.drop_branch": ({"name": "there"}, table.drop_branch),
            "Table.fast_forward": ({"name": "side", "dry_run": True}, table.fast_forward),
            "Table.delete_consumer": ({"consumer_id": "c"}, table.delete_consumer),
            "Table.expire_snapshots": ({"dry_run": True}, table.expire_snapshots),
            "Table.expire_partitions": ({"dry_run": True}, table.expire_partitions),
            "Table.remove_orphan_files": ({"dry_run": True}, table.remove_orphan_files),
            "Table.audit": ({}, table.audit),
            "Table.audit_served": ({"log": "db.served"}, table.audit_served),
            "Table.doctor": ({}, table.doctor),
            **{f"Inspector.{name}": ({}, getattr(table.inspect, name)) for name in OF_A_SNAPSHOT},
            "Inspector.frame": ({"name": "files"}, table.inspect.frame),
            "Table.repair": ({"dry_run": True}, table.repair),
            "Table.rollback": ({"dry_run": True, "snapshot_id": 1}, table.rollback),
            "Table.alter_options": ({}, self._alter_options),
            "Table.rescale": ({"buckets": 2}, table.rescale),
            "Table.maintain": ({"stop": stop}, self._maintain),
            "Table.maintainer": ({"upkeep": Upkeep()}, lambda **of: table.maintainer(**of).close()),
            "Table.changes": ({"start": 0, "end": 1}, table.changes),
            "Table.change_batches": (
                {"start": 0, "end": 1},
                lambda **of: list(table.change_batches(**of)),
            ),
            "Table.scan_changes": (
                {"start": 0, "end": 1},
                lambda **of: table.scan_changes(**of).to_arrow(),
            ),
            "Table.follow": ({"timeout": 0}, self._follow),
            "Table.follow_samples": (
                {"consumer_id": "c", "complete": ["s"], "into": "db.samples", "timeout": 0},
                self._follow_samples,
            ),
            "label": ({"event_time": "t", "within": "1 h"}, wt.label),
            "Table.change_source": ({}, table.change_source),
        }

    def _alter(self, **given: Any) -> None:
        """Of a table of its own, and another one as soon as that was altered."""
        if given["name"] is USUAL_NAME:
            given["name"] = f"db.altered{self._altered}"
            self.catalog.create_table(
                given["name"], SCHEMA, primary_key=["k"], options=OPTIONS, if_not_exists=True
            )
        self.catalog.alter_table(**given)
        self._altered += 1

    def _copy(self, **given: Any) -> None:
        """To a name of its own."""
        if given["target"] is USUAL_NAME:
            given["target"] = f"db.copy{self._altered}"
        self.catalog.copy_table(**given)
        self._altered += 1

    def _alter_options(self, **given: Any) -> None:
        """Of a table of its own."""
        name = f"db.altered{self._altered}"
        made = self.catalog.create_table(
            name, SCHEMA, primary_key=["k"], options=OPTIONS, if_not_exists=True
        )
        made.alter_options(**given)
        self._altered += 1

    def _write_some(self, columns: Any, data: Any = KEYS, **given: Any) -> None:
        with self.table.new_writer(columns, **given) as writer:
            writer.write(data)

    def _commit(self, commit: Callable[..., object], given: dict[str, Any]) -> None:
        if "messages" not in given:
            with self.table.new_writer(["k"]) as writer:
                writer.write(KEYS)
                given = {"messages": writer.finish(), **given}
        commit(**given)

    def _maintain(self, **given: Any) -> None:
        """Once, where nothing stops it."""
        if given["stop"] is None:
            given["once"] = True
        self.table.maintain(**given)

    def _session(self, method: str) -> Callable[..., None]:
        def call(**given: Any) -> None:
            with self.table.lookup_session() as session:
                getattr(session, method)(**given)
                assert session.lookup([1])["k"].to_pylist() == [1]

        return call

    def _windows(self, **given: Any) -> None:
        with self.tiles.lookup_session() as session:
            session.windows(**given)

    def _barrier_session(self, **given: Any) -> None:
        with self.catalog.session(["db.under_barriers"], consistency="ReadUncommitted") as session:
            session.table(**given)

    def _scan_in_session(self, **given: Any) -> None:
        with self.catalog.session(["db.under_barriers"], consistency="ReadUncommitted") as session:
            session.table("db.under_barriers").scan(**given).to_arrow()

    def _look_up_in_session(self, **given: Any) -> None:
        with self.catalog.session(["db.under_barriers"]) as session:
            session.table("db.under_barriers").lookup(**given)

    def _follow(self, **given: Any) -> None:
        with self.table.follow(**given) as follower:
            if given["timeout"] == 0:
                list(follower)

    def _follow_samples(self, **given: Any) -> None:
        with self.table.follow_samples(**given) as follower:
            if given["timeout"] == 0:
                list(follower)

    def assert_sound(self) -> None:
        """The table opens, is read, written and audited."""
        table = wt.Table.open(self.table.path)
        assert "k" in table.scan().to_arrow().column_names
        assert table.write(ROWS).committed
        report = table.audit()
        assert report.ok, report.findings


# Values that are tried for each argument.
VALUES = int(os.environ.get("WIDETABLE_HOSTILE_VALUES", "20"))


def parameters(call: str) -> list[str]:
    """The arguments that a call has."""
    owner, _, method = call.partition(".")
    kind = {"TableWriter": TableWriter, "LookupSession": LookupSession}.get(owner) or getattr(
        wt, owner
    )
    called = getattr(kind, method) if method else kind
    names = list(inspect.signature(called).parameters)
    return (
        names[1:] if method and inspect.isfunction(called) else names
    )  # without the object itself


def public_calls() -> Iterator[str]:
    """Every call with an argument."""
    yield "Catalog"
    yield "TableWriter.write"
    yield "label"
    yield "lookup_join"
    yield "window"
    kinds = (wt.Catalog, wt.Table, LookupSession, wt.Inspector)
    for kind in (*kinds, wt.BarrierWriter, wt.Session, wt.SessionTable, wt.Topology):
        for name, member in inspect.getmembers(kind, callable):
            if not name.startswith("_") and parameters(f"{kind.__name__}.{name}"):
                assert member.__doc__
                yield f"{kind.__name__}.{name}"


def outcome(ground: Ground, call: str, given: dict[str, Any]) -> str | None:
    """What is wrong with what came of a call; None when nothing is."""
    said = f"{call}({', '.join(f'{name}={shown(value)}' for name, value in given.items())})"
    try:
        ground.call(call, **given)
    except wt.WidetableError as error:
        str(error).encode()  # what no console could show is as bad
    except Exception as error:  # noqa: BLE001
        return f"{said} raised {type(error).__name__}"
    return None


@pytest.mark.parametrize("call", sorted(public_calls()))
def test_one_hostile_argument_gives_an_error_of_the_package(
    tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch, rng: random.Random
) -> None:
    monkeypatch.chdir(tmp_path)
    ground, values = Ground(tmp_path), list(hostile_values())
    tried = [
        outcome(ground, call, {name: value})
        for name in parameters(call)
        for value in rng.sample(values, min(VALUES, len(values)))
    ]
    assert [wrong for wrong in tried if wrong] == []
    ground.assert_sound()


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """Paths that are values of arguments lie beside it."""
    folder = tmp_path_factory.mktemp("ground")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield Ground(folder)


@given(seed=st.integers(0, 2**32 - 1))
def test_several_hostile_arguments_give_an_error_of_the_package(ground: Ground, seed: int) -> None:
    rng = random.Random(seed)
    values = list(hostile_values())
    for call in rng.sample(sorted(public_calls()), 8):
        names = parameters(call)
        chosen = rng.sample(names, rng.randint(1, len(names)))
        assert outcome(ground, call, {name: rng.choice(values) for name in chosen}) is None
    ground.assert_sound()


class Mine(Exception):
    """Of the caller."""


def failing() -> Iterator[Any]:
    """One batch, then an error."""
    yield ROWS.to_batches()[0]
    raise Mine


def raising(*_: object) -> str:
    raise Mine


def test_what_a_callers_own_code_raises_comes_back_as_it_is(ground: Ground) -> None:
    table, before = ground.table, ground.table.snapshots()
    names: Any = map(raising, [1])
    stop: Any = raising
    calls: list[Callable[[], object]] = [
        lambda: table.write(failing()),
        lambda: table.overwrite(failing()),
        lambda: table.lookup(map(raising, [1])),
        lambda: table.scan(columns=names),
        lambda: table.maintain(on_round=stop, interval_millis=0),
    ]
    for call in calls:
        with pytest.raises(Mine):
            call()
    assert table.snapshots() == before
