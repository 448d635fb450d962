"""The law of histories, which `Table.audit` checks: the newest versions are the rows.

    base at the snapshot up to which the history goes      1 Rome   2 Bonn
    newest version of each key in the history              1 Rome   2 Bonn   3 deleted
                                                           4 Oslo   a finding: no row has this key

Older versions are not checked: their snapshots may have expired. In: a table with a history. Out: findings, added to
those that are given. Memory: the versions of some thousand keys at a time. Raises NotFoundError where a snapshot has
expired, and what lookups and scans raise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import numpy as np
import pyarrow as pa

from widetable.derive.changes.equal_keys import distinct_rows, rows_at
from widetable.derive.changes.row_difference import equal_rows
from widetable.derive.upkeep.keyed_findings import add_each
from widetable.derive.versions.history_table import find_history, history_name, written_until
from widetable.derive.versions.version_rows import known_versions, version_rows
from widetable.operations.handle.newest_snapshot import held
from widetable.operations.handle.open_table import OpenTable
from widetable.operations.health.audit_report import Finding, Findings
from widetable.operations.queries.table_at import scan_at, view_at
from widetable.schema.history_columns import kept_columns

_LAW: Final = "history"
# Their versions are read at once.
_KEYS_AT_ONCE: Final = 4096
_END_OF_TIME: Final = np.iinfo(np.int64).max


def audit_history(base: OpenTable, findings: Findings) -> None:
    """Compare the newest versions of all keys with the rows at the snapshot up to which the history goes."""
    history = find_history(base)
    latest = None if history is None else history._committer.snapshots.latest()
    until_id = 0 if history is None else written_until(base, history, latest)
    if history is None or latest is None or not until_id:
        findings.skip(f"law {_LAW}: {history_name(base)} has no versions yet")
        return
    with held(history._state(), latest.id), held(base._state(), until_id):
        _check_rows(base, history, latest.id, until_id, findings)
        _check_surplus(base, history, latest.id, until_id, findings)


def _check_rows(
    base: OpenTable, history: OpenTable, history_id: int, until_id: int, findings: Findings
) -> None:
    """Add a finding for each row that is not the newest version of its key."""
    key, columns = list(base.schema.primary_keys), list(kept_columns(base.schema))
    wrong = Finding(_LAW, until_id, f"the row in {history_name(base)}", "another version, or none")
    for rows in _pieces(scan_at(base, until_id, columns).to_batches()):
        newest = _newest(history, history_id, rows.select(key), columns)
        differs = pa.array(~equal_rows(rows, newest))
        findings.checked(_LAW, rows.num_rows)
        add_each(findings, wrong, rows.filter(differs).select(key))


def _check_surplus(
    base: OpenTable, history: OpenTable, history_id: int, until_id: int, findings: Findings
) -> None:
    """Add a finding for each key whose newest version is there although the table has no row."""
    key = list(base.schema.primary_keys)
    wrong = Finding(_LAW, until_id, "no version, or a deleted one", f"one in {history_name(base)}")
    with closing(view_at(base, until_id, key)) as view:
        for rows in _pieces(scan_at(history, history_id, key).to_batches()):
            keys = distinct_rows(rows)
            missing = keys.filter(view.lookup(keys).column(0).is_null())
            newest = _newest(history, history_id, missing, key)
            add_each(findings, wrong, missing.filter(newest.column(0).is_valid()))


def _newest(history: OpenTable, snapshot_id: int, keys: pa.Table, columns: list[str]) -> pa.Table:
    """Return the newest version of each key, nulls for those that have none or a deleted one."""
    batches = keys.combine_chunks().to_batches()
    batch = batches[0] if batches else pa.RecordBatch.from_pylist([], keys.schema)
    versions = version_rows(history, snapshot_id, batch, columns)
    rows, chosen = known_versions(versions, np.full(len(batch), _END_OF_TIME))
    chosen[np.append(rows.is_deleted, True)[chosen]] = -1
    return rows_at(rows.rows.select(columns), chosen)


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    for batch in batches:
        for start in range(0, len(batch), _KEYS_AT_ONCE):
            yield pa.Table.from_batches([batch.slice(start, _KEYS_AT_ONCE)])
