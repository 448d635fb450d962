"""Options and lists of names as they are typed. Raises InvalidError for words that are none.

    names_of("a, b")                           ["a", "b"]
    pairs_of(["a=b=c"], ..)                    {"a": "b=c"}: a key ends at the first sign
    typed_names_of(["id BIGINT NOT NULL"])     {"id": "BIGINT NOT NULL"}
    equal_names_of("a=b, c")                   {"a": "b", "c": "c"}

A key comes once: of two values of one option nobody can say which was meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from widetable.errors import InvalidError

T = TypeVar("T")


def names_of(text: str | None) -> list[str]:
    """The names between commas; none of None. Unchecked: "a," has an empty one, which its table refuses."""
    return [] if text is None else [name.strip() for name in text.split(",")]


def options_of(texts: list[str] | None) -> dict[str, str]:
    """Of arguments --set KEY=VALUE."""
    return pairs_of(texts, "--set", "KEY=VALUE")


def pairs_of(texts: list[str] | None, flag: str, form: str) -> dict[str, str]:
    """Of arguments of a flag, such as KEY=VALUE. form: how they look, for messages. A value may be empty, a key not."""
    return once([_split(text, "=", flag, form) for text in texts or ()], flag)


def typed_names_of(texts: list[str] | None, flag: str) -> dict[str, str]:
    """Of arguments 'NAME TYPE' of a flag: names to texts of types."""
    form = "a name and a type, such as 'id BIGINT'"
    return once([_split(text.strip(), " ", flag, form) for text in texts or ()], flag)


def equal_names_of(text: str, flag: str) -> dict[str, str]:
    """Of the argument of a flag: which column is equal to which; a name alone is that of both."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return once([(one.strip(), (other or one).strip()) for one, _, other in pairs], flag)


def once(pairs: Iterable[tuple[str, T]], flag: str) -> dict[str, T]:
    """Pairs of a flag, or of several that say of one key what it is to be."""
    # A dict of pairs would keep the last of two and say nothing.
    found: dict[str, T] = {}
    for key, value in pairs:
        if key in found:
            raise InvalidError(
                flag, found=f"{key!r} twice", expected="each once", action="Leave one of them out."
            )
        found[key] = value
    return found


# Blanks around both go: `--set "a = b"` is `--set a=b`.
def _split(text: str, sign: str, flag: str, form: str) -> tuple[str, str]:
    key, found, value = text.partition(sign)
    if key.strip() and found:
        return key.strip(), value.strip()
    raise InvalidError(flag, found=repr(text), expected=form, action="Correct it.")
