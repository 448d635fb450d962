"""Values that Debezium writes in place of big values that a change does not carry.

    column       raw JSON, with `unavailable.value.placeholder` = __debezium_unavailable_value
    text         "__debezium_unavailable_value"
    bytes        "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
    int[]        [95,95,100,...]                           a letter each
    text[]       ["__debezium_unavailable_value"]
    uuid[]       ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]   the UUID of version 3 of the letters
    hstore       {"__debezium_unavailable_value":"__debezium_unavailable_value"}

Debezium 3.6.3 writes null for arrays of floats and decimals; nobody can tell that from a null
(docs/debezium-json.md). In: raw JSON. Out: masks. Pure. Raises nothing.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable_cdc.debezium.json_fields import Ranges
from widetable_cdc.debezium.json_kernels import Bytes, Mask
from widetable_cdc.debezium.json_texts import raw_texts

DEFAULT: Final = "__debezium_unavailable_value"
_HEX: Final = "hex:"


@dataclass(frozen=True)
class Unavailable:
    """What stands for a value that is not carried. forms: the raw JSON of each form."""

    forms: pa.Array

    @staticmethod
    def of(placeholder: str) -> Unavailable:
        """Return the forms of a placeholder, as `unavailable.value.placeholder` gives it, also with `hex:`."""
        return Unavailable(pa.array(sorted(set(_forms(placeholder))), pa.large_string()))

    def among(self, data: Bytes, ranges: Ranges) -> Mask:
        """Return which values are placeholders: bool[n]."""
        marks = np.zeros(len(ranges.starts), np.bool_)
        sizes = np.asarray(pc.binary_length(self.forms)).astype(np.int64)
        # Nearly all values have another size, and are not looked at.
        rows = np.flatnonzero(np.isin(ranges.ends - ranges.starts, sizes) & ranges.is_there)
        if len(rows):
            texts = raw_texts(data, Ranges(ranges.starts[rows], ranges.ends[rows]))
            marks[rows] = np.asarray(pc.is_in(texts, value_set=self.forms))
        return marks


def _forms(placeholder: str) -> Iterator[str]:
    letters = placeholder.encode()
    if placeholder.startswith(_HEX):
        letters = bytes.fromhex(placeholder[len(_HEX) :])
    text = letters.decode("utf-8", "replace")
    digest = bytearray(hashlib.md5(letters, usedforsecurity=False).digest())
    name = str(uuid.UUID(bytes=bytes(digest), version=3))
    values: list[object] = [text, base64.b64encode(letters).decode(), letters.hex(), list(letters)]
    values += [[float(letter) for letter in letters], [text], [name], name, {text: text}]
    for value in values:
        # With and without spaces, and with letters beyond ASCII as they are or as escapes.
        for separators in ((",", ":"), (", ", ": ")):
            yield json.dumps(value, separators=separators)
            yield json.dumps(value, separators=separators, ensure_ascii=False)
