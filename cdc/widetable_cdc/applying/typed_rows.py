"""Turns texts of last states into columns of the target's types, and finds the rows that their types do not hold.

In: a `StateSlice`, and for each column of the target that it has a `TextType` (`values` makes it). Out: `TypedRows`, as
many as the slice has. A bad row has nulls where a value is bad, and a reason; it must not be written. Pure. Raises
InvalidError for a column without a type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from widetable import InvalidError
from widetable_cdc.applying.last_states import StateSlice
from widetable_cdc.applying.row_events import Mask


class CastTexts(Protocol):
    """Typed values, n of them. bad: bool[n], a text that the type does not hold; the value is null. reason: why."""

    @property
    def values(self) -> pa.Array:
        """The values, null where the text is null or bad."""

    @property
    def bad(self) -> npt.NDArray[np.bool_]:
        """Which texts the type does not hold."""

    @property
    def reason(self) -> str:
        """What is wrong with them."""


class TextType(Protocol):
    """The type of a column of the target, as far as texts of the log need it."""

    def from_texts(self, texts: pa.Array) -> CastTexts:
        """Return the values of texts."""


Types = Mapping[str, TextType]


@dataclass(frozen=True)
class TypedRows:
    """Typed rows, r of them. keys, values: their columns. origins: typed as keys, where values are unresolved.

    bad: bool[r]. reasons: one for each bad row, by its number.
    """

    keys: Mapping[str, pa.Array]
    values: Mapping[str, pa.Array]
    origins: Mapping[str, pa.Array]
    bad: Mask
    reasons: Mapping[int, str]


def typed_rows(states: StateSlice, types: Types) -> TypedRows:
    """Return the rows of a slice with the target's types."""
    reasons: dict[int, str] = {}
    bad: Mask = np.zeros(len(states), dtype=np.bool_)

    def typed(columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        arrays = {}
        for name, texts in columns.items():
            cast = _type_of(name, types).from_texts(texts)
            arrays[name] = cast.values
            for row in np.flatnonzero(cast.bad).tolist():
                reasons.setdefault(row, f"column {name!r}: {cast.reason}")
            np.logical_or(bad, cast.bad, out=bad)
        return arrays

    keys, values = typed(states.keys), typed(states.values)
    origins = {
        name: _type_of(name, types).from_texts(texts).values
        for name, texts in states.origins.items()
        if states.unresolved
    }
    return TypedRows(keys, values, origins, bad, reasons)


def _type_of(name: str, types: Types) -> TextType:
    kind = types.get(name)
    if kind is None:
        raise InvalidError(
            f"column {name!r}",
            found="changes of a column without a type",
            expected=f"one of {', '.join(map(repr, types))}",
            action="Carry the change of the schema out before its rows are applied.",
        )
    return kind
