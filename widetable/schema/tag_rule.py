"""Decides when a table gets an automatic tag, and its name, from the options `tag.*`. Pure.

    period p      [start, start + p), in local time counted from 1970-01-01; its tag is named by its start
    due           at the first snapshot whose time is no earlier than the period's end plus the delay
    snapshot      the one that makes it due; or, with `widetable.tag-snapshot` = `last-before`, the last one of the
                  period (`ended`)

A table without automatic tags gets the tag of the period before its first snapshot. Source: Paimon `TagAutoCreation`,
`TagPeriodHandler`, `TagTimeExtractor`. Raises UnsupportedError for tags of batch writes, InvalidError for a delay as
long as a period. The zone is looked up when a tag is created: writers need no zone database.

Hourly tags with a delay of 10 minutes; the result of `due` for a snapshot:

    newest tag    time of the snapshot    tag that it gets
    none          08:05                   07:00    the delay does not apply to the first tag
    06:00         08:05                   -        until 08:10 a snapshot may still belong to 07:00
    06:00         08:10                   07:00
    06:00         11:05                   10:00    the periods in between get no tag
    06:00         11:10, completing       07:00    and the next snapshots 08:00, 09:00, ..

A delay only postpones the next tag: when it is due, it is the tag of the period that ended last by
the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from widetable.errors import InvalidError, UnsupportedError
from widetable.schema import tag_options as tag
from widetable.schema.options import TableOptions
from widetable.schema.time_zone import is_refuted, zone_of

_HOURS: Final = {"daily": 24, "hourly": 1, "two-hours": 2}
# Periods are counted from here in local time without a zone: a day has 24 hours on any clock, and the
# repeated hour when clocks go back belongs to one period.
_EPOCH: Final = datetime(1970, 1, 1)
# Every later year has a whole period before it.
_MIN_YEAR: Final = 2
_DAY: Final = {"with_dashes": "%Y-%m-%d"}
_HOUR: Final = {"with_dashes": "%Y-%m-%d %H", "without_dashes": "%Y%m%d %H"}


@dataclass(frozen=True)
class TagRule:
    """The rule of automatic tags. zone: the name of the time zone; None: that of this machine, so names depend on the
    machine. most: the number of tags that are kept. completes: every period gets a tag. is_last_before: a tag is that
    of the last snapshot of its period.

    period, delay: delay < period. name_format: for `strftime`; a name is the start of its period.
    """

    period: timedelta
    delay: timedelta
    name_format: str
    zone: str | None
    is_by_watermark: bool
    most: int | None
    completes: bool
    is_last_before: bool = False

    def time_of(self, commit_millis: int, watermark: int | None) -> datetime | None:
        """Return the time that assigns a snapshot to a period; None without a watermark, or outside of the calendar.

        Raises InvalidError for a zone that this machine does not know.
        """
        millis = watermark if self.is_by_watermark else commit_millis
        if millis is None:
            return None
        zone = None if self.zone is None else zone_of(self.zone)
        if zone is None and self.zone is not None:
            raise self.unknown_zone()
        try:
            time = datetime.fromtimestamp(millis / 1000, zone).replace(tzinfo=None)
        except (OverflowError, ValueError, OSError):
            return None
        return time if time.year > _MIN_YEAR else None

    def unknown_zone(self) -> InvalidError:
        """Create the error for a zone that this machine does not know, although another machine may."""
        option = tag.WATERMARK_TIME_ZONE if self.is_by_watermark else tag.PROCESS_TIME_ZONE
        return InvalidError(
            f"option {option.key!r}",
            found=repr(self.zone),
            expected="UTC, an offset such as GMT-08:00, or a zone that this machine knows, such as Europe/Berlin",
            action="Correct the zone, or install the tz database here (the package tzdata).",
        )

    def due(self, newest: datetime | None, time: datetime) -> datetime | None:
        """Return the start of the period whose tag a snapshot of this time gets. newest: the start of the newest tag.

        None: no tag is due yet. newest None: there is no automatic tag. The period after the newest
        tag starts one period later and ends after two.
        """
        if newest is None:
            return self._before(time)
        # Due from newest + 2 * period + delay on. Compared as durations: a tag may have the last day of the calendar.
        if time - _EPOCH - self.delay < newest - _EPOCH + 2 * self.period:
            return None
        return newest + self.period if self.completes else self._before(time)

    def ended(
        self, newest: datetime | None, previous: datetime, time: datetime
    ) -> Iterator[datetime]:
        """Yield the starts of the periods that have ended between two consecutive snapshots, at `previous` and `time`:
        the first one is the last of these periods. Only periods after `newest`, that of the newest tag, are yielded.

        This is for tags of the last snapshot before. A period without a snapshot has no tag, unless the rule completes.
        """
        start, end = self._of(previous), self._of(time)
        if self.completes and newest is not None:
            start = max(start, self._floor(newest))
        while start < end:
            if newest is None or start > newest:
                yield start
            start = start + self.period if self.completes else end

    def may_have_ended(self, newest: datetime | None, first: datetime, last: datetime) -> bool:
        """Return whether snapshots after the newest tag show that a period has ended. first, last: their times."""
        if self.completes and newest is not None:
            return self._of(last) - _EPOCH > newest - _EPOCH + self.period
        return self._of(last) > self._of(first)

    def _of(self, time: datetime) -> datetime:
        """Return the start of the period of a snapshot."""
        return self._floor(time - self.delay)

    def _floor(self, time: datetime) -> datetime:
        return _EPOCH + (time - _EPOCH) // self.period * self.period

    def _before(self, time: datetime) -> datetime:
        """Return the start of the period that ended last."""
        return _EPOCH + ((time - _EPOCH) // self.period - 1) * self.period

    def name(self, start: datetime) -> str:
        """Return the name of the tag of a period by its start: `2024-01-31 08` by default for hours."""
        return start.strftime(self.name_format)

    def start(self, name: str) -> datetime | None:
        """Return the start of the period of an automatic tag; None for other tags.

        The name must be exact: strptime accepts `2024-1-31 8` as well, which this rule does not create. A
        user's tag with such a name counts as automatic, because only the name tells an automatic tag.
        """
        try:
            start = datetime.strptime(name, self.name_format)
        except ValueError:
            return None
        return start if self.name(start) == name else None


def tag_rule(options: TableOptions) -> TagRule | None:
    """Return the rule of a table; None if it has no automatic tags.

    `check_values` calls it for its errors: contradictory options are refused when a table is created or
    altered. Without automatic tags the other options are not checked.
    """
    mode = options.get(tag.TAG_AUTOMATIC_CREATION)
    if mode == "none":
        return None
    if mode == "batch":
        raise UnsupportedError(
            f"option {tag.TAG_AUTOMATIC_CREATION.key!r}",
            found="'batch'",
            expected="process-time or watermark",
            action="Remove the option, and tag the result of a batch with `create_tag`.",
        )
    period, delay = _period(options), timedelta(milliseconds=options.get(tag.TAG_CREATION_DELAY))
    if delay >= period:
        raise InvalidError(
            f"option {tag.TAG_CREATION_DELAY.key!r}",
            found=str(delay),
            expected=f"less than the period of {period}",
            action="Make the delay shorter.",
        )
    is_by_watermark = mode == "watermark"
    return TagRule(
        period,
        delay,
        _name_format(options),
        options.get(tag.WATERMARK_TIME_ZONE)
        if is_by_watermark
        else options.get(tag.PROCESS_TIME_ZONE),
        is_by_watermark,
        options.get(tag.TAG_NUM_RETAINED_MAX),
        options.get(tag.TAG_AUTOMATIC_COMPLETION),
        options.get(tag.TAG_SNAPSHOT) == "last-before",
    )


def _period(options: TableOptions) -> timedelta:
    """Return the period. A duration takes precedence; it is at least a minute, because names have no seconds."""
    millis = options.get(tag.TAG_CREATION_PERIOD_DURATION)
    if millis is not None:
        return timedelta(milliseconds=millis)
    return timedelta(hours=_HOURS[options.get(tag.TAG_CREATION_PERIOD)])


def _name_format(options: TableOptions) -> str:
    """Return the format of names. With a duration it has minutes; two-hours always have dashes."""
    if options.get(tag.TAG_CREATION_PERIOD_DURATION) is not None:
        return "%Y%m%d%H%M"
    formatter = options.get(tag.TAG_PERIOD_FORMATTER)
    if options.get(tag.TAG_CREATION_PERIOD) == "daily":
        return _DAY.get(formatter, "%Y%m%d")
    if options.get(tag.TAG_CREATION_PERIOD) == "two-hours":
        return _HOUR["with_dashes"]
    return _HOUR.get(formatter, "%Y%m%d%H")


def check_zone(options: TableOptions) -> None:
    """Raise InvalidError for a time zone of automatic tags that does not exist, as far as this machine knows."""
    rule = tag_rule(options)
    if rule is not None and rule.zone is not None and is_refuted(rule.zone):
        raise rule.unknown_zone()
