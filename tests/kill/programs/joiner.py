"""A joiner process of the kill test: rounds of one joined table, until a file named `stop` appears; then a last one.

joiner.py TABLE STOP POINT CALL      POINT: a kill point of files, "consumer_not_moved", or "none"
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import widetable as wt
from tests.kill.killing_file_io import KillingFileIO, kill_now
from widetable.derive.joins.delta_join import join_round

JOINER_POINTS = ("consumer_not_moved",)


class KillingAtConsumers(KillingFileIO):
    """Kills ahead of the note of a consumer, too."""

    def replace(self, path: str, data: bytes, *, durable: bool = True) -> None:
        if "/consumer/" in path and self._reached("consumer_not_moved"):
            kill_now()
        super().replace(path, data, durable=durable)


def main() -> None:
    path, stop, point, call = sys.argv[1:]
    table = wt.Table.open(path, file_io=KillingAtConsumers(point, int(call)))
    is_last = False
    while not is_last:
        is_last = Path(stop).exists()
        done = join_round(table)
        assert done is not None
        is_last = is_last and not done.gave_way
        time.sleep(0.02)  # leaves the other processes their turn


if __name__ == "__main__":
    main()
