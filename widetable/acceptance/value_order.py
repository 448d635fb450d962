"""Decides whether values keep their order and stay distinct when their type changes: as texts 10 comes
before 9, and many integers become the same float.

    change                        keeps order    keeps apart
    INT to BIGINT, DECIMAL(12,0)  yes            yes
    INT to STRING                 no             yes
    INT to DOUBLE                 no             no
    DATE to TIMESTAMP(3)          yes            yes
    DATE to STRING                no             yes            a year of five digits comes before one of four
    BOOLEAN to STRING             yes            yes            'false' is before 'true'

Valid only for changes that `column_cast` allows; for others (a DECIMAL or a TIMESTAMP that becomes
text) the answers are meaningless. Pure.
"""

from __future__ import annotations

from typing import Final

from widetable.schema.types import DataType

_INTEGERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_FLOATS: Final = ("FLOAT", "DOUBLE")
# Types that may change to one of `_OTHER_ORDER`, in which their values are ordered otherwise.
_ORDERED_AS_NUMBERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DATE")
_OTHER_ORDER: Final = ("VARCHAR", "FLOAT", "DOUBLE")


def keeps_order(old: DataType, new: DataType) -> bool:
    """Whether a < b before a change that `column_cast` allows implies a < b after it, for all values."""
    return new.root not in _OTHER_ORDER or old.root not in _ORDERED_AS_NUMBERS


def keeps_apart(old: DataType, new: DataType) -> bool:
    """Whether different values stay different, at every depth: no field is dropped, and no integer becomes a float."""
    fields = {each.id: each.type for each in new.fields}
    within = [(each.type, fields.get(each.id)) for each in old.fields]
    pairs = ((old.element, new.element), (old.key, new.key), (old.value, new.value))
    within += [(before, after) for before, after in pairs if before is not None]
    is_rounded = old.root in _INTEGERS and new.root in _FLOATS
    return not is_rounded and all(
        after is not None and keeps_apart(before, after) for before, after in within
    )
