"""Defines an option (key, kind, default, unit, range and sentence), and parses its text into a value.

In: the text of one option in a schema. Out: its typed value. Source: Paimon `OptionsUtils`, `MemorySize`, `TimeUtils`.
Raises InvalidError for text that is not of the option's kind, and for a number out of its range.

    kind              text                           value
    memory size       "64 mb"  "1k"  "1"             67108864  1024  1           bytes; units are powers of 1024
    duration          "2 MIN"  "1500 µs"  "5"        120000  1  5                milliseconds, rounded down
    names             " a, b ,"                      ("a", "b")
    untrimmed names   " a, b ,"                      (" a", " b ", "")
    boolean, enum     " TRUE"                        True; words of any case, with blanks around them
    text              " x"                           " x": unchanged

No kind accepts fractions: "1.5 s" is refused. Only "integer" accepts a sign.
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
    """One option. kind: the parser of its text, one of `_PARSERS` or "enum"; unit: that of a number, or "".

    immutable: the value of a table never changes. may_come_later: an immutable option may be set on a table that was
    created without it. choices: the values of an enum. least, most: the range of a number, by default from 0 to the
    largest value of Java's type for the kind.

    default: the value of a table whose schema lacks the key; it is never parsed, so it may be outside of the range.
    None: absence differs from any value. sentence: whole sentences of Markdown, for docs/options.md.
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
        """Declare an option that is true or false."""
        return cls(key, "boolean", default, "", sentence, immutable)

    @classmethod
    def text(cls, key: str, default: T, sentence: str, *, immutable: bool = False) -> Option[T]:
        """Declare an option whose text is used unchanged."""
        return cls(key, "text", default, "", sentence, immutable)

    @classmethod
    def names(cls, key: str, default: T, sentence: str, *, immutable: bool = False) -> Option[T]:
        """Declare an option that is a list of trimmed names, separated by commas."""
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
        """Declare an option that is one of the choices."""
        return cls(key, "enum", default, "", sentence, immutable, choices)

    @classmethod
    def duration(cls, key: str, default: T, sentence: str, **more: Any) -> Option[T]:
        """Declare a duration, in milliseconds. more: immutable, may_come_later, least, most."""
        return cls(key, "duration", default, "milliseconds", sentence, **more)

    @classmethod
    def memory_size(cls, key: str, default: T, sentence: str, **more: Any) -> Option[T]:
        """Declare a number of bytes. more: immutable, may_come_later, least, most."""
        return cls(key, "memory size", default, "bytes", sentence, **more)

    @property
    def range(self) -> tuple[int, int] | None:
        """The (smallest, largest) value; None for options that are not numbers."""
        largest = _LARGEST.get(self.kind)
        return (
            None if largest is None else (self.least, largest if self.most is None else self.most)
        )


# The largest value of Java's type for each kind. A kind that is not here has no range.
_LARGEST: Final = {
    "integer": 2**31 - 1,
    "long": 2**63 - 1,
    "memory size": 2**63 - 1,
    "duration": 2**63 - 1,
}


# The functions from here to `_PARSERS` raise ValueError for text that is not of their kind, some
# OverflowError for numbers beyond floats; `parse_value` translates both to InvalidError.


def _boolean(text: str) -> bool:
    """Parse `true` or `false`. Other words, such as `1`, `yes` or an empty text, are refused, and do not mean false."""
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


# ASCII digits only: int() accepts digits of other scripts and underscores, which Java does not.
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_AMOUNT: Final = re.compile(r"([0-9]+)\s*([a-zµ]*)")
# "" is a unit of bytes only: [power > 0 :] drops the "" of the other units.
_SIZE_UNITS: Final = {
    unit: 1 << (10 * power)
    for power, units in enumerate(
        ("b byte bytes", "k kb kibibytes", "m mb mebibytes", "g gb gibibytes", "t tb tebibytes")
    )
    for unit in ["", *units.split()][power > 0 :]
}
# In milliseconds; fractions are rounded down. The text of milliseconds begins with a blank, so that
# split(" ") gives "" first: an amount without a unit is in milliseconds.
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
    """Return an amount: a float for units below a millisecond; others are multiplied as integers, without loss."""
    match = _AMOUNT.fullmatch(text.strip().lower())
    if match is None or match[2] not in units:
        raise ValueError(text)
    return int(match[1]) * units[match[2]]


def _names(text: str) -> tuple[str, ...]:
    """Parse a list with commas, and trim blanks, as Paimon reads `sequence.field` and `bucket-key`."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _raw_names(text: str) -> tuple[str, ...]:
    """Parse a list with commas without trimming, as Paimon reads remove-record-on-sequence-group."""
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
    """Return all options of a module, in the order of their declarations. module: its globals."""
    return tuple(value for value in module.values() if isinstance(value, Option))


def parse_value(option: Option[T], text: str) -> T:
    """Parse the text of one option. Each call parses it again.

    Parameters
    ----------
    option : Option
        The option.
    text : str
        Its text.

    Returns
    -------
    object
        The typed value; that of an enum is its choice in lower case.

    Raises
    ------
    InvalidError
        The text is none of the option's values.
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
