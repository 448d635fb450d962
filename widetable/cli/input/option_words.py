"""Options and lists of names on the command line. Raises InvalidError for words of another form.

    names_of("a, b")                           ["a", "b"]
    pairs_of(["a=b=c"], ..)                    {"a": "b=c"}: a key ends at the first sign
    typed_names_of(["id BIGINT NOT NULL"])     {"id": "BIGINT NOT NULL"}
    equal_names_of("a=b, c")                   {"a": "b", "c": "c"}

A key may occur only once, because two values of one option are ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from widetable.errors import InvalidError

T = TypeVar("T")


def names_of(text: str | None) -> list[str]:
    """Return the names between commas; an empty list for None. The names are unchecked: "a," has an empty one."""
    return [] if text is None else [name.strip() for name in text.split(",")]


def options_of(texts: list[str] | None) -> dict[str, str]:
    """Return the options of arguments --set KEY=VALUE."""
    return pairs_of(texts, "--set", "KEY=VALUE")


def pairs_of(texts: list[str] | None, flag: str, form: str) -> dict[str, str]:
    """Return the pairs of arguments such as KEY=VALUE. form: their form, for messages. Only a value may be empty."""
    return once([_split(text, "=", flag, form) for text in texts or ()], flag)


def typed_names_of(texts: list[str] | None, flag: str) -> dict[str, str]:
    """Return the types of arguments 'NAME TYPE' by their names."""
    form = "a name and a type, such as 'id BIGINT'"
    return once([_split(text.strip(), " ", flag, form) for text in texts or ()], flag)


def equal_names_of(text: str, flag: str) -> dict[str, str]:
    """Return the pairs of equal columns that an argument names; a single name stands for both columns."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return once([(one.strip(), (other or one).strip()) for one, _, other in pairs], flag)


def once(pairs: Iterable[tuple[str, T]], flag: str) -> dict[str, T]:
    """Return the pairs of a flag, or of several flags, as a dict. Raises InvalidError if a key occurs twice."""
    # `dict(pairs)` would silently keep the last of two values.
    values: dict[str, T] = {}
    for key, value in pairs:
        if key in values:
            raise InvalidError(
                flag, found=f"{key!r} twice", expected="each once", action="Omit one of them."
            )
        values[key] = value
    return values


# Blanks around key and value are removed: `--set "a = b"` is `--set a=b`.
def _split(text: str, sign: str, flag: str, form: str) -> tuple[str, str]:
    key, separator, value = text.partition(sign)
    if key.strip() and separator:
        return key.strip(), value.strip()
    raise InvalidError(flag, found=repr(text), expected=form, action="Correct the argument.")
