"""Whether values are told apart, and ordered, as they were when their type becomes another one: as texts 10 comes
before 9, and many integers become one float.
"""

from __future__ import annotations

from typing import Final

from widetable.types import DataType

# Types that may become one of the others, where their values are ordered otherwise.
_ORDERED_AS_NUMBERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE")
_OTHER_ORDER: Final = ("VARCHAR", "FLOAT", "DOUBLE")


def keeps_order(old: DataType, new: DataType) -> bool:
    """Of two types where `column_cast` allows the change."""
    return new.root not in _OTHER_ORDER or old.root not in _ORDERED_AS_NUMBERS
