"""A streaming query with two lookup joins, one after the other, whose kills are planned by files.

    lookup_stream.py NOW SLOW PENDING SOURCE CHECKPOINT OUT KILLS

Rows (id, k) get `city` of the table NOW, and `name` of SLOW, for which they wait two batches. OUT: a line of JSON for
each batch that the sink got, [batch id, snapshots that it joined, rows]. KILLS: files named <batch>.<point>; one that
is reached is removed, and what it says dies by -9: "worker", or "all" (driver, JVM, daemon, workers).

Points: before_ and after_ pin, hold and snapshot, in a worker that publishes one of these, and sink: the sink has the
rows, and Spark has not noted the batch.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from unittest.mock import patch

import psutil
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from tests.kill.killing_file_io import kill_now
from widetable.storage.local import LocalFileIO
from widetable_spark import local_checkpoints, lookup_join, warm_daemon
from widetable_spark.joining.joining import BATCH_ID_PROPERTY

POINTS = tuple(
    f"{when}_{what}" for what in ("pin", "hold", "snapshot") for when in ("before", "after")
)
SINK, RETRY_BATCHES = "sink", 2
_DRIVER, _KILLS = "WIDETABLE_KILL_DRIVER", "WIDETABLE_KILLS_PLANNED"


def main() -> None:
    now, slow, pending, source, checkpoint, out, kills = sys.argv[1:]
    os.environ[_DRIVER], os.environ[_KILLS] = str(os.getpid()), kills
    spark = (
        SparkSession.builder.master("local[2,100]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.python.daemon.module", "tests.kill.programs.lookup_stream_daemon")
        .config(map=local_checkpoints())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")

    def sink(rows: DataFrame, batch_id: int) -> None:
        got = sorted(map(list, rows.collect()))
        joined = [_pinned(Path(table), batch_id) for table in (now, slow)]
        with Path(out).open("a") as file:
            file.write(json.dumps([batch_id, joined, got]) + "\n")
        _die_at(batch_id, SINK)

    left = spark.readStream.schema("id long, k long").option("maxFilesPerTrigger", 1)
    rows = lookup_join(left.parquet(source).repartition(3, "id"), now, ["k"], ["city"])
    waits = {"retry_batches": RETRY_BATCHES, "pending": pending, "pending_key": "id", "name": "0"}
    rows = lookup_join(rows, slow, ["k"], ["name"], **waits)  # type: ignore[arg-type]
    writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


def daemon() -> None:
    """The daemon of workers that die where they publish."""
    publish = LocalFileIO.publish

    def killing(self: LocalFileIO, path: str, data: bytes) -> bool:
        what, context = _kind(path), TaskContext.get()
        batch_id = None if context is None else context.getLocalProperty(BATCH_ID_PROPERTY)
        if what is None or batch_id is None:
            return publish(self, path, data)
        _die_at(int(batch_id), f"before_{what}")
        done = publish(self, path, data)
        _die_at(int(batch_id), f"after_{what}")
        return done

    with patch.object(LocalFileIO, "publish", killing):
        warm_daemon.main()


def _kind(path: str) -> str | None:
    if "/widetable-lookup-pin-" in path:
        return "hold" if "@" in path else "pin"
    return "snapshot" if "/snapshot/" in path else None


def _die_at(batch_id: int, point: str) -> None:
    """Whoever takes the plan dies, others go on."""
    plan = Path(os.environ[_KILLS]) / f"{batch_id}.{point}"
    try:
        who = plan.read_text()
        plan.unlink()
    except FileNotFoundError:
        return
    if who == "all":
        driver = psutil.Process(int(os.environ[_DRIVER]))
        tree = [driver, *driver.children(recursive=True)]
        for process in sorted(tree, key=lambda each: each.pid == os.getpid()):
            process.send_signal(signal.SIGKILL)
    kill_now()


def _pinned(table: Path, batch_id: int) -> int:
    pins = table.glob(f"service/widetable-lookup-pin-*-{batch_id}")
    (pin,) = (each for each in pins if "@" not in each.name)
    return int(json.loads(pin.read_text())["snapshot_id"])


if __name__ == "__main__":
    main()
