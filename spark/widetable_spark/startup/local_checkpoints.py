"""Settings of Spark for streams whose checkpoints lie on a local disk: Spark writes them without a process for each
file.

Hadoop without its native library, as PyPI's pyspark has it, starts `chmod` for each right that it sets and `readlink`
for each link that it resolves: thirty processes in a micro-batch of a file source, 0.1 s and more, most of the time
that a small one takes (docs/facts/spark.md, section 4). Hadoop's bare local file system, without files of checksums,
and Spark's other writer of checkpoints, which does not go through Hadoop's `FileContext`, start a tenth of them.

In: the installed Spark, at SPARK_HOME where that is set. Out: settings. Raises NotFoundError where no Spark is
installed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zipfile import BadZipFile, ZipFile

import pyspark

from widetable import NotFoundError

if TYPE_CHECKING:
    from pyspark.sql._typing import OptionalPrimitiveType

# Its package changed in Spark 4.1, so the class is searched for.
_WRITER: Final = "/FileSystemBasedCheckpointFileManager.class"


def local_checkpoints() -> dict[str, OptionalPrimitiveType]:
    """Return settings that make small micro-batches faster where checkpoints are on a local disk.

    Streams with small batches take a third to a half of the time. In return, files that Spark writes to local paths get
    no `.crc` beside them, and a second driver that runs the same query from the same checkpoint may be noticed a batch
    later. Keep the settings for a checkpoint that was written with them: without them Spark refuses files whose older
    `.crc` does not match. Other file systems are not affected, but their checkpoints should keep Spark's own writer.

    Returns
    -------
    dict of str to str
        Settings for `SparkSession.builder.config(map=...)`, before Spark starts.

    Raises
    ------
    NotFoundError
        No Spark is installed, as with the client of Spark Connect alone.

    Examples
    --------
    >>> import widetable_spark
    >>> widetable_spark.local_checkpoints()["spark.hadoop.fs.file.impl"]
    'org.apache.hadoop.fs.RawLocalFileSystem'
    """
    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    return {
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.sql.streaming.checkpointFileManagerClass": _writer_class(Path(home) / "jars"),
    }


def _writer_class(jars: Path) -> str:
    """Return the full name of Spark's writer that uses Hadoop's `FileSystem`; its class file gives it."""
    for jar in sorted(jars.glob("spark-sql_*.jar")):
        try:
            with ZipFile(jar) as classes:
                names = [name for name in classes.namelist() if name.endswith(_WRITER)]
        except (OSError, BadZipFile):
            continue
        if names:
            return names[0].removesuffix(".class").replace("/", ".")
    raise NotFoundError(
        f"Spark's classes in {jars}",
        found="no jar spark-sql with the class FileSystemBasedCheckpointFileManager",
        expected="an installed Spark",
        action="Install pyspark, or set SPARK_HOME to an installed Spark.",
    )
