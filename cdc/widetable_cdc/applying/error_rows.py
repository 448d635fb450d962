"""Rows that could not be applied, and the table `<db>.__cdc_errors` that holds them.

    name      job                          kind     +I, +U or -D
    relation  schema.table of the source   key      JSON object, texts of the source
    lsn       end of the transaction       row      JSON object, without values that the log does not carry
    position  of the change, among those   reason   what is wrong, in words
              of the transaction to this   time     when the row was first seen
              relation, from 0

The key is (name, relation, lsn, position), and the first row of a key stays (merge engine first-row): a replay adds
none, whatever rounds it is made of. Only bad rows come here, so they are made one by one. Raises what `Table.write`
raises, and InvalidError for a job that stops at the first bad row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable import Catalog, InvalidError, NotFoundError, Table
from widetable.connector import counted, now_millis
from widetable_cdc.applying.last_states import StateSlice

ERRORS_TABLE: Final = "__cdc_errors"
_COLUMNS: Final = {
    "name": "STRING",
    "relation": "STRING",
    "lsn": "BIGINT",
    "position": "BIGINT",
    "kind": "STRING",
    "key": "STRING",
    "row": "STRING",
    "reason": "STRING",
    "time": "TIMESTAMP_LTZ(3)",
}
_KEY: Final = ("name", "relation", "lsn", "position")
ERROR_SCHEMA: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("name", "relation")),
        *((name, pa.int64()) for name in ("lsn", "position")),
        *((name, pa.string()) for name in ("kind", "key", "row", "reason")),
        ("time", pa.timestamp("ms", tz="UTC")),
    ]
)


def error_rows(job: str, states: StateSlice, reasons: Mapping[int, str]) -> pa.Table:
    """Return the rows for the table of errors. reasons: of the rows of the slice that are bad, by their numbers."""
    numbers = sorted(reasons)
    relation = f"{states.relation.schema}.{states.relation.name}"
    rows = pa.array(numbers, pa.int64())
    columns = [
        pa.repeat(pa.scalar(job), len(numbers)),
        pa.repeat(pa.scalar(relation), len(numbers)),
        pa.array(states.end_lsns[numbers]),
        pa.array(states.positions[numbers]),
        states.kinds.take(rows),
        pa.array(_objects(states.keys, states, numbers)),
        pa.array(_objects(states.values, states, numbers)),
        pa.array([reasons[number] for number in numbers], pa.string()),
        pa.repeat(pa.scalar(now_millis(), pa.timestamp("ms", tz="UTC")), len(numbers)),
    ]
    return pa.table(
        [column.cast(f.type) for column, f in zip(columns, ERROR_SCHEMA, strict=True)], ERROR_SCHEMA
    )


def _objects(
    columns: Mapping[str, pa.Array], states: StateSlice, numbers: Sequence[int]
) -> list[str]:
    objects = []
    for number in numbers:
        carried = {
            name: column[number].as_py()
            for name, column in columns.items()
            if name not in states.unresolved or not states.unresolved[name][number]
        }
        objects.append(json.dumps(carried, ensure_ascii=False))
    return objects


@dataclass
class ErrorTable:
    """Writes bad rows of one job. stops: raise at the first bad row instead. count: bad rows since it was made."""

    catalog: Catalog
    database: str
    job: str
    stops: bool = False
    count: int = field(default=0, init=False)
    _in_table: int | None = field(default=None, init=False)

    def write(self, states: StateSlice, reasons: Mapping[int, str]) -> None:
        """Write the bad rows of a slice, in one commit; nothing without any."""
        if reasons:
            self.write_rows(error_rows(self.job, states, reasons))

    def write_rows(self, rows: pa.Table) -> None:
        """Write bad rows, of `ERROR_SCHEMA`, in one commit."""
        if self.stops:
            raise _bad_row(rows)
        errors_table(self.catalog, self.database).write(rows, commit_user=f"cdc/{self.job}")
        self.count += rows.num_rows
        self._in_table = None

    def in_table(self) -> int:
        """Return how many bad rows of the job the table has. They are counted when this object has written some."""
        if self._in_table is None:
            self._in_table = self._counted()
        return self._in_table

    def _counted(self) -> int:
        try:
            table = self.catalog.table(f"{self.database}.{ERRORS_TABLE}")
        except NotFoundError:
            return 0
        is_own = pc.field("name") == self.job
        return sum(
            each.num_rows for each in table.scan(columns=["lsn"], filter=is_own).to_batches()
        )


@dataclass
class KeptErrors(ErrorTable):
    """Keeps bad rows for another process, which writes them. rows: what was kept, of `ERROR_SCHEMA`."""

    rows: list[pa.Table] = field(default_factory=list, init=False)

    def write_rows(self, rows: pa.Table) -> None:
        """Keep bad rows."""
        self.rows.append(rows)


def errors_table(catalog: Catalog, database: str) -> Table:
    """Open the table of errors of a database; make it if it is missing."""
    name = f"{database}.{ERRORS_TABLE}"
    try:
        return catalog.table(name)
    except NotFoundError:
        options = {"merge-engine": "first-row", "bucket": "1"}
        return catalog.create_table(name, _COLUMNS, primary_key=list(_KEY), options=options)


def _bad_row(rows: pa.Table) -> InvalidError:
    first = rows.slice(0, 1).to_pylist()[0]
    return InvalidError(
        f"table {first['relation']}, key {first['key']}",
        found=f"{counted(rows.num_rows, 'row')} that cannot be applied; the first: {first['reason']}",
        expected="values that the types of the target hold",
        action="Correct the row at the source, or set on-error = 'park': bad rows go to a table then.",
    )
