"""The time that a partition is of, by its values: `partition.timestamp-pattern` and `partition.timestamp-formatter`.

    pattern     text with $column in place of values; by default the value of the first partition column
    formatter   yyyy, yy (2000 to 2099), M, d, H, m, s (one or two digits), MM, dd, HH, mm, ss (two), 'text' as it is;
                by default yyyy-M-d or yyyy-M-d H:m:s, also with a fraction of the second

In: the texts of a partition's values. Out: a local time; None for values that are none, and for all where the formatter
has no year, month or day: these never expire. Pure. Source: Paimon `PartitionTimeExtractor`; `DateTimeFormatter`.
Raises InvalidError for a formatter with other letters or widths, a pattern with a name that is no partition column.

    values                        pattern          formatter          time
    day=20240131, hour=7          $day $hour:00    yyyyMMdd H:mm      2024-01-31 07:00
    dt=2024-01-31 08:15:00.25     -                -                  2024-01-31 08:15; fractions are dropped
    dt=2024-02-30                 -                -                  None: no day of a calendar
    dt=08:15                      -                HH:mm              None: no date

The two steps are apart: `time_form` once for a table, `partition_time` for each of its partitions.
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
# Word of a formatter -> how many digits it reads. A word that is not here is refused.
_DIGITS: Final = {"yyyy": "{4}", "yy": "{2}"} | {
    letter * count: "{2}" if count == 2 else "{1,2}" for letter in "MdHms" for count in (1, 2)
}
# A date, with or without a time. Years behind 9999 are matched, and refused by `datetime`: such a
# partition has no time.
_DEFAULT: Final = (
    r"(?P<year>[0-9]{1,9})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"( (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(\.[0-9]{1,9})?)?"
)
# A quoted text, in which '' is a quote; a run of one letter; all between. '' alone is a quote.
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


def time_form(formatter: str | None) -> re.Pattern[str]:
    """What the texts of times look like; groups are named as the arguments of a datetime.

        yyyy-MM-dd    (?P<year>[0-9]{4})\\-(?P<month>[0-9]{2})\\-(?P<day>[0-9]{2})

    A two-digit year goes into a group `century_year`, as it is no argument of `datetime` yet.
    None: the default form. To be matched as a whole (`fullmatch`).
    """
    if formatter is None:
        return re.compile(_DEFAULT)
    # at: where the last token ended. A gap before the next one, or behind the last, is a quote
    # that has no partner: `_TOKEN` matches everything else.
    found, at, parts = "", 0, set[str]()
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
            # A part twice could contradict itself; a regex takes a group name once anyway.
            if letter in parts:
                raise _refused(PARTITION_TIMESTAMP_FORMATTER.key, formatter, "each part once")
            parts.add(letter)
            name = "century_year" if word == "yy" else _PARTS[letter]
            found += f"(?P<{name}>[0-9]{_DIGITS[word]})"
        else:
            found += re.escape(word if quoted is None else quoted.replace("''", "'") or "'")
    if at != len(formatter):
        raise _refused(PARTITION_TIMESTAMP_FORMATTER.key, formatter, "quotes in pairs")
    return re.compile(found)


def _name(keys: Iterable[str]) -> re.Pattern[str]:
    """A column in a pattern: the first key that stands there, as Paimon replaces them in their order; but not half of a
    word, so $days is not $day. A word that is no key is found, to be refused.
    """
    names = "".join(re.escape(key) + r"(?!(?<=\w)\w)|" for key in keys)
    return re.compile(rf"\$({names}\w+)")


def check_pattern(pattern: str | None, partition_keys: Iterable[str]) -> None:
    """Raises InvalidError for a name that is no partition column."""
    keys = list(partition_keys)
    for name in _name(keys).findall(pattern or ""):
        if name not in keys:
            expected = f"names of partition columns: {', '.join(keys)}"
            raise _refused(PARTITION_TIMESTAMP_PATTERN.key, f"${name}", expected)


def partition_time(
    texts: Mapping[str, str], pattern: str | None, form: re.Pattern[str]
) -> datetime | None:
    """texts: by partition column, in their order. form: of `time_form`.

    A local time without a zone. None for a partition whose text is no time of the form: who asks
    lets it live. Raises InvalidError for a pattern that names another column; the table was
    checked when it was made, but another client's was not.
    """
    check_pattern(pattern, texts)
    first = next(iter(texts.values()))
    # In one pass: a value that holds `$name` itself is not replaced again.
    text = (
        first if pattern is None else _name(texts).sub(lambda name: texts[name.group(1)], pattern)
    )
    found = form.fullmatch(text)
    if found is None:
        return None
    numbers = {name: int(digits) for name, digits in found.groupdict().items() if digits}
    if "century_year" in numbers:
        numbers["year"] = 2000 + numbers.pop("century_year")
    try:
        return datetime(**numbers)  # type: ignore[arg-type]
    except (ValueError, OverflowError, TypeError):  # no day of a calendar, or a part is missing
        return None


def _refused(key: str, found: str, expected: str) -> InvalidError:
    return InvalidError(
        f"option {key!r}",
        found=repr(found),
        expected=expected,
        action="Correct the option's value.",
    )
