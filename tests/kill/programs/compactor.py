"""A maintainer process of the kill test: compacts, and so makes the changelog, until a file named `stop` appears.

compactor.py TABLE STOP POINT CALL      POINT: a kill point of files or of caches, or "none"
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import widetable as wt
from tests.kill.killing_caches import CACHE_POINTS, kill_in_caches
from tests.kill.killing_file_io import KillingFileIO


def main() -> None:
    path, stop, point, call = sys.argv[1:]
    if point in CACHE_POINTS:
        kill_in_caches(int(call))
    table = wt.Table.open(path, file_io=KillingFileIO(point, int(call)))
    number, is_last = 0, False
    while not is_last:
        is_last = Path(stop).exists()  # one more round: for what came after the one before
        # The other maintainer may have been faster in every round: then nothing is left to do.
        with contextlib.suppress(wt.ConflictError):
            table.compact(full=number % 5 == 4)
        number += 1
        time.sleep(0.1)


if __name__ == "__main__":
    main()
