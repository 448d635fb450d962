"""Options and lists of names as they are typed. Raises InvalidError for words that are none."""

from __future__ import annotations

from widetable.errors import InvalidError


def names_of(text: str | None) -> list[str]:
    """The names between commas; none of None."""
    return [] if text is None else [name.strip() for name in text.split(",")]


def options_of(texts: list[str] | None) -> dict[str, str]:
    """Of arguments KEY=VALUE."""
    return dict(_option(text) for text in texts or ())


def _option(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if key and equals:
        return key.strip(), value.strip()
    raise InvalidError(
        "--set",
        found=repr(text),
        expected="KEY=VALUE",
        action="Write the option, an equals sign, and its value.",
    )
