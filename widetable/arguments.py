"""The rules for arguments of all public calls (docs/decisions/0019).

In: the value that a caller gave, and the name of the argument. Out: the value in the expected plain type, so that
nothing else reaches a file. Numbers and texts of numpy are accepted; True, 1.0 and "1" are not whole numbers, 1 is not
a flag, and a text is not a list of names. Raises InvalidError that names the argument; errors of a caller's own
iterator pass unchanged.

Each function takes the value and the name of the argument, and returns the value: callers use the result. A numpy
object in a schema or a note would fail in `json`, long after the wrong call.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Final, TypeVar

import numpy as np

from widetable.errors import InvalidError

T = TypeVar("T")

# The range of the format's numbers: 64 bits with a sign.
SMALLEST: Final = -(2**63)
LARGEST: Final = 2**63 - 1
# The longest wait, some 31 years: threads cannot wait for much longer.
LONGEST_MILLIS: Final = 10**12
_SHOWN_CHARACTERS: Final = 200


def shown(value: Any) -> str:
    """Return a value as text for a message: its repr, shortened, printable on every console, and its type.

        1        1 of type int
        "\\ud800"    '\\ud800' of type str

    A repr is code of the caller's class, which may raise anything. Lone surrogates become backslashes and digits,
    because an error that cannot be printed would hide what is wrong.
    """
    try:
        printed = repr(value)
    except Exception:  # noqa: BLE001
        return f"a value of type {type(value).__name__} that cannot be shown"
    printed = printed.encode(errors="backslashreplace").decode()
    if len(printed) > _SHOWN_CHARACTERS:
        printed = f"{printed[:_SHOWN_CHARACTERS]}.. ({len(printed)} characters)"
    return f"{printed} of type {type(value).__name__}"


def refused(value: Any, name: str, expected: str) -> InvalidError:
    """Make the error for an argument; the caller raises it, so that readers see where the function ends.

    Parameters
    ----------
    value, name
        As in `text`.
    expected : str
        What was expected, as text.

    Returns
    -------
    InvalidError
        The error.
    """
    return InvalidError(name, found=shown(value), expected=expected, action="Correct the argument.")


def whole_number(value: Any, name: str, *, least: int = SMALLEST, most: int = LARGEST) -> int:
    """Check a whole number. Every Integral but a bool is one, including those of numpy.

    Parameters
    ----------
    value, name
        As in `text`.
    least : int, default -9223372036854775808
        The smallest number.
    most : int, default 9223372036854775807
        The largest number.

    Returns
    -------
    int
        The number as an int.

    Raises
    ------
    InvalidError
        The value is not a whole number in this range.
    """
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if least <= number <= most:
            return number
    raise refused(value, name, f"a whole number from {least} to {most}")


def text(value: Any, name: str) -> str:
    """Check a text that UTF-8 can write.

    Parameters
    ----------
    value : any
        What the caller gave.
    name : str
        The name of the argument, for messages.

    Returns
    -------
    str
        The text as a plain str, also for a subclass such as that of numpy.

    Raises
    ------
    InvalidError
        The value is not such a text.
    """
    try:
        if isinstance(value, str):
            return value.encode().decode()
    except UnicodeEncodeError:
        pass
    raise refused(value, name, "a text without lone surrogates")


def label(value: Any, name: str, most_bytes: int) -> str:
    """Check a text for files and lists, such as the name of a commit user, job or writer.

    Parameters
    ----------
    value, name
        As in `text`.
    most_bytes : int
        The most bytes of its UTF-8.

    Returns
    -------
    str
        The text: not blank, without control characters.

    Raises
    ------
    InvalidError
        The value is not such a text, or is too long.
    """
    checked = text(value, name)
    if (
        checked.strip()
        and len(checked.encode()) <= most_bytes
        and not has_control_characters(checked)
    ):
        return checked
    raise refused(
        value, name, f"1 to {most_bytes} bytes of text, not blank, without control characters"
    )


def has_control_characters(value: str) -> bool:
    """Return whether a text contains NUL, line ends or other control characters."""
    return any(ord(char) < 0x20 or ord(char) == 0x7F for char in value)


def flag(value: Any, name: str) -> bool:
    """Check a flag.

    Parameters
    ----------
    value, name
        As in `text`.

    Returns
    -------
    bool
        True or False.

    Raises
    ------
    InvalidError
        The value is no bool; 1 is none.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise refused(value, name, "True or False")


