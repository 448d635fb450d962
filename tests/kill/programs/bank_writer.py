"""A program that books transfers into two tables under barriers, batch by batch: the credits, then the debits. Started
again it goes on in each table behind the last batch that is in.

bank_writer.py WAREHOUSE TRANSFERS BATCH_SIZE POINT CALL
"""

from __future__ import annotations

import sys
from collections import Counter

import widetable as wt
from tests.kill.killing_file_io import KillingFileIO
from tests.support.tables.bank import batches, original

INTERVAL = 10
CREDITS, DEBITS = "bank.credits", "bank.debits"


def main() -> None:
    warehouse, transfers, size, point, call = sys.argv[1:6]
    catalog = wt.Catalog(warehouse, file_io=KillingFileIO(point, int(call)))
    credits, debits = (catalog.writer(name, "transfers") for name in (CREDITS, DEBITS))
    for number, batch in enumerate(batches(original(int(transfers)), int(size))):
        for writer, side in ((credits, "credited"), (debits, "debited")):
            totals = Counter(getattr(transfer, side) for transfer in batch)
            if number <= (-1 if writer.last_identifier is None else writer.last_identifier):
                continue
            rows = {"account": list(totals), "total": list(totals.values())}
            barrier = INTERVAL * (number + 1)
            writer.write(rows, number, barrier=barrier, complete=True)


if __name__ == "__main__":
    main()
