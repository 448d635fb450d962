"""The rules for arguments: one place for all of the public face (docs/decisions/0019).

In: what a caller gave, and the argument's name. Out: the same as a plain value of the type that is wanted, so that
nothing else reaches a file. Numbers and texts of numpy are such; True, 1.0 and "1" are no whole numbers, 1 is no flag,
a text is no list of names. Raises InvalidError naming the argument; what a caller's own iterator raises passes.

Each function takes the value and the argument's name, and gives the value back: callers use what
they get, not what they gave. An object of numpy that went on into a schema or a note would fail in
`json` there, long after the call that was wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Final, TypeVar

import numpy as np

from widetable.errors import InvalidError

T = TypeVar("T")

# What the format's numbers hold: 64 bits with a sign.
SMALLEST: Final = -(2**63)
LARGEST: Final = 2**63 - 1
# The longest time that is waited for, some 31 years: threads cannot wait for much longer.
LONGEST_MILLIS: Final = 10**12
_SHOWN_CHARACTERS: Final = 200


def shown(value: Any) -> str:
    """A value in a message: its repr, not too long, as text that every console takes; its type where it has none.

        1        1 of type int
        "\\ud800"    '\\ud800' of type str

    A repr is code of the caller's class, which may raise anything; lone surrogates become
    backslashes and digits, as an error that cannot be printed would hide what is wrong.
    """
    try:
        found = repr(value)
    except Exception:  # noqa: BLE001
        return f"a value of type {type(value).__name__} that cannot be shown"
    found = found.encode(errors="backslashreplace").decode()
    if len(found) > _SHOWN_CHARACTERS:
        found = f"{found[:_SHOWN_CHARACTERS]}.. ({len(found)} characters)"
    return f"{found} of type {type(value).__name__}"


def refused(value: Any, name: str, expected: str) -> InvalidError:
    """What to raise for an argument. It is made, not raised: `raise refused(..)` shows where a function ends."""
    return InvalidError(name, found=shown(value), expected=expected, action="Correct the argument.")


def whole_number(value: Any, name: str, *, least: int = SMALLEST, most: int = LARGEST) -> int:
    """A number from `least` to `most`. Any Integral but a bool is one, numpy's too; it comes back as an int."""
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if least <= number <= most:
            return number
    raise refused(value, name, f"a whole number from {least} to {most}")


def text(value: Any, name: str) -> str:
    """A text that UTF-8 can write. Of a subclass of str, such as numpy's, a plain str comes back."""
    try:
        if isinstance(value, str):
            return value.encode().decode()
    except UnicodeEncodeError:
        pass
    raise refused(value, name, "a text without lone surrogates")


def label(value: Any, name: str, most_bytes: int) -> str:
    """A text that stands in files and in lists: of one byte or more, without control characters.

    Names of commit users, jobs and writers are such. most_bytes: of its UTF-8, as files count.
    """
    found = text(value, name)
    if found.strip() and len(found.encode()) <= most_bytes and not has_control_characters(found):
        return found
    raise refused(
        value, name, f"1 to {most_bytes} bytes of text, not blank, without control characters"
    )


def has_control_characters(value: str) -> bool:
    """NUL, line ends and their like."""
    return any(ord(char) < 0x20 or ord(char) == 0x7F for char in value)


def flag(value: Any, name: str) -> bool:
    """True or False."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise refused(value, name, "True or False")


def one_of(value: Any, choices: Sequence[str], name: str) -> str:
    """One of these words, exactly as they are written. (Options are less strict: `option.parse_value`.)"""
    if not isinstance(value, str) or value not in choices:
        raise refused(value, name, f"one of {', '.join(choices)}")
    return value


def path(value: Any, name: str) -> str:
    """A path or URL, as text or os.PathLike. Not looked up, not made absolute: `storage.locate` does that."""
    found = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(found, str) and found and "\0" not in found:
        return text(found, name)
    raise refused(value, name, "a path or file: URL, not empty and without NUL")


def instance(value: Any, kind: type[T], name: str) -> T:
    """An object of that type. The message names the type by its package: a pyarrow.Schema."""
    if isinstance(value, kind):
        return value
    raise refused(value, name, f"a {kind.__module__.partition('.')[0]}.{kind.__name__}")


def called(value: T, name: str) -> T:
    """Something to be called."""
    if callable(value):
        return value
    raise refused(value, name, "something that can be called")


def items(value: Any, kind: type[T], name: str) -> tuple[T, ...]:
    """All of a list, tuple or other iterable, each of that type; not the characters of a text.

    It is read once, here: a generator is used up, and what follows works on the tuple. A dict is
    none, as only its keys would be taken.
    """
    expected = f"a list of {kind.__name__}"
    if not isinstance(value, str | bytes | bytearray | memoryview | Mapping) and isinstance(
        value, Iterable
    ):
        try:
            iterator = iter(value)
        except TypeError:  # such as a numpy array of no dimension
            raise refused(value, name, expected) from None
        found = tuple(iterator)
        for each in found:
            if not isinstance(each, kind):
                raise refused(each, name, expected)
        return found
    raise refused(value, name, expected)


def names(value: Any, name: str) -> tuple[str, ...]:
    """Names in their order, each once. None is refused: who takes None for all names asks for it first."""
    found = tuple(text(each, name) for each in items(value, str, name))
    if len(set(found)) == len(found):
        return found
    raise refused(value, name, "no name twice")


def mapping(value: Any, name: str) -> dict[str, Any]:
    """A dict whose keys are texts; {} for None. A copy: later changes of the caller's do not count. Values are not
    looked at.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {text(key, f"key of {name}"): each for key, each in value.items()}
    raise refused(value, name, "a dict")


def seconds(value: Any, name: str) -> float:
    """Seconds, whole or not, 0 or more and not without end."""
    most = LONGEST_MILLIS // 1000
    if not isinstance(value, bool) and isinstance(value, Integral | Real):
        found: Any = value
        if 0 <= found <= most:  # NaN is not
            return float(found)
    raise refused(value, name, f"seconds from 0 to {most}")
