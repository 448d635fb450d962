"""What an option is: key, kind, default, unit and sentence; and how its text becomes a value.

In: the text of one option in a schema. Out: its typed value. Raises InvalidError for text that is not
of the option's kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from widetable.errors import InvalidError

T = TypeVar("T")


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option. kind: how its text is read, one of `_PARSERS` or "enum"; unit: what a number counts, or "".

    immutable: it may only be given when the table is made. choices: the values of an enum.
    """

    key: str
    kind: str
    default: T
    unit: str
    sentence: str
    immutable: bool = False
    choices: tuple[str, ...] = ()


def _boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


_SIZE: Final = re.compile(
    r"^(\d+)\s*(b|bytes?|k|kb|kibibytes?|m|mb|mebibytes?|g|gb|gibibytes?|t|tb)?$"
)
_SIZE_UNITS: Final = {"b": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_TIME: Final = re.compile(r"^(\d+)\s*(ms|s|sec|m|min|h|d)$")
_TIME_UNITS: Final = {
    "ms": 1,
    "s": 1000,
    "sec": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def _memory_size(text: str) -> int:
    match = _SIZE.match(text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) << (10 * _SIZE_UNITS[(match[2] or "b")[0]])


def _duration(text: str) -> int:
    match = _TIME.match(text.strip().lower())
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _TIME_UNITS[match[2]]


def _names(text: str) -> tuple[str, ...]:
    """Comma list with blanks trimmed, as Paimon reads `sequence.field` and `bucket-key`."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _raw_names(text: str) -> tuple[str, ...]:
    """Comma list that is not trimmed, as Paimon reads remove-record-on-sequence-group."""
    return tuple(text.split(","))


_PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "boolean": _boolean,
    "integer": int,
    "memory size": _memory_size,
    "duration": _duration,
    "names": _names,
    "untrimmed names": _raw_names,
    "text": str,
}


def parse_value(option: Option[T], text: str) -> T:
    """The typed value of one option's text; raises InvalidError when the text is not of its kind."""
    try:
        if option.kind != "enum":
            value: T = _PARSERS[option.kind](text)
            return value
        if text.strip().lower() in option.choices:
            return text.strip().lower()  # type: ignore[return-value]
    except ValueError:
        pass
    expected = (
        f"one of {', '.join(option.choices)}"
        if option.choices
        else f"a value of kind {option.kind}"
    )
    raise InvalidError(
        f"option {option.key!r}",
        found=repr(text),
        expected=expected,
        action="Correct the option's value.",
    )
