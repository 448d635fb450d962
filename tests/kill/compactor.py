"""The compactor process of the kill test: compacts until a file named `stop` appears.

compactor.py TABLE STOP POINT CALL
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import widetable as wt
from tests.kill.killing_file_io import KillingFileIO


def main() -> None:
    path, stop, point, call = sys.argv[1:]
    table = wt.Table.open(
        path, file_io=KillingFileIO(None if point == "none" else point, int(call))
    )
    number = 0
    while not Path(stop).exists():
        table.compact(full=number % 5 == 4)
        number += 1
        time.sleep(0.05)


if __name__ == "__main__":
    main()
