"""Texts become typed values, and the texts that a type does not hold are named. Pure.

In: a large_string array. Out: a `Cast`. All values are parsed at once. Only if that fails are the bad ones looked for:
first by the form that good texts have, then by halves of the distinct texts, so that many bad values that are equal,
such as NaN and infinity, cost little. Raises nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Flags = npt.NDArray[np.bool_]
# Parses all texts of an array; raises pyarrow.ArrowInvalid if one is bad.
Parse = Callable[[pa.Array], pa.Array]


@dataclass(frozen=True)
class Cast:
    """Typed values, n of them, null where the text is null or bad. bad: bool[n]. reason: what bad ones are."""

    values: pa.Array
    bad: Flags
    reason: str


def whole_cast(values: pa.Array, reason: str) -> Cast:
    """Return a cast without bad values."""
    return Cast(values, np.zeros(len(values), np.bool_), reason)


def masked_cast(values: pa.Array, bad: Flags, reason: str) -> Cast:
    """Return a cast whose bad values become null."""
    if not bad.any():
        return Cast(values, bad, reason)
    return Cast(pc.if_else(pa.array(bad), pa.scalar(None, values.type), values), bad, reason)


def text_cast(texts: pa.Array, parse: Parse, reason: str, form: str) -> Cast:
    """Parse texts. form: a regular expression; texts that do not match it are bad, others may be."""
    try:
        return whole_cast(parse(texts), reason)
    except pa.ArrowInvalid:
        coded = texts.dictionary_encode()
        has_form = pc.match_substring_regex(coded.dictionary, form)
        numbers = np.flatnonzero(has_form.to_numpy(zero_copy_only=False))
        refused = np.ones(len(coded.dictionary), np.bool_)
        refused[numbers] = _refused(coded.dictionary.take(pa.array(numbers)), parse)
        bad = pc.fill_null(pc.take(pa.array(refused), coded.indices), False)
        # Not by if_else, which cuts texts of a slice wrongly in pyarrow 19.
        cleaned = pc.replace_with_mask(texts, bad, pa.scalar(None, texts.type))
        return Cast(parse(cleaned), bad.to_numpy(zero_copy_only=False), reason)


def _refused(texts: pa.Array, parse: Parse) -> Flags:
    """Return which texts `parse` refuses."""
    try:
        parse(texts)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return np.ones(1, np.bool_)
        half = len(texts) // 2
        return np.concatenate((_refused(texts[:half], parse), _refused(texts[half:], parse)))
    return np.zeros(len(texts), np.bool_)
