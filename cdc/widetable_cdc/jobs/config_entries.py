"""The entries of one section of a configuration, taken one by one; what is left at the end is unknown.

Raises InvalidError that names the entry with its section.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from widetable import InvalidError
from widetable.connector import Option, did_you_mean, parse_value

_SAID: Final = {"duration": "'5 s' or '500 ms'", "memory size": "'10 gb' or '512 mb'"}


class Entries:
    """A section. name: its dotted name, empty for the whole file."""

    def __init__(self, name: str, entries: Mapping[str, Any]) -> None:
        self._name = name
        self._entries = dict(entries)
        self._taken: list[str] = []

    def text(self, name: str) -> str:
        """Take a text that must be there."""
        value = self.optional_text(name)
        if not value:
            raise self._wrong(name, "nothing", "a text")
        return value

    def optional_text(self, name: str) -> str | None:
        """Take a text; None if the entry is absent."""
        value = self._take(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, repr(value), "a text")
        return value

    def texts(self, name: str, *, least: int = 0) -> tuple[str, ...]:
        """Take a list of texts."""
        value = self._take(name)
        value = [] if value is None else value
        is_list = isinstance(value, Sequence) and not isinstance(value, str)
        if not is_list or not all(isinstance(each, str) and each for each in value):
            raise self._wrong(name, repr(value), "a list of texts")
        if len(value) < least:
            raise self._wrong(name, "nothing", "a list of at least one text")
        return tuple(value)

    def flag(self, name: str, *, default: bool) -> bool:
        """Take true or false."""
        value = self._take(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self._wrong(name, repr(value), "true or false")
        return value

    def number(self, name: str, default: int) -> int:
        """Take a whole number above zero."""
        value = self.optional_number(name)
        return default if value is None else value

    def optional_number(self, name: str) -> int | None:
        """Take a whole number above zero; None if the entry is absent."""
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self._wrong(name, repr(value), "a whole number above 0")
        return value

    def choice(self, name: str, words: Sequence[str]) -> str:
        """Take one of the words; the first one if the entry is absent."""
        value = self._take(name)
        if value is None:
            return words[0]
        if value not in words:
            raise self._wrong(name, repr(value), " or ".join(repr(word) for word in words))
        return str(value)

    def millis(self, name: str, default: int) -> int:
        """Take a duration with its unit, in milliseconds."""
        return self._amount(Option.duration(self._path(name), default, "", least=1))

    def optional_millis(self, name: str) -> int | None:
        """Take a duration with its unit, in milliseconds, perhaps 0; None if the entry is absent."""
        value = self.optional_text(name)
        return (
            None if value is None else parse_value(Option.duration(self._path(name), 0, ""), value)
        )

    def size(self, name: str, default: int) -> int:
        """Take a size with its unit, in bytes."""
        return self._amount(Option.memory_size(self._path(name), default, "", least=1))

    def _amount(self, option: Option[int]) -> int:
        name = option.key.rpartition(".")[2]
        value = self.optional_text(name)
        if value is None:
            return option.default
        if value.strip().isdigit():
            raise self._wrong(
                name, repr(value), f"a {option.kind} with its unit, such as {_SAID[option.kind]}"
            )
        return parse_value(option, value)

    def options(self, name: str) -> dict[str, str]:
        """Take the options of a table: texts, and numbers and flags as texts."""
        value = self._take(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise self._wrong(name, repr(value), "a table of options")
        texts = {}
        for key, each in value.items():
            if isinstance(each, bool):
                each = str(each).lower()
            if not isinstance(each, str | int):
                raise self._wrong(f"{name}.{key}", repr(each), "a text, a number or a flag")
            texts[str(key)] = str(each)
        return texts

    def named_texts(self, name: str) -> dict[str, str]:
        """Take a table of texts by names."""
        part = self.section(name)
        return {each: part.text(each) for each in list(part._entries)}

    def section(self, name: str) -> Entries:
        """Take a section; an empty one if it is absent."""
        return self.optional_section(name) or Entries(self._path(name), {})

    def optional_section(self, name: str) -> Entries | None:
        """Take a section; None if it is absent."""
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong(name, repr(value), "a section")
        return Entries(self._path(name), value)

    def sections(self, name: str) -> dict[str, Entries]:
        """Take the sections below a name."""
        parts = self.section(name)
        names = list(parts._entries)
        return {each: parts.section(each) for each in names}

    def end(self) -> None:
        """Refuse the entries that nobody has taken."""
        for name in self._entries:
            hint = did_you_mean(name, self._taken).strip()
            raise InvalidError(
                f"entry {self._path(name)!r}",
                found="an entry that no job has",
                expected=f"one of {', '.join(self._taken)}",
                action=hint or "Correct or remove the entry.",
            )

    def _take(self, name: str) -> Any:
        self._taken.append(name)
        return self._entries.pop(name, None)

    def _path(self, name: str) -> str:
        return f"{self._name}.{name}" if self._name else name

    def _wrong(self, name: str, found: str, expected: str) -> InvalidError:
        return InvalidError(
            f"entry {self._path(name)!r}",
            found=found,
            expected=expected,
            action="Correct the configuration of the job.",
        )
