"""`cdc_apply`: a streaming query that applies records of change data capture to a table, each batch once.

    query = (widetable_spark.cdc_apply(kafka, "warehouse", "shop.users", key=["id"])
             .option("checkpointLocation", ..).start())

Tasks read records, give their values types and write files; the driver commits the files of a batch with the query as
user and the batch's number as identifier.

    batch 7    tasks: records ─► files, forms ─► table altered? tasks again ─► bad records parked ─► commit 7
    killed before the commit          batch 7 comes again: its earlier files are orphans, bad records are there once
    killed behind the commit          batch 7 comes again: the table has it, no task runs

The order of records of one key counts. Of Kafka a task gets whole partitions, by offset. Files are read by one task, in
the order of their modification times, then their names, and the order of their lines. Raises InvalidError for frames
whose order nobody knows, and what `widetable_cdc.apply_debezium` raises.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.streaming.readwriter import DataStreamWriter

from widetable import Catalog, InvalidError, Table
from widetable.connector import arguments, counted
from widetable_cdc import DebeziumSettings
from widetable_cdc.debezium.connect_schema import RecordForm
from widetable_cdc.debezium.debezium_apply import DebeziumJob
from widetable_cdc.debezium.last_delete import property_of
from widetable_cdc.debezium.target_table import target_table
from widetable_spark.jobs.cdc_task import OFFSET, PARTITION, CdcMessage, CdcTask
from widetable_spark.writing.task_results import collected_messages
from widetable_spark.writing.task_writer import QUERY_ID_PROPERTY

DEBEZIUM_JSON: Final = "debezium-json"
_FILE_ORDER: Final = ("file_modification_time", "file_path", "file_block_start")
_LINE: Final = "_widetable_line"
# The table may lack a column that only records behind the first forms have.
_MAX_TRIES: Final = 5


def cdc_apply(
    df: DataFrame,
    warehouse: str | os.PathLike[str],
    table: str,
    *,
    format: str = DEBEZIUM_JSON,
    key: Sequence[str] | None = None,
    order: Sequence[str] | None = None,
    commit_user: str | None = None,
    settings: DebeziumSettings | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataStreamWriter:
    """Make a streaming query that applies records to a table, each batch once.

    Parameters
    ----------
    df : DataFrame
        A stream with the column `value` and, if records have keys, `key`: Kafka's source, or lines of text files.
    warehouse : str or os.PathLike
        The path or URL of the warehouse.
    table : str
        The table, as `db.name`.
    format : str, default "debezium-json"
        The format of the records.
    key : list of str, default None
        The primary key of a table that is missing. None: the table is there.
    order : list of str, default None
        Columns that give the order of the records. None: Kafka's, or that of lines in files.
    commit_user : str, default None
        The name under which batches count. None: the query's id, which its checkpoint keeps.
    settings : widetable_cdc.DebeziumSettings, default None
        How records are read and applied. None: the defaults.
    storage_options : dict of str to str, default None
        Options of an object store, as in `widetable.Catalog`. None: the environment says them.

    Returns
    -------
    DataStreamWriter
        The query, not started yet: give it a checkpoint and a trigger.

    Raises
    ------
    InvalidError
        An argument is wrong, the frame is no stream, or nobody knows the order of its records.

    Examples
    --------
    >>> from pathlib import Path
    >>> import widetable_spark
    >>> records = Path("records").absolute()
    >>> records.mkdir()
    >>> lines = spark.readStream.text(str(records))
    >>> query = widetable_spark.cdc_apply(lines, "warehouse", "shop.orders", key=["id"])
    """
    arguments.one_of(format, (DEBEZIUM_JSON,), "format")
    records = _ordered(arguments.instance(df, DataFrame, "df"), order)
    catalog = Catalog(warehouse, storage_options=storage_options)
    job = DebeziumJob.checked(catalog, table, commit_user or "query", key, settings)
    return records.frame.writeStream.foreachBatch(CdcSink(job, records, commit_user))


@dataclass(frozen=True)
class OrderedRecords:
    """A frame, and the columns that order its rows. by: the columns whose rows stay together; () for all rows."""

    frame: DataFrame
    order: tuple[str, ...]
    by: tuple[str, ...]

    def of_batch(self, rows: DataFrame) -> DataFrame:
        """Return the rows of a batch, those of one partition together and in their order."""
        if self.by:
            return rows.repartition(*self.by).sortWithinPartitions(*self.order)
        lines = rows.withColumn(_LINE, sf.monotonically_increasing_id())
        return lines.repartition(1).sortWithinPartitions(*self.order, _LINE)


def _ordered(df: DataFrame, order: Sequence[str] | None) -> OrderedRecords:
    names = df.columns
    if not df.isStreaming or "value" not in names:
        raise InvalidError(
            "df",
            found=f"a {'stream' if df.isStreaming else 'batch'} of {', '.join(names)}",
            expected="a stream with a column 'value'",
            action="Load it by spark.readStream, and name the column of the records value.",
        )
    chosen = [name for name in ("key", "value") if name in names]
    if order is not None:
        columns = arguments.names(order, "order")
        return OrderedRecords(df.select(*dict.fromkeys([*chosen, *columns])), columns, ())
    if PARTITION in names and OFFSET in names:
        by = tuple(name for name in ("topic", PARTITION) if name in names)
        return OrderedRecords(df.select(*chosen, *by, OFFSET), (*by, OFFSET), by)
    try:
        of_file = [sf.col(f"_metadata.{name}").alias(name) for name in _FILE_ORDER]
        return OrderedRecords(df.select(*chosen, *of_file), _FILE_ORDER, ())
    except AnalysisException:
        raise InvalidError(
            "df",
            found=f"the columns {', '.join(names)}, of neither Kafka nor files",
            expected="an order of the records: those of one key must come as they were made",
            action="Pass order=[...], the columns that order the records.",
        ) from None


@dataclass(frozen=True)
class CdcSink:
    """The function of `foreachBatch` of `cdc_apply`. user: None for the query's id."""

    job: DebeziumJob
    records: OrderedRecords
    user: str | None

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        user = self.user or df.sparkSession.sparkContext.getLocalProperty(QUERY_ID_PROPERTY)
        job = DebeziumJob(
            self.job.catalog, self.job.name, str(user), self.job.key, self.job.settings
        )
        table = target_table(job.catalog, job.name)
        if job.earlier(table, batch_id) is not None:
            return
        rows = self.records.of_batch(df)
        for _ in range(_MAX_TRIES):
            messages = collected_messages(rows, _task(job, table).write)
            if not any(message.needs_table for message in messages):
                break
            _discard(table, messages)
            table = job.fitting(_forms(messages))
        else:
            raise InvalidError(
                f"table {job.name!r}",
                found=f"columns that are missing after {_MAX_TRIES} tries",
                expected="a table that has the columns of the records",
                action="See who else alters the table, then start the query again.",
            )
        _commit(job, table, messages, batch_id)


