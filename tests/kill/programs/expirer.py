"""A process that expires snapshots and cleans orphans until a file named `stop` appears.

expirer.py TABLE STOP CALL      CALL: it kills itself (SIGKILL) at the delete of that number; -1: never
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import widetable as wt
from tests.kill.killing_file_io import kill_now
from tests.support.faults.patience import PATIENCE_SECONDS
from widetable.storage.local import LocalFileIO

# Longer than any commit of the test takes.
CLEANED_MILLIS = int(PATIENCE_SECONDS * 1000)


class KillingDeletes(LocalFileIO):
    """Kills before or after that delete."""

    def __init__(self, call: int) -> None:
        super().__init__(fsync=False)
        self._left = call
        self._kills_after = call % 2 == 1

    def delete(self, path: str) -> bool:
        is_last, self._left = self._left == 0, self._left - 1
        if is_last and not self._kills_after:
            kill_now()
        done = super().delete(path)
        if is_last:
            kill_now()
        return done


def main() -> None:
    path, stop, call = sys.argv[1:]
    deletes = LocalFileIO(fsync=False) if call == "-1" else KillingDeletes(int(call))
    table = wt.Table.open(path, file_io=deletes)
    is_last = False
    while not is_last:
        is_last = Path(stop).exists()
        table.expire_snapshots(num_retained_min=2, time_retained_millis=0)
        if table.snapshots():  # before the first one nobody knows what is an orphan
            table.remove_orphan_files(older_than_millis=CLEANED_MILLIS)
        time.sleep(0.05)


if __name__ == "__main__":
    main()
