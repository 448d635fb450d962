"""Notes: small files of one JSON object each, such as consumers and leases.

In: values by key. Out: bytes that are checked to read back as these values; and the values of a file. Keys that the
kind of note does not have are ignored. Raises InvalidError for values that cannot be written, DamagedError for bytes
that are no such note.

    JsonNote("n", {"a": is_whole, "b": is_anything}, ..)
        to_json of a = np.int64(3), b = (1, "x")      {"a": 3, "b": [1, "x"]}
        to_json of a = True, or 1.0, or without a     InvalidError
        from_json of {"a": 3, "z": 1}                 a = 3, b = None

So a later version may add a key whose check accepts None: each version reads the notes of the other.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from widetable.commit.notes.skipped_files import or_none, readable
from widetable.errors import DamagedError, InvalidError
from widetable.storage.file_io import FileIO

# Whether a key may have that value; None: the key is absent.
Check = Callable[[Any], bool]


def is_whole(value: Any) -> bool:
    """Return whether the value is an integer."""
    return type(value) is int


def is_id(value: Any) -> bool:
    """Return whether the value can be the id of a snapshot."""
    return type(value) is int and value >= 1


def is_text(value: Any) -> bool:
    """Return whether the value is a text, possibly empty."""
    return type(value) is str


def is_texts(value: Any) -> bool:
    """Return whether the value is a list of texts."""
    return isinstance(value, list) and all(map(is_text, value))


def is_wholes(value: Any) -> bool:
    """Return whether the value is a list of integers."""
    return isinstance(value, list) and all(map(is_whole, value))


def is_pairs(second: Check) -> Check:
    """Return a check for a list of pairs: a text, and a value that passes `second`."""
    return lambda value: (
        isinstance(value, list)
        and all(
            isinstance(pair, list) and len(pair) == 2 and is_text(pair[0]) and second(pair[1])
            for pair in value
        )
    )


def is_anything(value: Any) -> bool:
    """Accept any value, also an absent one."""
    return True


@dataclass(frozen=True)
class JsonNote:
    """One kind of note. kind: its name in messages. keys: its keys in order, each with the check that the value must
    pass. action: what to do about a damaged note.
    """

    kind: str
    keys: Mapping[str, Check]
    action: str

    def to_json(self, subject: str, values: Mapping[str, Any]) -> bytes:
        """Return the bytes of a note. NumPy integers count as integers, True does not; tuples count as lists.

        subject: its path.
        """
        try:
            plain = {key: _plain(value) for key, value in values.items()}
            data = json.dumps(plain).encode()
            self.from_json(data, subject)
        except (TypeError, ValueError, DamagedError) as cause:
            raise InvalidError(
                subject,
                found=f"values that make no valid {self.kind}: {dict(values)!r}",
                expected=self._expected(),
                action="Correct the arguments.",
            ) from cause
        return data

    def from_json(self, data: bytes, path: str) -> dict[str, Any]:
        """Return the values of a file; None for an optional key that is absent."""
        try:
            body = json.loads(data)
        except (ValueError, RecursionError) as cause:
            raise self._damaged(path) from cause
        if not isinstance(body, dict):
            raise self._damaged(path)
        values = {key: body.get(key) for key in self.keys}
        if not all(check(values[key]) for key, check in self.keys.items()):
            raise self._damaged(path)
        return values

    def read(self, file_io: FileIO, path: str) -> dict[str, Any] | None:
        """Return the values of the file at a path; None if there is no file."""
        data = or_none(file_io.read, path)
        return None if data is None else self.from_json(data, path)

    def damaged(self, file_io: FileIO, paths: Iterable[str]) -> list[DamagedError]:
        """Return an error for each of these files that cannot be read."""
        return readable(paths, lambda path: self.read(file_io, path))[1]

    def _damaged(self, path: str) -> DamagedError:
        return DamagedError(
            path, found=f"no {self.kind}", expected=self._expected(), action=self.action
        )

    def _expected(self) -> str:
        return f"a JSON object with {', '.join(self.keys)}"


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    # numpy 2.0 would convert its True to the index 1, so it is passed on: JSON refuses it.
    return (
        value
        if value is None or isinstance(value, str | bool | np.bool_)
        else operator.index(value)
    )
