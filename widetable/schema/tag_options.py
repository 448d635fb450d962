"""Options of tags: how long they are kept, and which are created automatically.

`tag_rule` combines the options of automatic tags, and refuses those that contradict each other. A duration
takes precedence over a named period, and its tags have their own form of names.
"""

from __future__ import annotations

from typing import Final

from widetable.schema.option import Option, declared_in

TAG_DEFAULT_TIME_RETAINED: Final = Option[int | None].duration(
    "tag.default-time-retained",
    None,
    "How long a tag is kept that is created without a retention of its own; by default until it is deleted.",
    least=1,
)
TAG_TIME_EXPIRE_ENABLED: Final = Option[bool].flag(
    "tag.time-expire-enabled", True, "Expiry deletes tags whose retention is over."
)
TAG_AUTOMATIC_CREATION: Final = Option[str].enum(
    "tag.automatic-creation",
    "none",
    ("none", "process-time", "watermark", "batch"),
    "Maintainers and expiry tag the first snapshot after each period, by its commit time or its watermark (see "
    "`widetable.tag-snapshot`). `batch` is refused.",
)
TAG_CREATION_PERIOD: Final = Option[str].enum(
    "tag.creation-period",
    "daily",
    ("daily", "hourly", "two-hours"),
    "How often an automatic tag is created.",
)
TAG_CREATION_PERIOD_DURATION: Final = Option[int | None].duration(
    "tag.creation-period-duration",
    None,
    "The period as a duration, up to 366 days; it takes precedence over `tag.creation-period`, and names have the "
    "form `202401310815`.",
    least=60_000,
    most=366 * 86_400_000,
)
TAG_CREATION_DELAY: Final = Option[int].duration(
    "tag.creation-delay",
    0,
    "How long after the end of a period snapshots may still belong to it; less than a period.",
)
TAG_PERIOD_FORMATTER: Final = Option[str].enum(
    "tag.period-formatter",
    "with_dashes",
    ("with_dashes", "without_dashes", "without_dashes_and_spaces"),
    "Names of automatic tags: `2024-01-31 08`, `20240131 08` or `2024013108`; daily tags lack the hour. Tags of "
    "`two-hours` always have the first form.",
)
TAG_NUM_RETAINED_MAX: Final = Option[int | None](
    "tag.num-retained-max",
    "integer",
    None,
    "tags",
    "Number of automatic tags that are kept, the newest ones; by default all.",
    least=1,
)
TAG_SNAPSHOT: Final = Option[str].enum(
    "widetable.tag-snapshot",
    "first-after",
    ("first-after", "last-before"),
    "The snapshot of an automatic tag: `first-after` is the first one after its period, which includes the first "
    "commit of the next period, as in other clients; `last-before` is the last one of its period. Other clients "
    "ignore the option.",
)
TAG_AUTOMATIC_COMPLETION: Final = Option[bool].flag(
    "tag.automatic-completion",
    False,
    "Periods without a snapshot get a tag as well: that of a later snapshot, or, with `widetable.tag-snapshot` = "
    "`last-before`, that of the snapshot before.",
)
PROCESS_TIME_ZONE: Final = Option[str | None].text(
    "sink.process-time-zone",
    None,
    "The time zone of commit times for automatic tags, such as `Europe/Berlin` or `GMT-08:00`; by default that of the "
    "machine that creates the tags.",
)
WATERMARK_TIME_ZONE: Final = Option[str].text(
    "sink.watermark-time-zone",
    "UTC",
    "The time zone of watermarks for automatic tags, such as `Europe/Berlin`.",
)

TAG_OPTIONS: Final = declared_in(globals())
