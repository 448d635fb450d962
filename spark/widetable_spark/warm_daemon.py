"""The daemon of Spark's Python workers, which imports widetable and loads its kernels before it forks the first worker.

    spark.python.daemon.module = widetable_spark.warm_daemon          when the session is made

Without it every new worker imports and loads for itself, with the first rows that it looks up. The daemon opens no
cache and starts no thread before it forks. If warming fails, the log of the executor says so, and workers load for
themselves.

A forked process must hold no lock and no thread of another one: so only the kernels are loaded, which the workers share
as pages of memory, and nothing is opened. `settle` freezes them, so that no collection in a worker copies these pages.
"""

from __future__ import annotations

import logging

from pyspark.daemon import manager

from widetable.connector import WarningCode, warm_lookups, warn
from widetable_spark.joining import joining as joining  # what tasks unpickle
from widetable_spark.startup.worker_heap import settle

_log = logging.getLogger("widetable.spark")


def main() -> None:
    """Run `pyspark.daemon` in a process that has loaded the kernels."""
    try:
        warm_lookups()
        settle()
    except Exception:  # noqa: BLE001 - the session goes on without
        warn(_log, WarningCode.COLD_WORKERS, "workers start cold", exc_info=True)
    manager()


if __name__ == "__main__":
    main()
