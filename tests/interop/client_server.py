"""Answers requests to read tables with pypaimon; run by the Python of .venv/interop, with the project on its path.

A request is one line of JSON on standard input: {"warehouse", "table", and perhaps "snapshot", "tag",
"filter" ([column, value]: equality, pushed down), "where" ([method of its predicate builder, column, file of Arrow
with the values in its column]: the same for any condition), "project" ([columns]), or "changes" ([first, last
snapshot]: what a streaming reader is given for each), or "write" (an Arrow file whose rows are
committed), or "branch" ([method of its branch manager, arguments]: what it gives), or "alter" (steps
of alter_steps.py), and "options" for any of them; "exact": dates as numbers}. The answer is one line:
{"rows": [...]} or {"error": text}. One process serves all tests: starting it takes as long as reading
many tables.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory
from pypaimon.schema.data_types import DataTypeParser
from pypaimon.schema.schema_change import SchemaChange

from tests.support.models.plain_rows import plain, python_rows


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The rows that pypaimon sees, or why it refuses."""
    try:
        for name, serve in SERVED.items():
            if name in request:
                return {"rows": serve(request)}
        return {"rows": read(request)}
    except Exception as error:  # noqa: BLE001  # the test wants to know what went wrong
        return {"error": f"{type(error).__name__}: {error}"}


def opened(request: dict[str, Any]) -> Any:
    """The table, with dynamic options: those of the native engine."""
    catalog = CatalogFactory.create({"warehouse": request["warehouse"]})
    return catalog.get_table(request["table"]).copy(request.get("options", {}))


def read(request: dict[str, Any]) -> list[Any]:
    """All rows, as plain values."""
    table = opened(request)
    if "snapshot" in request:
        table = table.copy({"scan.snapshot-id": str(request["snapshot"])})
    if "tag" in request:
        table = table.copy({"scan.tag-name": request["tag"]})
    builder = table.new_read_builder()
    if "filter" in request:
        builder = builder.with_filter(builder.new_predicate_builder().equal(*request["filter"]))
    if "where" in request:
        builder = builder.with_filter(predicate(builder.new_predicate_builder(), *request["where"]))
    if "project" in request:
        builder = builder.with_projection(request["project"])
    splits = builder.new_scan().plan().splits()
    rows = builder.new_read().to_arrow(splits)
    return [plain(row) for row in (python_rows(rows) if "exact" in request else rows.to_pylist())]


def predicate(builder: Any, method: str, column: str, file: str) -> Any:
    """A condition whose values lie in a file."""
    values = pa.ipc.open_file(file).read_all().column(0).to_pylist()
    given = [values] if method == "is_in" else values
    return getattr(builder, method)(column, *given)


def write(request: dict[str, Any]) -> list[Any]:
    """One commit of the rows of a file; gives no rows."""
    table = opened(request)
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(pa.ipc.open_file(request["write"]).read_all())
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()
    return []


def changes(request: dict[str, Any]) -> list[Any]:
    """[snapshot, row kind, row] of every change, in the order of the files that the streaming scan gives."""
    table = opened(request)
    builder = table.new_stream_read_builder().with_include_row_kind(True)
    scan, reader = builder.new_streaming_scan(), builder.new_read()
    first, last = request["changes"]
    found = []
    for snapshot_id in range(first, last + 1):
        snapshot = table.snapshot_manager().get_snapshot_by_id(snapshot_id)
        # Without its poll, which would wait for snapshots that never come.
        if not scan.follow_up_scanner.should_scan(snapshot):
            continue
        for split in scan._create_follow_up_plan(snapshot).splits():
            rows = reader.to_arrow([split])
            for row in python_rows(rows) if "exact" in request else rows.to_pylist():
                found.append([snapshot_id, row.pop("_row_kind"), plain(row)])
    return found


def branch(request: dict[str, Any]) -> list[Any]:
    """What a method of the branch manager gives."""
    method, *given = request["branch"]
    return getattr(opened(request).branch_manager(), method)(*given) or []


def alter(request: dict[str, Any]) -> list[Any]:
    """All steps at once; gives no rows."""
    catalog = CatalogFactory.create({"warehouse": request["warehouse"]})
    steps = [_CHANGES[what](path, *values) for what, path, *values in request["alter"]]
    catalog.alter_table(request["table"], steps)
    return []


_CHANGES = {
    "drop": SchemaChange.drop_column,
    "add": lambda path, kind: SchemaChange.add_column(path, DataTypeParser.parse_data_type(kind)),
    "rename": SchemaChange.rename_column,
    "type": lambda path, kind: SchemaChange.update_column_type(
        path, DataTypeParser.parse_data_type(kind)
    ),
}
SERVED = {"write": write, "changes": changes, "branch": branch, "alter": alter}


def main() -> None:
    """One answer per line until the input ends."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
