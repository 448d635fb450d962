"""Parses the time of a partition from its values: `partition.timestamp-pattern` and `partition.timestamp-formatter`.

    pattern     text with $column for values; by default the value of the first partition column
    formatter   yyyy, yy (2000 to 2099), M, d, H, m, s (one or two digits), MM, dd, HH, mm, ss (two), 'text' literally;
                by default yyyy-M-d or yyyy-M-d H:m:s, also with a fraction of the second

In: the texts of a partition's values. Out: a local time; None for values that are not a time, and for all values if the
formatter has no year, month or day: these never expire. Pure. Source: Paimon `PartitionTimeExtractor`;
`DateTimeFormatter`.
Raises InvalidError for a formatter with other letters or widths, a pattern with a name that is not a partition column.

    values                        pattern          formatter          time
    day=20240131, hour=7          $day $hour:00    yyyyMMdd H:mm      2024-01-31 07:00
    dt=2024-01-31 08:15:00.25     -                -                  2024-01-31 08:15; fractions are dropped
    dt=2024-02-30                 -                -                  None: not a day of the calendar
    dt=08:15                      -                HH:mm              None: no date

There are two steps: `time_form` is called once for a table, `partition_time` for each of its partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from widetable.errors import InvalidError
from widetable.schema.retention_options import (
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)

# Letter -> argument of `datetime`. Java's other letters (a, E, S, ..) are refused, not guessed.
_PARTS: Final = {"y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
# Word of a formatter -> the number of its digits. A word that is not here is refused.
_DIGITS: Final = {"yyyy": "{4}", "yy": "{2}"} | {
    letter * count: "{2}" if count == 2 else "{1,2}" for letter in "MdHms" for count in (1, 2)
}
# A date, with or without a time. Years after 9999 match, but `datetime` refuses them: such a partition
# has no time.
_DEFAULT: Final = (
    r"(?P<year>[0-9]{1,9})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"( (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(\.[0-9]{1,9})?)?"
)
# A quoted text, in which '' is a quote; a run of one letter; other text. '' alone is a quote.
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


def time_form(formatter: str | None) -> re.Pattern[str]:
    """Return the pattern of the texts of times; groups are named like the arguments of a datetime.

        yyyy-MM-dd    (?P<year>[0-9]{4})\\-(?P<month>[0-9]{2})\\-(?P<day>[0-9]{2})

    A two-digit year is the group `century_year`, because it is not yet an argument of `datetime`.
    None: the default form. The whole text must match (`fullmatch`).
    """
    if formatter is None:
        return re.compile(_DEFAULT)
    # at: the end of the last token. A gap before the next one, or after the last, is an unpaired quote:
    # `_TOKEN` matches all other text.
    pattern, at, parts = "", 0, set[str]()
    for token in _TOKEN.finditer(formatter):
        word, quoted, letter = token.group(), token.group(1), token.group(2)
        if token.start() != at or (letter and word not in _DIGITS):
            raise _refused(
                PARTITION_TIMESTAMP_FORMATTER.key,
                formatter,
                "yyyy or yy, one or two of M, d, H, m, s, and 'text'",
            )
        at = token.end()
        if letter:
            # Two equal parts could contradict each other, and a regex accepts a group name only once.
            if letter in parts:
                raise _refused(PARTITION_TIMESTAMP_FORMATTER.key, formatter, "each part once")
            parts.add(letter)
            name = "century_year" if word == "yy" else _PARTS[letter]
            pattern += f"(?P<{name}>[0-9]{_DIGITS[word]})"
        else:
            pattern += re.escape(word if quoted is None else quoted.replace("''", "'") or "'")
    if at != len(formatter):
        raise _refused(PARTITION_TIMESTAMP_FORMATTER.key, formatter, "quotes in pairs")
    return re.compile(pattern)


def _name(keys: Iterable[str]) -> re.Pattern[str]:
    """Return the regex of a column in a pattern: the first key that matches there, as Paimon replaces them in their
    order, but no part of a longer word: $days is not $day. It also matches words that are not keys, to refuse them.
    """
    names = "".join(re.escape(key) + r"(?!(?<=\w)\w)|" for key in keys)
    return re.compile(rf"\$({names}\w+)")


def check_pattern(pattern: str | None, partition_keys: Iterable[str]) -> None:
    """Check a pattern. Raises InvalidError for a name that is not a partition column."""
    keys = list(partition_keys)
    for name in _name(keys).findall(pattern or ""):
        if name not in keys:
            expected = f"names of partition columns: {', '.join(keys)}"
            raise _refused(PARTITION_TIMESTAMP_PATTERN.key, f"${name}", expected)


def partition_time(
    texts: Mapping[str, str], pattern: str | None, form: re.Pattern[str]
) -> datetime | None:
    """Return the time of a partition. texts: by partition column, in their order. form: the result of `time_form`.

    It is a local time without a zone. None for a partition whose text does not have the form: it does not
    expire. Raises InvalidError for a pattern that names another column: tables are checked when they are
    created, but those of other clients are not.
    """
    check_pattern(pattern, texts)
    first = next(iter(texts.values()))
    # One pass, so that a value that contains `$name` is not replaced again.
    text = (
        first if pattern is None else _name(texts).sub(lambda name: texts[name.group(1)], pattern)
    )
    match = form.fullmatch(text)
    if match is None:
        return None
    numbers = {name: int(digits) for name, digits in match.groupdict().items() if digits}
    if "century_year" in numbers:
        numbers["year"] = 2000 + numbers.pop("century_year")
    try:
        return datetime(**numbers)  # type: ignore[arg-type]
    except (
        ValueError,
        OverflowError,
        TypeError,
    ):  # not a day of the calendar, or a part is missing
        return None


def _refused(key: str, value: str, expected: str) -> InvalidError:
    return InvalidError(
        f"option {key!r}",
        found=repr(value),
        expected=expected,
        action="Correct the option's value.",
    )
