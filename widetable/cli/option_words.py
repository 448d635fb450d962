"""Options and lists of names as they are typed. Raises InvalidError for words that are none."""

from __future__ import annotations

from widetable.errors import InvalidError


def names_of(text: str | None) -> list[str]:
    """The names between commas; none of None."""
    return [] if text is None else [name.strip() for name in text.split(",")]


def options_of(texts: list[str] | None) -> dict[str, str]:
    """Of arguments KEY=VALUE."""
    found: dict[str, str] = {}
    for text in texts or ():
        key, value = _option(text)
        if key in found:
            raise _refused(f"{key!r} twice", "each option once", "Leave one of them out.")
        found[key] = value
    return found


def _option(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if key.strip() and equals:
        return key.strip(), value.strip()
    raise _refused(repr(text), "KEY=VALUE", "Write the option, an equals sign, and its value.")


def _refused(found: str, expected: str, action: str) -> InvalidError:
    return InvalidError("--set", found=found, expected=expected, action=action)
