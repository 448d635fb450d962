"""The time that a partition is of, by its values: `partition.timestamp-pattern` and `partition.timestamp-formatter`.

    pattern     text with $column in place of values; by default the value of the first partition column
    formatter   y year, M month, d day, H hour, m minute, s second, each as often as it has digits; 'text' as it is; by
                default yyyy-MM-dd HH:mm:ss or yyyy-MM-dd

In: the texts of a partition's values. Out: a local time; None for values that are none, which never expire. Pure.
Source: Paimon `PartitionTimeExtractor`. Raises InvalidError for a formatter with other letters, a pattern with a name
that is no partition column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from widetable.errors import InvalidError
from widetable.retention_options import PARTITION_TIMESTAMP_FORMATTER, PARTITION_TIMESTAMP_PATTERN

_LETTERS: Final = {"y": "%Y", "M": "%m", "d": "%d", "H": "%H", "m": "%M", "s": "%S"}
_DEFAULTS: Final = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d")
_TOKEN: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_NAME: Final = re.compile(r"\$(\w+)")


def formats_of(formatter: str | None) -> tuple[str, ...]:
    """As `strptime` takes them."""
    if formatter is None:
        return _DEFAULTS
    found, at, words = "", 0, set[str]()
    for token in _TOKEN.finditer(formatter):
        quoted, letter = token.group(1), token.group(2)
        if token.start() != at or (letter and letter not in _LETTERS):
            raise _refused(
                PARTITION_TIMESTAMP_FORMATTER.key, formatter, "y, M, d, H, m, s and 'text'"
            )
        at = token.end()
        if letter:
            word = "%y" if token.group() == "yy" else _LETTERS[letter]
            if word in words:
                raise _refused(PARTITION_TIMESTAMP_FORMATTER.key, formatter, "each part once")
            words.add(word)
            found += word
        else:
            text = token.group() if quoted is None else quoted.replace("''", "'") or "'"
            found += text.replace("%", "%%")
    if at != len(formatter):
        raise _refused(PARTITION_TIMESTAMP_FORMATTER.key, formatter, "quotes in pairs")
    return (found,)


def partition_time(
    texts: Mapping[str, str], pattern: str | None, formats: tuple[str, ...]
) -> datetime | None:
    """texts: by partition column, in their order."""
    text = next(iter(texts.values())) if pattern is None else _filled(pattern, texts)
    for form in formats:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    return None


def _filled(pattern: str, texts: Mapping[str, str]) -> str:
    unknown = [name for name in _NAME.findall(pattern) if name not in texts]
    if unknown:
        expected = f"names of partition columns: {', '.join(texts)}"
        raise _refused(PARTITION_TIMESTAMP_PATTERN.key, f"${unknown[0]}", expected)
    return _NAME.sub(lambda name: texts[name.group(1)], pattern)


def _refused(key: str, found: str, expected: str) -> InvalidError:
    return InvalidError(
        f"option {key!r}",
        found=repr(found),
        expected=expected,
        action="Correct the option's value.",
    )
