"""Options that say how long things stay: snapshots, consumers, commit users, pins, partitions, rows.

What goes, goes with an expiry, a maintainer's round or a compaction, never by itself: a time here is
the earliest at which something may be gone. What somebody needs (a consumer, a lease, a pin) stays besides,
also beyond `snapshot.num-retained.max`.

    options                                   honoured by                       runs
    snapshot.*, consumer.expiration-time      operations.expiry_choice          with each expiry
    partition.*                               operations.partition_expiry       in a maintainer's rounds, or when asked
    record-level.*                            merge.record_expiry               with compactions of all of a bucket
    widetable.commit-user-retention           commit.committer                  with each commit
    widetable.lookup-pin-retention            commit.snapshot_holds             with each expiry
"""

from __future__ import annotations

from typing import Final

from widetable.schema.option import Option, declared_in

SNAPSHOT_NUM_RETAINED_MIN: Final = Option[int](
    "snapshot.num-retained.min",
    "integer",
    10,
    "snapshots",
    "Expiry keeps at least so many snapshots.",
    least=1,
)
SNAPSHOT_NUM_RETAINED_MAX: Final = Option[int](
    "snapshot.num-retained.max",
    "integer",
    2**31 - 1,
    "snapshots",
    "Expiry keeps at most so many snapshots, however young.",
    least=1,
)
SNAPSHOT_TIME_RETAINED: Final = Option[int].duration(
    "snapshot.time-retained",
    3_600_000,
    "Expiry keeps snapshots that were the newest one within this time.",
)
SNAPSHOT_EXPIRE_LIMIT: Final = Option[int](
    "snapshot.expire.limit",
    "integer",
    50,
    "snapshots",
    "Snapshots that one expiry removes at most.",
    least=1,
)
CONSUMER_EXPIRATION_TIME: Final = Option[int | None].duration(
    "consumer.expiration-time",
    None,
    "A consumer that made no progress for so long is forgotten; by default never.",
)
# A stream that was down for less than this still finds its last commit, so it writes no batch twice (0005).
COMMIT_USER_RETENTION: Final = Option[int].duration(
    "widetable.commit-user-retention",
    604_800_000,
    "A commit user is not forgotten before its last commit is so old; then only where there are more than 10,000.",
)
LOOKUP_PIN_RETENTION: Final = Option[int].duration(
    "widetable.lookup-pin-retention",
    86_400_000,
    "For so long expiry keeps the snapshot that a micro-batch of a lookup join has pinned, unless the query's second "
    "batch after it is there. A batch that is replayed later may find it expired, and fails.",
    least=1,
)
PARTITION_EXPIRATION_TIME: Final = Option[int | None].duration(
    "partition.expiration-time",
    None,
    "Partitions that are older go, with all their rows; by default none does.",
    least=1,
)
PARTITION_EXPIRATION_STRATEGY: Final = Option[str].enum(
    "partition.expiration-strategy",
    "values-time",
    ("values-time", "update-time"),
    "How old a partition is: by the time that its values say, or by when its newest file was written.",
)
PARTITION_EXPIRATION_CHECK_INTERVAL: Final = Option[int].duration(
    "partition.expiration-check-interval",
    3_600_000,
    "How often a maintainer looks for partitions that are too old.",
)
PARTITION_EXPIRATION_MAX_NUM: Final = Option[int](
    "partition.expiration-max-num",
    "integer",
    100,
    "partitions",
    "So many partitions go at once at most, the oldest first.",
    least=1,
)
PARTITION_TIMESTAMP_PATTERN: Final = Option[str | None].text(
    "partition.timestamp-pattern",
    None,
    "How the values of a partition make a time, such as `$day $hour:00:00`; by default the first value.",
)
PARTITION_TIMESTAMP_FORMATTER: Final = Option[str | None].text(
    "partition.timestamp-formatter",
    None,
    "How that time is written: `y`, `M`, `d`, `H`, `m`, `s` and `'text'`; by default `yyyy-MM-dd HH:mm:ss` or "
    "`yyyy-MM-dd`.",
)
RECORD_LEVEL_EXPIRE_TIME: Final = Option[int | None].duration(
    "record-level.expire-time",
    None,
    "Rows whose `record-level.time-field` is older go when a compaction takes all of their bucket; a maintainer sees "
    "to that, a tenth of this time later at most. By default none does.",
    least=1000,
)
RECORD_LEVEL_TIME_FIELD: Final = Option[str | None].text(
    "record-level.time-field",
    None,
    "The column that says how old a row is: seconds as INT or BIGINT, milliseconds as BIGINT, a TIMESTAMP, or a DATE, "
    "which is its midnight in UTC and which other clients refuse. A row without a value stays.",
)

RETENTION_OPTIONS: Final = declared_in(globals())
