"""The rules for arguments that are whole numbers or texts: one place for all of the public face.

In: what a caller gave, and the argument's name. Out: the same as a plain int or str, so that nothing else reaches a
file. Numbers of numpy are whole numbers; True, 1.0 and "1" are none. Raises InvalidError naming the argument.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any, Final

from widetable.errors import InvalidError

# What the format's numbers hold: 64 bits with a sign.
SMALLEST: Final = -(2**63)
LARGEST: Final = 2**63 - 1


def whole_number(value: Any, name: str, *, least: int = SMALLEST, most: int = LARGEST) -> int:
    """A number from `least` to `most`."""
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if least <= number <= most:
            return number
    raise InvalidError(
        name,
        found=f"{value!r} of type {type(value).__name__}",
        expected=f"a whole number from {least} to {most}",
        action="Correct the argument.",
    )


def text(value: Any, name: str) -> str:
    """A text that UTF-8 can write."""
    try:
        if isinstance(value, str):
            return value.encode().decode()
    except UnicodeEncodeError:
        pass
    raise InvalidError(
        name,
        found=f"{value!a} of type {type(value).__name__}",
        expected="a text without lone surrogates",
        action="Correct the argument.",
    )
