"""Retention options: how long snapshots, consumers, commit users, pins, partitions and rows are kept.

An expiry, a maintainer's round or a compaction removes things, so a time here is the earliest at which something
may be removed. Snapshots that a consumer, a lease or a pin needs are kept longer, also beyond
`snapshot.num-retained.max`.

    options                                   honoured by                       runs
    snapshot.*, consumer.expiration-time      operations.expiry_choice          with each expiry
    partition.*                               operations.partition_expiry       in a maintainer's rounds, or by a call
    record-level.*                            merge.record_expiry               with compactions of a whole bucket
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
    "Expiry keeps at least this number of snapshots.",
    least=1,
)
SNAPSHOT_NUM_RETAINED_MAX: Final = Option[int](
    "snapshot.num-retained.max",
    "integer",
    2**31 - 1,
    "snapshots",
    "Expiry keeps at most this number of snapshots, however young they are.",
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
    "Maximum number of snapshots that one expiry removes.",
    least=1,
)
CONSUMER_EXPIRATION_TIME: Final = Option[int | None].duration(
    "consumer.expiration-time",
    None,
    "A consumer without progress for this time is removed; by default never.",
)
# A stream that was down for a shorter time still finds its last commit, so it writes no batch twice (0005).
COMMIT_USER_RETENTION: Final = Option[int].duration(
    "widetable.commit-user-retention",
    604_800_000,
    "A commit user is kept at least until its last commit is this old; then it is removed only if there are more than "
    "10,000 commit users.",
)
LOOKUP_PIN_RETENTION: Final = Option[int].duration(
    "widetable.lookup-pin-retention",
    86_400_000,
    "How long expiry keeps the snapshot that a micro-batch of a lookup join has pinned, unless the query has started "
    "the second batch after it. A batch that is replayed later may find the snapshot expired, and fails.",
    least=1,
)
PARTITION_EXPIRATION_TIME: Final = Option[int | None].duration(
    "partition.expiration-time",
    None,
    "Partitions that are older expire, with all their rows; by default none does.",
    least=1,
)
PARTITION_EXPIRATION_STRATEGY: Final = Option[str].enum(
    "partition.expiration-strategy",
    "values-time",
    ("values-time", "update-time"),
    "The age of a partition: by the time in its values, or by the time at which its newest file was written.",
)
PARTITION_EXPIRATION_CHECK_INTERVAL: Final = Option[int].duration(
    "partition.expiration-check-interval",
    3_600_000,
    "How often a maintainer checks for expired partitions.",
)
PARTITION_EXPIRATION_MAX_NUM: Final = Option[int](
    "partition.expiration-max-num",
    "integer",
    100,
    "partitions",
    "Maximum number of partitions that expire at once, the oldest first.",
    least=1,
)
PARTITION_TIMESTAMP_PATTERN: Final = Option[str | None].text(
    "partition.timestamp-pattern",
    None,
    "How the values of a partition form a time, such as `$day $hour:00:00`; by default the first value.",
)
PARTITION_TIMESTAMP_FORMATTER: Final = Option[str | None].text(
    "partition.timestamp-formatter",
    None,
    "The format of that time: `y`, `M`, `d`, `H`, `m`, `s` and `'text'`; by default `yyyy-MM-dd HH:mm:ss` or "
    "`yyyy-MM-dd`.",
)
RECORD_LEVEL_EXPIRE_TIME: Final = Option[int | None].duration(
    "record-level.expire-time",
    None,
    "Rows whose `record-level.time-field` is older expire when a compaction reads their whole bucket; a maintainer "
    "starts one a tenth of this time later at most. By default no row expires.",
    least=1000,
)
RECORD_LEVEL_TIME_FIELD: Final = Option[str | None].text(
    "record-level.time-field",
    None,
    "The column with the time of a row: seconds as INT or BIGINT, milliseconds as BIGINT, a TIMESTAMP, or a DATE, "
    "which means its midnight in UTC and which other clients refuse. A row without a value does not expire.",
)

RETENTION_OPTIONS: Final = declared_in(globals())
