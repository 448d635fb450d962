"""The one Spark session of the demo: two local cores, UTC, scratch files in the workspace."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

import widetable_spark
from examples.flights.workspace import Workspace
from widetable_spark.startup.java_home import find_java_home

CORES = 2
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties").resolve()
_JAVA_OPTIONS = (
    f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}",
    # The run is short and the cores are few: optimising code and collecting garbage on more threads
    # costs more than it saves (together a third of the time that Java takes).
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
)


def start_session(workspace: Workspace) -> SparkSession:
    """Start Spark. Its Python workers run the interpreter that runs the demo."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["JAVA_HOME"] = find_java_home()
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    # What fails in foreachBatch ends its query, which raises it; not told a second time.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL)
    scratch = workspace.spark_scratch.resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    os.environ["SPARK_HOME"] = str(_spark_home(scratch / "home"))
    settings = {
        **widetable_spark.local_checkpoints(),
        "spark.app.name": "widetable flights demo",
        "spark.master": f"local[{CORES}]",
        "spark.driver.extraJavaOptions": " ".join(_JAVA_OPTIONS),
        "spark.driver.memory": "2g",
        # Processes that read, write and commit have imported widetable when they begin, many times a minute.
        "spark.python.daemon.module": "widetable_spark.warm_daemon",
        "spark.local.dir": str(scratch),
        "spark.scheduler.mode": "FAIR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # they would belong to no barrier
        "spark.sql.streaming.numRecentProgressUpdates": "10000",  # all of them
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _spark_home(folder: Path) -> Path:
    """The installed Spark without its python/lib/pyspark.zip.

    With it each Python process of Spark compiles pyspark anew out of the zip; without it they import the
    installed, compiled one. That is 0.4 instead of 1.3 seconds per process, and there are many.
    """
    folder.mkdir(exist_ok=True)
    for part in ("bin", "jars"):
        (folder / part).symlink_to(Path(pyspark.__file__).parent / part)
    return folder
