"""Which types of a target hold each value of another one, exactly, and can take its place in a table that has rows.

    SMALLINT    → INT, BIGINT                     TIMESTAMP(n)      → TIMESTAMP(m), m ≥ n
    INT         → BIGINT                          TIMESTAMP_LTZ(n)  → TIMESTAMP_LTZ(m), m ≥ n
    FLOAT       → DOUBLE                          TIME(n)           → TIME(m), m ≥ n
    DECIMAL(p, s) → DECIMAL(q, t), t ≥ s and q - t ≥ p - s
    ARRAY<a>    → ARRAY<b>, if a → b

The engine widens more, such as INT to DOUBLE and to STRING, but a value of these prints or rounds in another way than
the source's own cast, so they are not here. Pure; raises nothing.
"""

from __future__ import annotations

import re
from typing import Final

_PARTS: Final = re.compile(r"^([A-Z_]+)(?:\((\d+)(?:, *(\d+))?\))?$")
_WIDER: Final = {
    ("SMALLINT", "INT"),
    ("SMALLINT", "BIGINT"),
    ("INT", "BIGINT"),
    ("FLOAT", "DOUBLE"),
}
_DIGITS: Final = ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ")


def is_wider(old: str, new: str) -> bool:
    """Return whether a type holds each value of the old one."""
    if old.startswith("ARRAY<") and new.startswith("ARRAY<"):
        inner, outer = old[6:-1], new[6:-1]
        return inner == outer or is_wider(inner, outer)
    one, other = _PARTS.match(old), _PARTS.match(new)
    if one is None or other is None:
        return False
    if (one[1], other[1]) in _WIDER:
        return True
    if one[1] != other[1] or one[2] is None or other[2] is None:
        return False
    if one[1] == "DECIMAL":
        (p, s), (q, t) = ((int(m[2]), int(m[3] or 0)) for m in (one, other))
        return t >= s and q - t >= p - s
    return one[1] in _DIGITS and int(other[2]) >= int(one[2])
