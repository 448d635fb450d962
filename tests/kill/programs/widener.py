"""A maintainer process of the kill test of widened columns, until a file named `stop` appears.

widener.py TABLE STOP POINT CALL      POINT: a kill point of files, or "none"
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import widetable as wt
from tests.kill.killing_file_io import KillingFileIO
from widetable.connector import Upkeep


def main() -> None:
    path, stop, point, call = sys.argv[1:]
    table = wt.Table.open(path, file_io=KillingFileIO(point, int(call)))
    with table.maintainer(Upkeep(interval_millis=0)) as maintainer:
        while not Path(stop).exists():
            maintainer.round()
            time.sleep(0.02)


if __name__ == "__main__":
    main()