def _task(job: DebeziumJob, table: Table | None) -> CdcTask:
    if table is None:
        return CdcTask(job, None, 0, 0)
    return CdcTask(job, table, table.sequence_base(), table.schema.id)


def _forms(messages: Sequence[CdcMessage]) -> list[RecordForm]:
    return list(dict.fromkeys(form for message in messages for form in message.forms))


def _discard(table: Table | None, messages: Sequence[CdcMessage]) -> None:
    if table is not None:
        table.discard([file for message in messages for file in message.files])


def _commit(
    job: DebeziumJob, table: Table | None, messages: Sequence[CdcMessage], batch_id: int
) -> None:
    """Park bad records, and commit the files."""
    partitions = {partition for message in messages for partition in message.partitions}
    try:
        if len(partitions) > 1 and any(message.has_truncate for message in messages):
            raise InvalidError(
                f"table {job.name!r}",
                found=f"a truncate beside records of {counted(len(partitions), 'partition')}, in no order",
                expected="a topic of one partition, if truncates are to be applied",
                action="Pass DebeziumSettings(truncate='ignore'), or give the topic one partition.",
            )
        job.park([message.bad for message in messages], batch_id)
    except InvalidError:
        _discard(table, messages)
        raise
    if table is not None:
        files = [file for message in messages for file in message.files]
        ending = [each.last_delete for each in messages if each.last_delete is not None]
        before = table.scan().snapshot_id if ending else None
        table.commit_append(files, job.user, batch_id, property_of(ending, before))
