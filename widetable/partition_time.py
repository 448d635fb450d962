"""The time that a partition is of, by its values: `partition.timestamp-pattern` and `partition.timestamp-formatter`.

    pattern     text with $column in place of values; by default the value of the first partition column
    formatter   yyyy, yy (2000 to 2099), M, d, H, m, s (one or two digits), MM, dd, HH, mm, ss (two), 'text' as it is;
                by default yyyy-M-d or yyyy-M-d H:m:s, also with a fraction of the second

In: the texts of a partition's values. Out: a local time; None for values that are none, and for all where the formatter
has no year, month or day: these never expire. Pure. Source: Paimon `PartitionTimeExtractor`; `DateTimeFormatter`.
Raises InvalidError for a formatter with other letters or widths, a pattern with a name that is no partition column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from widetable.errors import InvalidError
from widetable.retention_options import PARTITION_TIMESTAMP_FORMATTER, PARTITION_TIMESTAMP_PATTERN

_PARTS: Final = {"y": "year", "M": "month", "d": "day", "H": "hour", "m": "minute", "s": "second"}
_DIGITS: Final = {"yyyy": "{4}", "yy": "{2}"} | {
    letter * count: "{2}" if count == 2 else "{1,2}" for letter in "MdHms" for count in (1, 2)
}
_DEFAULT: Final = (
    r"(?P<year>[0-9]{1,9})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"( (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(\.[0-9]{1,9})?)?"
)
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_NAME: Final = re.compile(r"\$(\w+)")


def time_form(formatter: str | None) -> re.Pattern[str]:
    """What the texts of times look like; groups are named as the arguments of a datetime."""
    if formatter is None:
        return re.compile(_DEFAULT)
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


def check_pattern(pattern: str | None, partition_keys: Iterable[str]) -> None:
    """Raises InvalidError for a name that is no partition column."""
    keys = list(partition_keys)
    for name in _NAME.findall(pattern or ""):
        if name not in keys:
            expected = f"names of partition columns: {', '.join(keys)}"
            raise _refused(PARTITION_TIMESTAMP_PATTERN.key, f"${name}", expected)


def partition_time(
    texts: Mapping[str, str], pattern: str | None, form: re.Pattern[str]
) -> datetime | None:
    """texts: by partition column, in their order. form: of `time_form`."""
    check_pattern(pattern, texts)
    first = next(iter(texts.values()))
    text = first if pattern is None else _NAME.sub(lambda name: texts[name.group(1)], pattern)
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
