"""A reader process of the kill test: keeps running totals of the table's changelog in a second table, exactly once.

reader.py TABLE TOTALS STOP POINT CALL      POINT: a reader's point, a kill point of the totals' commits, or "none"

Points of its own: totals_not_written (changes are read, nothing is noted), consumer_not_advanced (the totals are
committed, the consumer is still before them). One batch of changes is one commit of the totals; snapshot and place of
the batch make its identifier, so a batch that is given again after a kill commits nothing.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa

import widetable as wt
from tests.kill.killing_file_io import KillingFileIO, kill_now
from tests.kill.workload import TOTALS, signed_totals, totals_rows

READER_POINTS = ("totals_not_written", "consumer_not_advanced")
_BATCHES_PER_SNAPSHOT = 1 << 20


def main() -> None:
    path, totals_path, stop, point, call = sys.argv[1:]
    left = int(call)
    totals = wt.Table.open(totals_path, file_io=KillingFileIO(point, left))
    table = wt.Table.open(path)
    places: Counter[int] = Counter()
    changes = table.follow(
        consumer_id="totals", scan_mode="from-snapshot", snapshot_id=1, timeout=0.5
    )
    while True:
        is_last = Path(stop).exists()
        for batch in changes:
            snapshot = int(batch.schema.metadata[b"widetable.snapshot-id"])
            left -= point in READER_POINTS
            if point == "totals_not_written" and left < 0:
                kill_now()
            _add(totals, batch, snapshot * _BATCHES_PER_SNAPSHOT + places[snapshot])
            places[snapshot] += 1
            if point == "consumer_not_advanced" and left < 0:
                kill_now()
        if is_last:
            return
        changes = table.follow(consumer_id="totals", timeout=0.5)


def _add(totals: wt.Table, changes: pa.RecordBatch, identifier: int) -> None:
    if totals.find_commit("reader", identifier) is not None:
        return
    added = signed_totals(changes.to_pylist())
    keys = pa.table({"bucket": sorted(added)})
    before = {
        row["bucket"]: row for row in totals.lookup(keys).to_pylist() if row["bucket"] is not None
    }
    for bucket, row in before.items():
        for name in TOTALS:
            added[bucket][name] += row[name]
    totals.write(totals_rows(added), commit_user="reader", commit_identifier=identifier)


if __name__ == "__main__":
    main()
