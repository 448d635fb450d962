"""What an option is: key, kind, default, unit, range and sentence; and how its text becomes a value.

In: the text of one option in a schema. Out: its typed value. Source: Paimon `OptionsUtils`, `MemorySize`, `TimeUtils`.
Raises InvalidError for text that is not of the option's kind, or a number out of its range.

    kind              text                           value
    memory size       "64 mb"  "1k"  "1"             67108864  1024  1           bytes; units are powers of 1024
    duration          "2 MIN"  "1500 µs"  "5"        120000  1  5                milliseconds, rounded down
    names             " a, b ,"                      ("a", "b")
    untrimmed names   " a, b ,"                      (" a", " b ", "")
    boolean, enum     " TRUE"                        True; words of any case, with blanks around them
    text              " x"                           " x": as it stands

No kind has fractions, "1.5 s" is refused, and only "integer" takes a sign.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar, cast

from widetable.errors import InvalidError

T = TypeVar("T")


@dataclass(frozen=True)
class Option(Generic[T]):
    """One option. kind: how its text is read, one of `_PARSERS` or "enum"; unit: what a number counts, or "".

    immutable: the value of a table never changes. may_come_later: a table that was made without an immutable option may
    be given it. choices: the values of an enum. least, most: the range of a number, by default from 0 to what Java's
    type of that kind holds.

    default: the value of a table whose schema does not have the key, given as it is and never
    parsed, so it may lie outside of the range: None where what is absent means something else
    than any value. sentence: whole sentences of Markdown, for docs/options.md.
    """

    key: str
    kind: str
    default: T
    unit: str
    sentence: str
    immutable: bool = False
    choices: tuple[str, ...] = ()
    least: int = 0
    most: int | None = None
    may_come_later: bool = False

    @classmethod
    def flag(cls, key: str, default: T, sentence: str, *, immutable: bool = False) -> Option[T]:
        """True or false."""
        return cls(key, "boolean", default, "", sentence, immutable)

    @classmethod
    def text(cls, key: str, default: T, sentence: str, *, immutable: bool = False) -> Option[T]:
        """A text that is taken as it stands."""
        return cls(key, "text", default, "", sentence, immutable)

    @classmethod
    def names(cls, key: str, default: T, sentence: str, *, immutable: bool = False) -> Option[T]:
        """Names between commas, trimmed."""
        return cls(key, "names", default, "", sentence, immutable)

    @classmethod
    def enum(
        cls,
        key: str,
        default: T,
        choices: tuple[str, ...],
        sentence: str,
        *,
        immutable: bool = False,
    ) -> Option[T]:
        """One of the choices."""
        return cls(key, "enum", default, "", sentence, immutable, choices)

    @classmethod
    def duration(cls, key: str, default: T, sentence: str, **more: Any) -> Option[T]:
        """A time, in milliseconds. more: immutable, may_come_later, least, most."""
        return cls(key, "duration", default, "milliseconds", sentence, **more)

    @classmethod
    def memory_size(cls, key: str, default: T, sentence: str, **more: Any) -> Option[T]:
        """A number of bytes. more: as of a duration."""
        return cls(key, "memory size", default, "bytes", sentence, **more)

    @property
    def range(self) -> tuple[int, int] | None:
        """(smallest, largest) value; None for options that are no numbers."""
        largest = _LARGEST.get(self.kind)
        return (
            None if largest is None else (self.least, largest if self.most is None else self.most)
        )


# By kind: what Java holds such a value in. A kind that is not here has no range.
_LARGEST: Final = {
    "integer": 2**31 - 1,
    "long": 2**63 - 1,
    "memory size": 2**63 - 1,
    "duration": 2**63 - 1,
}


# The functions from here to `_PARSERS` raise ValueError for what is no value of their kind, some
# OverflowError for numbers beyond floats; `parse_value` makes one InvalidError of both.


def _boolean(text: str) -> bool:
    """Nothing but these two words: `1`, `yes` and what is empty are refused, and not taken for false."""
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


# ASCII digits alone: int() would take other scripts' digits and underscores, which Java does not.
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_AMOUNT: Final = re.compile(r"([0-9]+)\s*([a-zµ]*)")
# The first group is that of bytes, which "" stands for as well: [power > 0 :] drops the "" of others.
_SIZE_UNITS: Final = {
    unit: 1 << (10 * power)
    for power, units in enumerate(
        ("b byte bytes", "k kb kibibytes", "m mb mebibytes", "g gb gibibytes", "t tb tebibytes")
    )
    for unit in ["", *units.split()][power > 0 :]
}
# In milliseconds; what is shorter is rounded down. The text of milliseconds begins with a blank,
# so split(" ") gives "" first: an amount without a unit is one of milliseconds.
_TIME_UNITS: Final = {
    unit: millis
    for millis, units in (
        (1e-6, "ns nano nanos nanosecond nanoseconds"),
        (1e-3, "µs micro micros microsecond microseconds"),
        (1, " ms milli millis millisecond milliseconds"),
        (1000, "s sec secs second seconds"),
        (60_000, "min m minute minutes"),
        (3_600_000, "h hour hours"),
        (86_400_000, "d day days"),
    )
    for unit in units.split(" ")
}


def _integer(text: str) -> int:
    if _INTEGER.fullmatch(text.strip()) is None:
        raise ValueError(text)
    return int(text)


def _memory_size(text: str) -> int:
    return int(_amount(text, _SIZE_UNITS))


def _duration(text: str) -> int:
    return int(_amount(text, _TIME_UNITS))


def _amount(text: str, units: Mapping[str, float]) -> float:
    """A float only for units below a millisecond: all others are multiplied as whole numbers, without loss."""
    match = _AMOUNT.fullmatch(text.strip().lower())
    if match is None or match[2] not in units:
        raise ValueError(text)
    return int(match[1]) * units[match[2]]


def _names(text: str) -> tuple[str, ...]:
    """Comma list with blanks trimmed, as Paimon reads `sequence.field` and `bucket-key`."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _raw_names(text: str) -> tuple[str, ...]:
    """Comma list that is not trimmed, as Paimon reads remove-record-on-sequence-group."""
    return tuple(text.split(","))


_PARSERS: Final[dict[str, Callable[[str], Any]]] = {
    "boolean": _boolean,
    "integer": _integer,
    "memory size": _memory_size,
    "duration": _duration,
    "names": _names,
    "untrimmed names": _raw_names,
    "text": str,
}


def declared_in(module: Mapping[str, Any]) -> tuple[Option[Any], ...]:
    """All options of a module, in the order of their declarations. module: its globals."""
    return tuple(value for value in module.values() if isinstance(value, Option))


def parse_value(option: Option[T], text: str) -> T:
    """The typed value of one option's text; raises InvalidError when it is none of the option's values.

    The value of an enum is its choice in lower case, however it is written. Nothing is kept: each
    call parses anew (`TableOptions`).
    """
    try:
        if option.kind != "enum":
            value: Any = _PARSERS[option.kind](text)
            if option.range is None or option.range[0] <= value <= option.range[1]:
                return cast("T", value)
        elif text.strip().lower() in option.choices:
            return cast("T", text.strip().lower())
    except (ValueError, OverflowError):
        pass
    expected = f"a value of kind {option.kind}"
    if option.choices:
        expected = f"one of {', '.join(option.choices)}"
    elif option.range is not None:
        expected += f" from {option.range[0]} to {option.range[1]} {option.unit}"
    raise InvalidError(
        f"option {option.key!r}",
        found=repr(text),
        expected=expected,
        action="Correct the option's value.",
    )