def one_of(value: Any, choices: Sequence[str], name: str) -> str:
    """Check that a word is one of the choices, exactly as they are written. Options are less strict (`parse_value`).

    Parameters
    ----------
    value : any
        What the caller gave.
    choices : list of str
        The words.
    name
        As in `text`.

    Returns
    -------
    str
        The word.

    Raises
    ------
    InvalidError
        The value is none of them.
    """
    if not isinstance(value, str) or value not in choices:
        raise refused(value, name, f"one of {', '.join(choices)}")
    return value


def path(value: Any, name: str) -> str:
    """Check a path or URL. It is not looked up and not made absolute; `locate` does that.

    Parameters
    ----------
    value, name
        As in `text`.

    Returns
    -------
    str
        The path as text.

    Raises
    ------
    InvalidError
        The value is no path, is empty, or contains NUL.
    """
    place = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(place, str) and place and "\0" not in place:
        return text(place, name)
    raise refused(value, name, "a path or file: URL, not empty and without NUL")


def instance(value: Any, kind: type[T], name: str) -> T:
    """Check the type of an object.

    Parameters
    ----------
    value : any
        What the caller gave.
    kind : type
        The type; messages name it with its package, such as pyarrow.Schema.
    name
        As in `text`.

    Returns
    -------
    object
        The value.

    Raises
    ------
    InvalidError
        The value has another type.
    """
    if isinstance(value, kind):
        return value
    raise refused(value, name, f"a {kind.__module__.partition('.')[0]}.{kind.__name__}")


def called(value: T, name: str) -> T:
    """Check that a value can be called.

    Parameters
    ----------
    value, name
        As in `text`.

    Returns
    -------
    object
        The value.

    Raises
    ------
    InvalidError
        The value cannot be called.
    """
    if callable(value):
        return value
    raise refused(value, name, "something that can be called")


def items(value: Any, kind: type[T], name: str) -> tuple[T, ...]:
    """Return the elements of a list, tuple or other iterable, each of that type; a text is refused.

    The iterable is read once, here: a generator is used up, and callers work on the tuple. A dict is refused, because
    only its keys would be used.
    """
    expected = f"a list of {kind.__name__}"
    if not isinstance(value, str | bytes | bytearray | memoryview | Mapping) and isinstance(
        value, Iterable
    ):
        try:
            iterator = iter(value)
        except TypeError:  # such as a numpy array of no dimension
            raise refused(value, name, expected) from None
        elements = tuple(iterator)
        for each in elements:
            if not isinstance(each, kind):
                raise refused(each, name, expected)
        return elements
    raise refused(value, name, expected)


def names(value: Any, name: str) -> tuple[str, ...]:
    """Check a list of names. A caller that takes None for all names must test for None first.

    Parameters
    ----------
    value, name
        As in `text`.

    Returns
    -------
    tuple of str
        The names in their order.

    Raises
    ------
    InvalidError
        The value is no list of texts, or a name comes twice.
    """
    checked = tuple(text(each, name) for each in items(value, str, name))
    if len(set(checked)) == len(checked):
        return checked
    raise refused(value, name, "no name twice")


def mapping(value: Any, name: str) -> dict[str, Any]:
    """Check a dict whose keys are texts. Its values are not checked.

    Parameters
    ----------
    value, name
        As in `text`.

    Returns
    -------
    dict of str to any
        A copy, which later changes of the caller do not affect; {} for None.

    Raises
    ------
    InvalidError
        The value is no dict, or a key is no text.
    """
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {text(key, f"key of {name}"): each for key, each in value.items()}
    raise refused(value, name, "a dict")


def seconds(value: Any, name: str) -> float:
    """Return seconds, 0 or more and finite, as a float."""
    most = LONGEST_MILLIS // 1000
    if not isinstance(value, bool) and isinstance(value, Integral | Real):
        number: Any = value
        if 0 <= number <= most:  # NaN is not
            return float(number)
    raise refused(value, name, f"seconds from 0 to {most}")
