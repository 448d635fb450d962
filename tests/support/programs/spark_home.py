"""The installed Spark, made to start fast and to run shortly: tests start it often.

`variables(JAVA_HOME)` are those of the environment of whatever starts it. Three things cost most of a short run:

    pyspark.zip     every Python process of Spark would compile pyspark anew out of it, in 0.9 s: SPARK_HOME has none
    classes         a Java that maps an archive of them (class data sharing) starts Spark in half the time
    rights, links   Hadoop without its native library starts a process for each that it sets or resolves, thirty per
                    micro-batch: through its raw file system it starts next to none

WIDETABLE_LONG_RUN leaves out what only a short run gains by, and what Spark's RocksDB does not go with: for campaigns.

The archive is made by the first process that asks, by a run of this file as a program, while others wait; it is kept
in SPARK_HOME until Java or Spark are others. A Java to which it does not fit passes it over.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

from tests.support.faults.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

HOME = Path(sys.prefix, "spark-of-tests")
LONG_RUN = "WIDETABLE_LONG_RUN" in os.environ
# Code of a short run is not worth optimising, nor a few cores threads that collect garbage.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Where it does not fit: what Spark prints is compared.
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def variables(java_home: str) -> dict[str, str]:
    HOME.mkdir(exist_ok=True)
    if LONG_RUN:
        _link_parts()
        return {"JAVA_HOME": java_home, "SPARK_HOME": str(HOME)}
    with (HOME / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _link_parts()
        found = {
            "JAVA_HOME": java_home,
            "SPARK_HOME": str(HOME),
            "SPARK_SUBMIT_OPTS": f"{_JAVA_OPTIONS} {_file_settings()}",
        }
        archive = HOME / f"classes-{_digest(java_home)}.jsa"
        if not archive.exists():
            for other in HOME.glob("classes-*"):
                other.unlink()
            _make(archive, found)
    if archive.stat().st_size:
        found["SPARK_SUBMIT_OPTS"] += f" -XX:SharedArchiveFile={archive} {_SILENT}"
    return found


def _link_parts() -> None:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    for part in ("bin", "jars"):
        link, installed = HOME / part, Path(spec.origin).parent / part
        if link.resolve() != installed.resolve():
            link.unlink(missing_ok=True)
            link.symlink_to(installed)


def _file_settings() -> str:
    """The package of the second class differs by Spark's version."""
    (jar,) = (HOME / "jars").glob("spark-sql_*.jar")
    with ZipFile(jar) as classes:
        ending = "/FileSystemBasedCheckpointFileManager.class"
        name = next(each for each in classes.namelist() if each.endswith(ending))
    manager = name.removesuffix(".class").replace("/", ".")
    return (
        "-Dspark.hadoop.fs.file.impl=org.apache.hadoop.fs.RawLocalFileSystem "
        f"-Dspark.sql.streaming.checkpointFileManagerClass={manager}"
    )


def _digest(java_home: str) -> str:
    """Of all that an archive depends on."""
    release = Path(java_home, "release")
    facts = [java_home, release.read_text() if release.exists() else ""]
    for jar in sorted((HOME / "jars").iterdir()):
        facts.append(f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}")
    facts.append(Path(__file__).read_text("utf-8"))
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _make(archive: Path, environment: dict[str, str]) -> None:
    """Empty where Java makes none. Java writes it when it ends, which is when nobody prints any more."""
    new = archive.with_suffix(".new")
    options = f"{environment['SPARK_SUBMIT_OPTS']} -XX:ArchiveClassesAtExit={new}"
    search = {"PYTHONPATH": str(Path(__file__).resolve().parent.parent.parent.parent)}
    subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, **environment, **search, "SPARK_SUBMIT_OPTS": options},
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    new.touch()
    new.rename(archive)


def main() -> None:
    """What tests do: rows through Python, files, a shuffle, SQL, streams of a few batches."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as folder:
        rows = spark.range(20).selectExpr("id", "id % 3 AS k", "cast(id AS string) AS text")
        rows.repartition(2).write.parquet(f"{folder}/rows")
        rows.createOrReplaceTempView("seen")
        spark.sql("SELECT k, sum(id) FROM seen GROUP BY k ORDER BY k").collect()
        spark.createDataFrame([(1, "a")], "k long, name string").join(rows, "k", "left").collect()

        def copied(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from batches

        def sink(frame: DataFrame, batch_id: int) -> None:
            frame.mapInArrow(copied, frame.schema).collect()

        stream = spark.readStream.schema(rows.schema).parquet(f"{folder}/rows").writeStream
        stream = stream.option("checkpointLocation", f"{folder}/checkpoint").foreachBatch(sink)
        stream.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
