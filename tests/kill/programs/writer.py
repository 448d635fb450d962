"""A writer process of the kill test: sends its batches in order, notes each in a log of its own
after the commit, as a streaming query does.

writer.py TABLE LOG SEED WRITER BATCHES POINT CALL      POINT: a kill point of files or of caches, or "none"
"""

from __future__ import annotations

import sys
from pathlib import Path

import widetable as wt
from tests.kill.killing_caches import CACHE_POINTS, kill_in_caches
from tests.kill.killing_file_io import KillingFileIO
from tests.kill.workload import batch


def main() -> None:
    path, log, seed, writer, batches, point, call = sys.argv[1:]
    if point in CACHE_POINTS:
        kill_in_caches(int(call))
    table = wt.Table.open(path, file_io=KillingFileIO(point, int(call)))
    noted = Path(log)
    start = int(noted.read_text()) + 1 if noted.exists() else 0
    for number in range(start, int(batches)):
        table.write(
            batch(int(seed), int(writer), number),
            commit_user=f"writer-{writer}",
            commit_identifier=number,
        )
        fresh = noted.with_suffix(".tmp")
        fresh.write_text(str(number))
        fresh.replace(noted)


if __name__ == "__main__":
    main()
