"""What goes to another process, and what says that it stays: nothing raw comes out of pickle and copy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from widetable.connector import Upkeep
from widetable.errors import UnsupportedError


@pytest.fixture
def made(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """One of each that a user gets, by its name, of a table with a row as of barrier 10."""
    catalog = wt.Catalog(tmp_path)
    options = {"widetable.barrier-interval": "10 ms", "changelog-producer": "input"}
    table = catalog.create_table(
        "db.t", {"id": "BIGINT", "v": "BIGINT"}, primary_key=["id"], options=options
    )
    writer = catalog.writer("db.t", "w")
    writer.write({"id": [1], "v": [2]}, barrier=10, complete=True)
    with catalog.session() as session, table.lookup_session() as lookups:
        yield {
            "catalog": catalog,
            "table": table,
            "topology": catalog.topology(),
            "inspection": table.inspect(),
            "audit": table.audit(),
            "snapshot": table.snapshots()[0],
            "scan": table.scan(),
            "filtered": table.scan(["v"], "id = 1", barrier=10),
            "changes": table.scan_changes(0, 2),
            "difference": table.scan_changes(1, 2, mode="diff"),
            "changes between barriers": table.scan_changes(0, 10, mode="barrier"),
            "source": table.change_source(),
            "session": session,
            "session table": session.table("db.t"),
            "lookups": lookups,
            "writer": writer,
            "follower": table.follow(),
            "maintainer": table.maintainer(Upkeep()),
        }


_STAY = ("session", "session table", "lookups", "writer", "follower", "maintainer")


def test_what_holds_nothing_goes_to_another_process(made: dict[str, Any]) -> None:
    scans: dict[str, Callable[[Any], pa.Table]] = {
        "scan": lambda scan: scan.to_arrow(),
        "filtered": lambda scan: scan.to_arrow(),
        "changes": lambda scan: scan.to_arrow(),
        "difference": lambda scan: scan.to_arrow(),
        "changes between barriers": lambda scan: scan.to_arrow(),
        "catalog": lambda catalog: catalog.table("db.t").scan().to_arrow(),
        "table": lambda table: table.lookup([1]),
    }
    for name, each in made.items():
        if name in _STAY:
            continue
        for there in (pickle.loads(pickle.dumps(each)), copy.copy(each), copy.deepcopy(each)):
            read = scans.get(name)
            if read is not None:
                assert read(there).to_pylist() == read(each).to_pylist() != []


@pytest.mark.parametrize("name", _STAY)
def test_what_holds_something_says_that_it_stays(made: dict[str, Any], name: str) -> None:
    for send in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(UnsupportedError, match="catalog or the table"):
            send(made[name])
