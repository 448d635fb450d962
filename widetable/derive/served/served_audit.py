"""Compares what sessions gave with what the table gives offline, as of the snapshots that answered.

    log, batch by batch ─► the rows of this table and branch ─► those that asked the same of the same snapshot
                        ─► repeated offline (`repeated_request`) ─► cell by cell

Values are compared as everywhere (`merge/row_equality`): null is null, NaN is NaN, -0.0 is not 0.0. A request whose
snapshot is gone is counted, and is not equal. A lease keeps the snapshots that are there while the audit runs; a log
itself keeps none. Memory: a batch of the log, and its values once more.

In: a table and its log. Out: the report. Raises InvalidError for a table that is no log, NotFoundError for a log that
does not exist or that has rows of other tables only, DamagedError for rows that no session wrote, and what reading both
tables raises.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable.arguments import whole_number
from widetable.derive.served.repeated_request import GoneError, RequestGroup, RequestRepeater
from widetable.derive.served.request_text import asked_of
from widetable.derive.served.served_report import GoneSnapshot, ServedCell, ServedReport
from widetable.derive.served.served_table import (
    ASKED,
    BRANCH,
    KEY,
    MARK,
    REQUEST,
    ROW,
    SCHEMA,
    SESSION,
    SNAPSHOT,
    TABLE,
    name_in_log,
    opened_log,
    value_column,
)
from widetable.errors import InvalidError, NotFoundError
from widetable.format.printed_value import printed, printed_rows
from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import one_array
from widetable.merge.row_equality import equal_values
from widetable.operations.handle.chosen_state import chosen_state
from widetable.operations.handle.newest_snapshot import held, held_newest
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.windows.served_request import AnsweringSnapshot
from widetable.read.expired import is_kept

# The number of differing cells that a report lists.
CELLS_LISTED: Final = 20
_GROUP: Final = (ASKED, SNAPSHOT, MARK, SCHEMA)


def audit_served(
    table: OpenTable, log: OpenTable | str, findings: int = CELLS_LISTED
) -> ServedReport:
    """Compare what lookup sessions gave with what the table gives for the same keys, times and snapshots.

    It repeats all requests that sessions of this table and branch have logged (`served_log` of `Table.lookup_session`)
    and compares each value. None may differ. It changes nothing, except that leases keep the snapshots while it runs.

    Parameters
    ----------
    log : Table or str
        The log, or its `db.name` in the same warehouse.
    findings : int, default 20
        The number of differing values that are listed; the others are counted.

    Returns
    -------
    ServedReport
        What was compared, the values that differ, and the requests whose snapshots are gone.

    Raises
    ------
    NotFoundError
        There is no such log, or it has rows of other tables only.
    InvalidError
        The table is no log, or lacks a column of a value.
    DamagedError
        A row of the log was not written by a session.

    Examples
    --------
    >>> with users.lookup_session(served_log="shop.served") as session:
    ...     _ = session.lookup([1, 2])
    >>> report = users.audit_served("shop.served")
    >>> report.requests, report.cells, report.differing
    (1, 4, 0)
    """
    findings = whole_number(findings, "findings", least=0)
    opened = opened_log(table, log, "log")
    return _ServedAudit(table, opened, findings).run()


class _ServedAudit:
    """Run one audit. It counts what it compares."""

    def __init__(self, table: OpenTable, log: OpenTable, findings: int) -> None:
        self._table = table
        self._log = log
        self._findings = findings
        self._repeater = RequestRepeater(table)
        self._requests = self._rows = self._cells = self._differing = 0
        self._listed: list[ServedCell] = []
        self._gone: Counter[tuple[int, str]] = Counter()

    def run(self) -> ServedReport:
        log = self._log
        with held_newest(log._state(), log._committer) as newest:
            if newest is None:
                return self._report(0)
            chosen = chosen_state(log, newest.id)._replace(state=log._state())
            own = (pc.field(TABLE) == name_in_log(self._table)) & (
                pc.field(BRANCH) == self._table.branch
            )
            with self._held(chosen.scan([SNAPSHOT], own).to_arrow()):
                count = 0
                for batch in chosen.scan(None, own).to_batches():
                    count += batch.num_rows
                    for requests in _grouped(pa.Table.from_batches([batch]), log.path):
                        self._compare(requests)
            total = chosen.scan([SNAPSHOT]).count()
            if total and not count:
                self._refuse_others(chosen.scan([TABLE, BRANCH]).to_arrow())
        return self._report(total - count)

    @contextlib.contextmanager
    def _held(self, rows: pa.Table) -> Iterator[None]:
        """Keep the oldest snapshot that is still there, and all later ones, from expiry."""
        ids = pc.unique(one_array(rows.column(SNAPSHOT))).drop_null().to_pylist()
        with contextlib.ExitStack() as stack:
            for id in sorted(ids):
                if is_kept(self._table._file_io, self._table._paths, id):
                    # Refused for one that expires just now: then the next one is the oldest.
                    with contextlib.suppress(NotFoundError):
                        stack.enter_context(held(self._table._state(), id))
                        break
            yield

    def _compare(self, requests: RequestGroup) -> None:
        rows = requests.rows
        count = int(pc.sum(pc.equal(rows.column(ROW), 0)).as_py() or 0)
        try:
            keys = self._repeater.keys(requests)
            for name in keys:
                self._check_column(name, name, rows)
            offline = self._repeater.values(requests)
        except GoneError as gone:
            self._gone[gone.snapshot_id, str(gone)] += count
            return
        self._requests += count
        self._rows += rows.num_rows
        for name in offline.column_names:
            self._compare_column(name, one_array(offline.column(name)), requests, keys)

    def _compare_column(
        self, name: str, offline: pa.Array, requests: RequestGroup, keys: Sequence[str]
    ) -> None:
        logged = value_column(name, self._table.schema.primary_keys)
        self._check_column(logged, name, requests.rows)
        served = one_array(requests.rows.column(logged))
        if offline.type != served.type:  # the column of the log was made wider
            offline = offline.cast(served.type)
        differs = np.flatnonzero(~equal_values(served, offline))
        self._cells += len(served)
        self._differing += len(differs)
        wanted = differs[: max(self._findings - len(self._listed), 0)]
        if not len(wanted):
            return
        places = pa.array(wanted)
        rows = requests.rows.take(places)
        values = zip(
            printed_rows(rows.select(keys)),
            printed_rows(rows.select(KEY)),
            printed(served.take(places)),
            printed(offline.take(places)),
            strict=True,
        )
        id = requests.answered.id
        self._listed += [
            ServedCell(key, name, id, place[SESSION], place[REQUEST], place[ROW], given, right)
            for key, place, given, right in values
        ]

    def _check_column(self, logged: str, name: str, rows: pa.Table) -> None:
        if logged not in rows.column_names:
            raise InvalidError(
                f"log {self._log.path}",
                found=f"no column {logged!r}, for values of {name!r}",
                expected="the columns that the sessions added",
                action="Give the column its name again, or name the log that has it.",
            )

    def _report(self, other_rows: int) -> ServedReport:
        gone = [GoneSnapshot(id, requests, reason) for (id, reason), requests in self._gone.items()]
        return ServedReport(
            self._table.path,
            self._log.path,
            self._requests,
            self._rows,
            self._cells,
            self._differing,
            tuple(self._listed),
            sum(self._gone.values()),
            tuple(sorted(gone, key=lambda each: (each.snapshot_id, each.reason))),
            other_rows,
        )

    def _refuse_others(self, rows: pa.Table) -> None:
        others = rows.group_by([TABLE, BRANCH]).aggregate([]).to_pylist()
        names = sorted(f"{each[TABLE]} ({each[BRANCH]})" for each in others)
        raise NotFoundError(
            f"log {self._log.path}",
            found=f"requests of {', '.join(names[:10])} only",
            expected=f"requests of {name_in_log(self._table)} ({self._table.branch})",
            action="Audit the table and branch that were served, or name another log.",
        )


def _grouped(rows: pa.Table, path: str) -> Iterator[RequestGroup]:
    """Split rows of the log into those that asked the same of the same snapshot."""
    codes = [_codes(one_array(rows.column(name))) for name in (SNAPSHOT, MARK, SCHEMA, ASKED)]
    order = np.lexsort(codes[::-1])
    ordered = np.stack(codes)[:, order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    edges = [*np.flatnonzero(is_new).tolist(), len(order)]
    for first, end in pairwise(edges):
        group = rows.take(pa.array(order[first:end]))
        text, id, mark, schema_id = (group.column(name)[0].as_py() for name in _GROUP)
        answered = AnsweringSnapshot(id, mark, -1 if schema_id is None else schema_id)
        yield RequestGroup(asked_of(text, path), answered, group)


def _codes(column: pa.Array) -> Positions:
    """Return equal numbers for equal values, -1 for null."""
    codes: Positions = column.dictionary_encode().indices.fill_null(-1).to_numpy().astype(np.int64)
    return codes
