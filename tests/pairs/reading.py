"""The ways to read a table, each as rows in one comparable form; also by a process of its own.

python -OO -m tests.pairs.reading    a request as JSON on standard input, rows as JSON on standard output
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

import widetable as wt
from tests.support.models.plain_rows import python_rows
from tests.support.models.random_table import texts
from tests.support.programs.command_line import run
from widetable.schema.table_schema import TableSchema

CONDITION: Final = "k = 1 and p >= 1"


@dataclass(frozen=True)
class Request:
    """columns: what a reader takes. snapshot, barrier: as of which it reads. condition: of one that filters."""

    reader: str
    path: str
    branch: str
    keys: Sequence[Mapping[str, Any]]
    columns: Sequence[str]
    snapshot: int | None = None
    barrier: int | None = None
    condition: str = CONDITION


def read(request: Request) -> list[str]:
    """The rows, as `tests.support.models.random_table.texts`."""
    table = wt.Table.open(request.path, branch=request.branch)
    return texts(READERS[request.reader](table, request))


def _scanned(table: wt.Table, **how: Any) -> list[dict[str, Any]]:
    return python_rows(table.scan(**how).to_arrow())


def _some(table: wt.Table, request: Request) -> list[dict[str, Any]]:
    return _scanned(table, columns=request.columns, filter=request.condition)


def _of_values(table: wt.Table, request: Request) -> list[dict[str, Any]]:
    return _scanned(table, filter=request.condition)


def _past(table: wt.Table, request: Request) -> list[dict[str, Any]]:
    return _scanned(table, snapshot_id=request.snapshot)


def _at_barrier(table: wt.Table, request: Request) -> list[dict[str, Any]]:
    return _scanned(table, barrier=request.barrier)


def _looked_up(table: wt.Table, request: Request) -> list[dict[str, Any]]:
    return _there(table.lookup(list(request.keys)))


def _by_session(table: wt.Table, request: Request) -> list[dict[str, Any]]:
    with table.lookup_session() as session:
        found = [session.lookup([key]) for key in request.keys]
    return _there(pa.concat_tables(found))


def _joined(table: wt.Table, request: Request) -> list[dict[str, Any]]:
    left = pa.RecordBatch.from_pylist([dict(key) for key in request.keys])
    left = left.cast(pa.schema([table.arrow_schema.field(name) for name in left.schema.names]))
    batches = list(wt.lookup_join([left], table, left.schema.names, how="inner"))
    return [row for batch in batches for row in python_rows(batch)]


def _there(found: pa.Table) -> list[dict[str, Any]]:
    return [row for row in python_rows(found) if row["k"] is not None]


def _printed(table: wt.Table, request: Request) -> list[dict[str, Any]]:
    on_branch = "" if request.branch == "main" else f"/branch/branch-{request.branch}"
    ran = run("read", request.path + on_branch)
    if ran.exit_code:
        raise RuntimeError(ran.stderr)
    return [_parsed(json.loads(line), table.schema) for line in ran.stdout.splitlines()]


def _explained(table: wt.Table, request: Request) -> list[dict[str, Any]]:
    found = [table.explain(dict(key)) for key in request.keys]
    return [
        _parsed({**one.key, **{column.name: column.value for column in one.columns}}, table.schema)
        for one in found
        if one.is_there
    ]


def _parsed(row: dict[str, Any], schema: TableSchema) -> dict[str, Any]:
    """Printed values as scans give them: a text of a moment is a number of microseconds."""
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    for name, value in row.items():
        kind = schema.arrow_schema([name]).field(0).type
        if pa.types.is_timestamp(kind) and value is not None:
            moment = datetime.datetime.fromisoformat(value)
            row[name] = (moment - epoch) // datetime.timedelta(microseconds=1)
    return row


READERS: Final[Mapping[str, Callable[[wt.Table, Request], list[dict[str, Any]]]]] = {
    "scan": lambda table, _: _scanned(table),
    "columns and condition": _some,
    "condition on values": _of_values,
    "time travel": _past,
    "lookup": _looked_up,
    "lookup session": _by_session,
    "lookup join": _joined,
    "command line": _printed,
    "barrier": _at_barrier,
    "explain": _explained,
}


def as_json(request: Request) -> str:
    return json.dumps(asdict(request))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(read(Request(**json.loads(sys.stdin.read())))))
