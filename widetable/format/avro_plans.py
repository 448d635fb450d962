"""The plans of Avro files that were read, kept for the files to come: files of one client have equal schemas.

In: the header of a file, and our schema. Out: how its records are decoded (`avro_schema`). Raises DamagedError naming
the subject where the schemas do not fit; nothing is kept then.
"""

from __future__ import annotations

from typing import Final

from widetable.format.avro_container import AvroHeader
from widetable.format.avro_nodes import Schema
from widetable.format.avro_schema import ColumnPlan

# A table has the files of a few clients. A longer text is not one that a client writes.
_MOST_PLANS: Final = 64
_LONGEST_TEXT_BYTES: Final = 1 << 16

# By the text of the file's schema and the identity of ours, which the value keeps.
_PLANS: Final[dict[tuple[bytes, int], tuple[Schema, ColumnPlan]]] = {}


def column_plan(header: AvroHeader, expected: Schema, subject: str) -> ColumnPlan:
    """Return the plan of a file. expected: our schema, the same object for all files of a kind."""
    key = header.schema_text, id(expected)
    kept = _PLANS.get(key)
    if kept is not None:
        return kept[1]
    plan = ColumnPlan(header.schema, expected, subject)
    if len(header.schema_text) <= _LONGEST_TEXT_BYTES:
        if len(_PLANS) >= _MOST_PLANS:
            _PLANS.clear()
        _PLANS[key] = expected, plan
    return plan
