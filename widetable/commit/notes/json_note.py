"""Notes: small files of one JSON object each, such as consumers and leases.

In: values by key. Out: bytes that were proven to be read back as these values; and the values of a file. Keys that a
note does not have are passed over. Raises InvalidError for values that cannot be written, DamagedError for bytes that
are no such note.

    JsonNote("n", {"a": is_whole, "b": is_anything}, ..)
        to_json of a = np.int64(3), b = (1, "x")      {"a": 3, "b": [1, "x"]}
        to_json of a = True, or 1.0, or without a     InvalidError
        from_json of {"a": 3, "z": 1}                 a = 3, b = None

So a later version may add a key, whose check lets None pass: both read the notes of each other.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from widetable.commit.notes.skipped_files import if_there, readable
from widetable.errors import DamagedError, InvalidError
from widetable.storage.file_io import FileIO

# Whether a value may stand there; None: the key is not there.
Check = Callable[[Any], bool]


def is_whole(value: Any) -> bool:
    """An integer."""
    return type(value) is int


def is_id(value: Any) -> bool:
    """The id of a snapshot."""
    return type(value) is int and value >= 1


def is_text(value: Any) -> bool:
    """A text, an empty one too."""
    return type(value) is str


def is_texts(value: Any) -> bool:
    """A list of texts."""
    return isinstance(value, list) and all(map(is_text, value))


def is_wholes(value: Any) -> bool:
    """A list of integers."""
    return isinstance(value, list) and all(map(is_whole, value))


def is_pairs(second: Check) -> Check:
    """A list of pairs: a text, and what passes the check."""
    return lambda value: (
        isinstance(value, list)
        and all(
            isinstance(pair, list) and len(pair) == 2 and is_text(pair[0]) and second(pair[1])
            for pair in value
        )
    )


def is_anything(value: Any) -> bool:
    """Also nothing."""
    return True


@dataclass(frozen=True)
class JsonNote:
    """One kind of note. keys: what stands in it, in this order. action: what to do about one that is damaged.

    kind: what it is called in messages. Each key has the check that its value must pass.
    """

    kind: str
    keys: Mapping[str, Check]
    action: str

    def to_json(self, subject: str, values: Mapping[str, Any]) -> bytes:
        """The bytes of a note. Integers of numpy are integers, True is none, tuples are lists. subject: its path."""
        try:
            plain = {key: _plain(value) for key, value in values.items()}
            data = json.dumps(plain).encode()
            self.from_json(data, subject)
        except (TypeError, ValueError, DamagedError) as cause:
            raise InvalidError(
                subject,
                found=f"values that make no {self.kind}: {dict(values)!r}",
                expected=self._expected(),
                action="Correct the arguments.",
            ) from cause
        return data

    def from_json(self, data: bytes, path: str) -> dict[str, Any]:
        """The values of a file; None for a key that is not there and need not be."""
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
        """Those of the file at a path; None where there is none."""
        data = if_there(file_io.read, path)
        return None if data is None else self.from_json(data, path)

    def damaged(self, file_io: FileIO, paths: Iterable[str]) -> list[DamagedError]:
        """Those of these files that cannot be read."""
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
    # numpy's True would be the index 1 for numpy 2.0: JSON refuses it.
    return (
        value
        if value is None or isinstance(value, str | bool | np.bool_)
        else operator.index(value)
    )
