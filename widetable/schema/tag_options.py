"""Options of tags: how long they stay, and which are made by themselves.

How the options of automatic tags go together is `tag_rule`'s, which refuses those that contradict each
other. A duration goes before a period, and its names have their own form.
"""

from __future__ import annotations

from typing import Final

from widetable.schema.option import Option, declared_in

TAG_DEFAULT_TIME_RETAINED: Final = Option[int | None].duration(
    "tag.default-time-retained",
    None,
    "How long a tag stays that is made without a time of its own; by default until it is deleted.",
    least=1,
)
TAG_TIME_EXPIRE_ENABLED: Final = Option[bool].flag(
    "tag.time-expire-enabled", True, "Expiry deletes tags whose time is over."
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
    "How often there is an automatic tag.",
)
TAG_CREATION_PERIOD_DURATION: Final = Option[int | None].duration(
    "tag.creation-period-duration",
    None,
    "The same as any time, up to 366 days; it goes before `tag.creation-period`, and names are `202401310815` then.",
    least=60_000,
    most=366 * 86_400_000,
)
TAG_CREATION_DELAY: Final = Option[int].duration(
    "tag.creation-delay",
    0,
    "For so long after the end of a period snapshots may still belong to it; less than a period.",
)
TAG_PERIOD_FORMATTER: Final = Option[str].enum(
    "tag.period-formatter",
    "with_dashes",
    ("with_dashes", "without_dashes", "without_dashes_and_spaces"),
    "Names of automatic tags: `2024-01-31 08`, `20240131 08` or `2024013108`, of days without the hour; those of "
    "two-hours are the first in any case.",
)
TAG_NUM_RETAINED_MAX: Final = Option[int | None](
    "tag.num-retained-max",
    "integer",
    None,
    "tags",
    "So many automatic tags stay, the newest; by default all.",
    least=1,
)
TAG_SNAPSHOT: Final = Option[str].enum(
    "widetable.tag-snapshot",
    "first-after",
    ("first-after", "last-before"),
    "Which snapshot an automatic tag keeps: the first one after its period, which holds the first commit of the next "
    "period too, as other clients make them; or the last one of its period. Other clients do not know the option.",
)
TAG_AUTOMATIC_COMPLETION: Final = Option[bool].flag(
    "tag.automatic-completion",
    False,
    "Periods without a snapshot get a tag too: each of a later one, or with `widetable.tag-snapshot` = `last-before` "
    "of the one before.",
)
PROCESS_TIME_ZONE: Final = Option[str | None].text(
    "sink.process-time-zone",
    None,
    "The zone in which commit times are times of automatic tags, such as `Europe/Berlin` or `GMT-08:00`; by default "
    "that of the machine that makes the tags.",
)
WATERMARK_TIME_ZONE: Final = Option[str].text(
    "sink.watermark-time-zone",
    "UTC",
    "The zone in which watermarks are times of automatic tags, such as `Europe/Berlin`.",
)

TAG_OPTIONS: Final = declared_in(globals())
