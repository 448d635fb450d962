"""A process of the kill test that gives the table another number of buckets, up and down, until a file named `stop`
appears. It is never refused: compactions leave what it moves alone.

rescaler.py TABLE STOP POINT CALL      POINT: a kill point of files, or "none"
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
from pathlib import Path

import widetable as wt
from tests.kill.killing_file_io import KillingFileIO

BUCKETS = (5, 1, 3, 2)


def main() -> None:
    path, stop, point, call = sys.argv[1:]
    table = wt.Table.open(path, file_io=KillingFileIO(point, int(call)))
    at = BUCKETS.index(table.schema.num_buckets)
    for buckets in itertools.cycle((*BUCKETS[at + 1 :], *BUCKETS[: at + 1])):
        if Path(stop).exists():
            break
        table.rescale(buckets)
        time.sleep(0.05)
    for buckets in (5, 1):
        table.rescale(buckets)
    # The maintainer's last round may have left the table alone because of this.
    with contextlib.suppress(wt.ConflictError):
        table.compact()


if __name__ == "__main__":
    main()
