"""Options of tags: how long they stay, and which are made by themselves.

How the options of automatic tags go together is `tag_rule`'s, which refuses those that contradict each
other. A duration goes before a period, and its names have their own form.
"""

from __future__ import annotations

from typing import Any, Final

from widetable.option import Option

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
TAG_AUTOMATIC_CREATION: Final = Option[str](
    "tag.automatic-creation",
    "enum",
    "none",
    "",
    "Maintainers and expiry tag the first snapshot after each period, by its commit time or its watermark. `batch` is "
    "refused.",
    choices=("none", "process-time", "watermark", "batch"),
)
TAG_CREATION_PERIOD: Final = Option[str](
    "tag.creation-period",
    "enum",
    "daily",
    "",
    "How often there is an automatic tag.",
    choices=("daily", "hourly", "two-hours"),
)
TAG_CREATION_PERIOD_DURATION: Final = Option[int | None](
    "tag.creation-period-duration",
    "duration",
    None,
    "milliseconds",
    "The same as any time, up to 366 days; it goes before `tag.creation-period`, and names are `202401310815` then.",
    least=60_000,
    most=366 * 86_400_000,
)
TAG_CREATION_DELAY: Final = Option[int](
    "tag.creation-delay",
    "duration",
    0,
    "milliseconds",
    "For so long after the end of a period snapshots may still belong to it; less than a period.",
)
TAG_PERIOD_FORMATTER: Final = Option[str](
    "tag.period-formatter",
    "enum",
    "with_dashes",
    "",
    "Names of automatic tags: `2024-01-31 08`, `20240131 08` or `2024013108`, of days without the hour; those of "
    "two-hours are the first in any case.",
    choices=("with_dashes", "without_dashes", "without_dashes_and_spaces"),
)
TAG_NUM_RETAINED_MAX: Final = Option[int | None](
    "tag.num-retained-max",
    "integer",
    None,
    "tags",
    "So many automatic tags stay, the newest; by default all.",
    least=1,
)
TAG_AUTOMATIC_COMPLETION: Final = Option[bool](
    "tag.automatic-completion",
    "boolean",
    False,
    "",
    "Periods without a snapshot get a tag too, each of a later one.",
)
WATERMARK_TIME_ZONE: Final = Option[str](
    "sink.watermark-time-zone",
    "text",
    "UTC",
    "",
    "The zone in which watermarks are times of automatic tags, such as `Europe/Berlin`.",
)

TAG_OPTIONS: Final[tuple[Option[Any], ...]] = (
    TAG_DEFAULT_TIME_RETAINED,
    TAG_TIME_EXPIRE_ENABLED,
    TAG_AUTOMATIC_CREATION,
    TAG_CREATION_PERIOD,
    TAG_CREATION_PERIOD_DURATION,
    TAG_CREATION_DELAY,
    TAG_PERIOD_FORMATTER,
    TAG_NUM_RETAINED_MAX,
    TAG_AUTOMATIC_COMPLETION,
    WATERMARK_TIME_ZONE,
)
