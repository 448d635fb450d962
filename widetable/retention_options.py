"""Options that say how long things stay: snapshots, consumers, commit users, pins."""

from __future__ import annotations

from typing import Any, Final

from widetable.option import Option

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
SNAPSHOT_TIME_RETAINED: Final = Option[int](
    "snapshot.time-retained",
    "duration",
    3_600_000,
    "milliseconds",
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
CONSUMER_EXPIRATION_TIME: Final = Option[int | None](
    "consumer.expiration-time",
    "duration",
    None,
    "milliseconds",
    "A consumer that made no progress for so long is forgotten; by default never.",
)
COMMIT_USER_RETENTION: Final = Option[int](
    "widetable.commit-user-retention",
    "duration",
    604_800_000,
    "milliseconds",
    "A commit user is not forgotten before its last commit is so old; then only where there are more than 10,000.",
)
LOOKUP_PIN_RETENTION: Final = Option[int](
    "widetable.lookup-pin-retention",
    "duration",
    86_400_000,
    "milliseconds",
    "For so long expiry keeps the snapshot that a micro-batch of a lookup join has pinned, unless the query's second "
    "batch after it is there. A batch that is replayed later may find it expired, and fails.",
    least=1,
)
TAG_DEFAULT_TIME_RETAINED: Final = Option[int | None](
    "tag.default-time-retained",
    "duration",
    None,
    "milliseconds",
    "How long a tag stays that is made without a time of its own; by default until it is deleted.",
    least=1,
)
TAG_TIME_EXPIRE_ENABLED: Final = Option[bool](
    "tag.time-expire-enabled", "boolean", True, "", "Expiry deletes tags whose time is over."
)

RETENTION_OPTIONS: Final[tuple[Option[Any], ...]] = (
    SNAPSHOT_NUM_RETAINED_MIN,
    SNAPSHOT_NUM_RETAINED_MAX,
    SNAPSHOT_TIME_RETAINED,
    SNAPSHOT_EXPIRE_LIMIT,
    CONSUMER_EXPIRATION_TIME,
    COMMIT_USER_RETENTION,
    LOOKUP_PIN_RETENTION,
    TAG_DEFAULT_TIME_RETAINED,
    TAG_TIME_EXPIRE_ENABLED,
)
