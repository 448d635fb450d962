"""Tables whose snapshots have times of one's choice, and what a point-in-time read must give: a loop over scans.

The oracle knows nothing of versions: for each row it goes through all snapshots, takes the newest whose own time is not
after the row's, scans it, and picks the row of the key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import widetable as wt

Row = dict[str, Any]


class TimedTable:
    """A table, and the times of its snapshots in milliseconds, by id.

    After each operation `stamp` gives the new snapshots a time, as another client's clock had it.
    """

    def __init__(
        self,
        folder: Path,
        columns: Mapping[str, str],
        key: Sequence[str],
        options: Mapping[str, str] | None = None,
        name: str = "db.t",
        **more: Any,
    ) -> None:
        self.catalog = wt.Catalog(str(folder))
        given = {"bucket": "2", "widetable.fsync": "false", **(options or {})}
        made = self.catalog.create_table(
            name, columns, primary_key=list(key), options=given, **more
        )
        self.path = made.path
        self.key = list(key)
        self.times: dict[int, int] = {}

    @property
    def table(self) -> wt.Table:
        """A handle that has cached nothing."""
        return wt.Table.open(self.path)

    def stamp(self, millis: int) -> None:
        for path in Path(self.path, "snapshot").glob("snapshot-*"):
            id = int(path.name.rpartition("-")[2])
            if id not in self.times:
                body = json.loads(path.read_text())
                body["timeMillis"] = millis
                path.write_text(json.dumps(body))
                self.times[id] = millis

    def write(self, millis: int, *rows: Row) -> None:
        table = self.table
        table.write(list(rows))
        table.wait_for_compactions()
        self.stamp(millis)

    def delete(self, millis: int, *keys: Row) -> None:
        table = self.table
        table.delete_keys(list(keys))
        table.wait_for_compactions()
        self.stamp(millis)

    def expected(self, rows: pa.Table, at: str, features: Sequence[str]) -> list[Row]:
        """The features of each row, by scans alone. rows: with a column `at` of microseconds."""
        table, scans = self.table, dict[int, dict[tuple[Any, ...], Row]]()
        answers = []
        for entity in rows.set_column(
            rows.column_names.index(at), at, rows[at].cast(pa.int64())
        ).to_pylist():
            ids = [id for id, millis in self.times.items() if millis * 1000 <= entity[at]]
            chosen: Row | None = None
            if ids:
                if max(ids) not in scans:
                    scanned = table.scan(snapshot_id=max(ids)).to_arrow().to_pylist()
                    scans[max(ids)] = {tuple(row[k] for k in self.key): row for row in scanned}
                chosen = scans[max(ids)].get(tuple(entity[k] for k in self.key))
            answers.append({name: (chosen or {}).get(name) for name in features})
        return answers


def moments(rows: Sequence[Row], at: str = "at") -> pa.Table:
    """Rows whose times are given in milliseconds."""
    table = pa.Table.from_pylist(list(rows))
    micros = pa.array([int(row[at] * 1000) for row in rows], pa.int64())
    return table.set_column(table.column_names.index(at), at, micros.cast(pa.timestamp("us")))
