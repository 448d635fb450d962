"""The options of `format("widetable")`: names, kinds of values, and what each is for. Pure data.

`source_options` reads their values, and docs/options.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PATH: Final = "path"
BRANCH: Final = "branch"
SNAPSHOT_ID: Final = "snapshot-id"
TIMESTAMP: Final = "timestamp-millis"
TAG: Final = "tag"
INCREMENTAL: Final = "incremental-between"
COMMIT_USER: Final = "commit-user"
COMMIT_IDENTIFIER: Final = "commit-identifier"
ROW_KIND: Final = "row-kind"
ROW_COLUMNS: Final = "row-columns"
WATERMARK_COLUMN: Final = "watermark-column"
WATERMARK_DELAY: Final = "watermark-delay"
READ_CHANGELOG: Final = "read.changelog"
CHANGE_COLUMNS: Final = "read.change-columns"
FEED_SAMPLES: Final = "samples.feed"
CONSUMER_ID: Final = "consumer-id"
SCAN_MODE: Final = "scan.mode"
SCAN_SNAPSHOT_ID: Final = "scan.snapshot-id"
SCAN_TIMESTAMP: Final = "scan.timestamp-millis"
COLUMNS: Final = "columns"
BARRIER: Final = "barrier"
BARRIER_JOB: Final = "barrier.job"
BARRIER_WRITER: Final = "barrier.writer"
MAX_SNAPSHOTS: Final = "read.stream.maxSnapshotsPerTrigger"
MAX_FILES: Final = "read.stream.maxFilesPerTrigger"
MAX_BYTES: Final = "read.stream.maxBytesPerTrigger"
MAX_ROWS: Final = "read.stream.maxRowsPerTrigger"

# Kinds of use.
READ: Final = "a batch read"
STREAM: Final = "a streaming read"
WRITE: Final = "a write"


@dataclass(frozen=True)
class SourceOption:
    """A declared option. kind: how its text is read, see `option`; `time`: see `moment`. uses: what it is for."""

    key: str
    kind: str
    uses: tuple[str, ...]
    sentence: str


SOURCE_OPTIONS: Final = (
    SourceOption(
        PATH, "text", (READ, STREAM, WRITE), "Path or file: URL of the table's directory."
    ),
    SourceOption(
        BRANCH,
        "text",
        (READ, STREAM, WRITE),
        "Name of a branch of the table; by default main. The path of the branch's directory says the same.",
    ),
    SourceOption(SNAPSHOT_ID, "integer", (READ,), "Reads that snapshot."),
    SourceOption(
        TIMESTAMP,
        "time",
        (READ,),
        "Reads the newest snapshot that is not younger than this time.",
    ),
    SourceOption(TAG, "text", (READ,), "Reads that tag."),
    SourceOption(
        INCREMENTAL,
        "text",
        (READ,),
        "Two snapshots or tags, such as `3,7` or `monday,7`: reads the rows that were committed after the first, up to "
        "the second, as a stream gives them. 0 is before the first snapshot.",
    ),
    SourceOption(
        BARRIER,
        "integer",
        (READ,),
        "Reads the rows as of that barrier, of a table under barriers.",
    ),
    SourceOption(
        BARRIER_JOB,
        "text",
        (STREAM,),
        "Name of a registered job: the table is read from barrier to barrier, in step with its other sources.",
    ),
    SourceOption(
        BARRIER_WRITER,
        "text",
        (WRITE,),
        "Name of the writer in a table under barriers: each micro-batch completes the barrier that the clock is in.",
    ),
    SourceOption(
        READ_CHANGELOG,
        "boolean",
        (READ, STREAM),
        "`true`: all changes, their kind in a last column `_row_kind` (+I, -U, +U, -D). Otherwise rows that are new or "
        "new values, without -U and -D. A batch read of changes needs `incremental-between`.",
    ),
    SourceOption(
        CHANGE_COLUMNS,
        "text",
        (READ, STREAM),
        "What changes carry, with `read.changelog`: `kind` (`_row_kind`); `commit` (also `_snapshot_id` and "
        "`_commit_time`); `standard` (`_change_type`, `_commit_version` and `_commit_timestamp`, as Spark names them).",
    ),
    SourceOption(
        FEED_SAMPLES,
        "boolean",
        (STREAM,),
        "`true`, for a table of samples: brings them up to the newest snapshot of their table before each micro-batch, "
        "as `widetable_spark.samples` does.",
    ),
    SourceOption(
        CONSUMER_ID,
        "text",
        (STREAM,),
        "Keeps the stream's progress in the table: expiry leaves what is not read, and a query without a checkpoint "
        "continues there.",
    ),
    SourceOption(
        SCAN_MODE,
        "text",
        (STREAM,),
        "Where a new stream starts: `default`, `latest-full` (rows, then changes), `latest`, `from-snapshot`, "
        "`from-snapshot-full`, `from-timestamp`.",
    ),
    SourceOption(SCAN_SNAPSHOT_ID, "integer", (STREAM,), "The snapshot of `scan.mode`."),
    SourceOption(SCAN_TIMESTAMP, "time", (STREAM,), "The time of `scan.mode`."),
    SourceOption(
        MAX_SNAPSHOTS, "integer", (STREAM,), "Snapshots with rows that a micro-batch takes at most."
    ),
    SourceOption(MAX_FILES, "integer", (STREAM,), "Files that a micro-batch takes at most."),
    SourceOption(
        MAX_BYTES, "memory size", (STREAM,), "Bytes of files that a micro-batch takes at most."
    ),
    SourceOption(MAX_ROWS, "integer", (STREAM,), "Rows of files that a micro-batch takes at most."),
    SourceOption(
        COMMIT_USER,
        "text",
        (WRITE,),
        "Name under which batches are committed exactly once, one checkpoint's alone; by default the streaming query's "
        "id. A new checkpoint needs a new name, or an empty table; only the latter where sums would count its rows "
        "twice.",
    ),
    SourceOption(
        COMMIT_IDENTIFIER,
        "integer",
        (WRITE,),
        "Number of this write among those of `commit-user`, growing: a repeated one commits nothing. For writes that "
        "are not streams, as in `foreachBatch`.",
    ),
    SourceOption(
        ROW_KIND,
        "text",
        (WRITE,),
        "Name of the DataFrame's column with row kinds (+I, -U, +U, -D); by default _row_kind, if there.",
    ),
    SourceOption(
        ROW_COLUMNS,
        "text",
        (WRITE,),
        "Name of the DataFrame's ARRAY<STRING> column with the names of the columns that each row carries; the others "
        "of the row are not written, whatever they hold.",
    ),
    SourceOption(
        COLUMNS,
        "text",
        (READ, STREAM, WRITE),
        "Names, with commas between, of the columns that are read or written; the others are left out. Spark does not "
        "tell a source which columns a query needs, and fills those that an INSERT in SQL does not name with nulls.",
    ),
    SourceOption(
        WATERMARK_COLUMN,
        "text",
        (WRITE,),
        "A TIMESTAMP, DATE or BIGINT (epoch milliseconds) column of the DataFrame: its largest value, less "
        "`watermark-delay`, becomes the watermark of the snapshot.",
    ),
    SourceOption(WATERMARK_DELAY, "duration", (WRITE,), "How late rows may be, such as `10 min`."),
)
