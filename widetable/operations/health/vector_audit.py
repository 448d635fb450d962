"""The law of deletion vectors: above level 0 each key has one row that is not deleted.

    L9  k = 1 2 3, row of 2 deleted      4 rows, 4 keys: it holds
    L8  k = 2 4
    L9  k = 1 2 3, no vector             5 rows, 4 keys: a reader that trusts vectors shows 2 twice

In: a snapshot that a lease keeps from expiry. Out: a finding per bucket. Only keys are read, in bounded memory; rows
are counted unmerged and merged. Our own readers merge if files of several levels are left, so they would not
show such a row. Source: format.md section 13, Index files. A bucket with a file that cannot be read is skipped, because
that is a finding of another law. Raises StorageError when the storage refuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from widetable.commit.snapshots.live_files import LiveFiles
from widetable.errors import DamagedError, NotFoundError
from widetable.format.bucket_id import BucketId, by_bucket
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.row_budget import BATCH_BYTES
from widetable.format.snapshot import Snapshot
from widetable.kernels.arrow_buffers import fixed_values
from widetable.lsm.rows_opener import RowsOpener
from widetable.messages.counted import counted
from widetable.operations.health.audit_report import Finding, Findings
from widetable.operations.health.snapshot_audit import partition_text
from widetable.read.merge_read import read_bucket
from widetable.schema import options as opt
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import VALUE_KIND
from widetable.write.table_state import TableState

LAW: Final = "vectors"


def audit_vectors(
    table: TableState, findings: Findings, live_files: LiveFiles, snapshot: Snapshot
) -> None:
    """Check each bucket of a snapshot that a reader may read without a merge."""
    if not table.options.get(opt.DELETION_VECTORS_ENABLED):
        return
    for bucket, members in by_bucket(live_files.live_entries(snapshot)).items():
        files = [entry.file for entry in members if entry.file.level > 0]
        if len(files) < 2 and all(file.deleted is None for file in files):
            continue
        place = partition_text(bucket.partition, table.schema), bucket.number
        findings.checked(LAW)
        try:
            rows, keys = _counts(table, bucket, files)
        except (
            DamagedError,
            NotFoundError,
        ) as error:  # a lease keeps the snapshot: it has not expired
            finding = Finding(LAW, snapshot.id, error.expected, error.found, *place, error.subject)
            findings.add(finding)
            continue
        if rows != keys:
            expected = (
                f"{counted(keys, 'row that is', 'rows that are')} not deleted, as many as keys"
            )
            findings.add(Finding(LAW, snapshot.id, expected, counted(rows, "row"), *place))


def _counts(table: TableState, bucket: BucketId, files: Sequence[DataFileMeta]) -> tuple[int, int]:
    key = table.schema.trimmed_primary_key
    opener = RowsOpener(table, bucket, key, None)
    rows = 0
    for file in files:
        for batch in opener.batches(file, BATCH_BYTES):
            kinds = fixed_values(batch.column(VALUE_KIND), np.int8)
            rows += batch.num_rows - int(is_retraction(kinds).sum())
    merged = read_bucket(table, bucket, files, key, None, merge=True)
    return rows, sum(batch.num_rows for batch in merged)
