"""The state of one key while its lists or maps are folded: elements by number, one class per function.

    in     numbers of elements, step by step: added behind the stored ones, put before them, or retracted
    out    the numbers of the key's elements, in their order

The properties of an element (code, rank, whether it counts) are also looked up by its number;
element_functions computes them. So a state is a few lists and dicts of integers. An example per
class; x1 and x2 are elements of one key x:

                              add        add      late      retract     has
    Collected                 x y        x        x         x           y x x
    KeyedElements             x1 y1      x2                             x2 y1
                              x1 y1               x2 z1                 x1 z1 y1
    TimedElements  (times)    x1 (5)     x2 (5)                         x1       a tie keeps the stored element,
                              x1 (5)              x2 (5)                x2       unless it is late
    NestedRows     most 3     a b        a c                            a b a
    PatchedRows    (p, ·)     (·, q)                                    (p, q)

Source: Paimon `FieldCollectAgg`, `FieldMergeMapAgg`, `FieldMergeMapWithKeyTimeAgg`, `FieldNestedUpdateAgg`,
`FieldNestedPartialUpdateAgg`; semantics.md sections 6.4 and 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

Elements: TypeAlias = list[int]


class Collected:
    """The state of `collect`. codes: equal elements have equal codes.

    A retraction removes, for each of its elements, the first stored element that is equal.
    """

    def __init__(self, codes: list[int]) -> None:
        self._codes = codes
        self._stored: Elements = []

    def add(self, elements: Iterable[int]) -> None:
        self._stored += elements

    def late(self, elements: Iterable[int]) -> None:
        """Append late elements, too, as Paimon does."""
        self.add(elements)

    def retract(self, elements: Iterable[int]) -> None:
        gone = Counter(self._codes[each] for each in elements)
        left = []
        for each in self._stored:
            if gone[self._codes[each]] > 0:
                gone[self._codes[each]] -= 1
            else:
                left.append(each)
        self._stored = left

    def elements(self) -> Elements:
        return self._stored


class KeyedElements:
    """The state of `merge_map`: the newest element of each key. keys: of all elements."""

    def __init__(self, keys: list[int]) -> None:
        self._keys = keys
        self._stored: dict[int, int] = {}

    def add(self, elements: Iterable[int]) -> None:
        for each in elements:
            self._stored[self._keys[each]] = each

    def late(self, elements: Iterable[int]) -> None:
        """Rebuild the map from the late elements and then the stored ones, which win. So late keys come first."""
        stored, self._stored = self._stored, {}
        self.add(elements)
        self.add(list(stored.values()))

    def retract(self, elements: Iterable[int]) -> None:
        for each in elements:
            self._stored.pop(self._keys[each], None)

    def elements(self) -> Iterable[int]:
        return self._stored.values()


# The state of one key. elements: by their numbers. `add` puts them behind the stored ones, `late`
# treats them as if they had come first, `retract` removes them; `elements` returns the rest in order.
ElementState: TypeAlias = Collected | KeyedElements


class DistinctElements(KeyedElements):
    """The state of `collect` with `distinct`: the first of equal elements; late elements are appended, too."""

    def add(self, elements: Iterable[int]) -> None:
        for each in elements:
            self._stored.setdefault(self._keys[each], each)

    def late(self, elements: Iterable[int]) -> None:
        self.add(elements)


class TimedElements(KeyedElements):
    """The state of `merge_map_with_keytime`. times: of each entry, None where it has none; is_row: whether it has a
    value; composes: an entry without a value stays, so that it removes older entries later.

    An entry without a time is skipped. An entry without a value removes its key, whatever the times
    are; a late one removes nothing, because the stored entries apply after it.
    """

    def __init__(
        self, keys: list[int], times: list[int | None], is_row: list[bool], *, composes: bool
    ) -> None:
        super().__init__(keys)
        self._times = times
        self._is_row = is_row
        self._composes = composes

    def add(self, elements: Iterable[int]) -> None:
        self._merge(elements, of_equal_newer=False)

    def late(self, elements: Iterable[int]) -> None:
        with_value = [each for each in elements if self._is_row[each]]
        self._merge(with_value, of_equal_newer=True)

    def _merge(self, elements: Iterable[int], *, of_equal_newer: bool) -> None:
        for each in elements:
            key, time = self._keys[each], self._times[each]
            if not self._is_row[each] and self._composes:
                self._stored[key] = each
            elif not self._is_row[each]:
                self._stored.pop(key, None)
            elif time is not None:
                before = self._times[self._stored[key]] if key in self._stored else None
                if before is None or time > before or (of_equal_newer and time == before):
                    self._stored[key] = each


@dataclass(frozen=True)
class NestedColumn:
    """The rows of a column. order: ranks by which a row is newer; values: codes, equal for equal rows; counts: whether
    a row counts at all; most: how many rows a list may have.
    """

    order: list[int] | None
    values: list[int]
    counts: list[bool]
    most: int


class NestedRows(Collected):
    """The state of `nested_update` without a nested key."""

    def __init__(self, rows: NestedColumn) -> None:
        super().__init__(rows.values)
        self._rows = rows

    def add(self, elements: Iterable[int]) -> None:
        room = max(0, self._rows.most - len(self._stored))
        self._stored += [each for each in elements if self._rows.counts[each]][:room]

    def late(self, elements: Iterable[int]) -> None:
        stored, self._stored = self._stored, []
        self.add(elements)
        self.add(stored)

    def retract(self, elements: Iterable[int]) -> None:
        gone = {self._codes[each] for each in elements}
        self._stored = [each for each in self._stored if self._codes[each] not in gone]


class NestedByKey(KeyedElements):
    """The state of `nested_update` with a nested key. A full list accepts no new key.

    With an order a row replaces a row of lower or equal rank, whichever came first.
    """

    def __init__(self, rows: NestedColumn, keys: list[int]) -> None:
        super().__init__(keys)
        self._rows = rows

    def add(self, elements: Iterable[int]) -> None:
        order = self._rows.order
        for each in elements:
            stored = self._stored.get(self._keys[each])
            if not self._rows.counts[each] or (stored is None and self._is_full):
                continue
            if stored is None or order is None or order[each] >= order[stored]:
                self._stored[self._keys[each]] = each

    def retract(self, elements: Iterable[int]) -> None:
        super().retract([each for each in elements if self._rows.counts[each]])

    @property
    def _is_full(self) -> bool:
        return len(self._stored) >= self._rows.most


class Patches:
    """Rows that are combined from others; they get numbers of their own, behind those of the column's rows.

    fields: for each row, the row that each of its fields is from; valid: for each field, where it has a value.

        rows 0: (p, ·)  1: (·, q)        fields  (0, 0)  (1, 1)        patched(0, 1) is row 2, with fields (0, 1)

    `fields` grows by one for each row that meets another of its key; `valid` does not, because
    fields name rows of the column.
    """

    def __init__(self, keys: list[int], counts: list[bool], valid: list[list[bool]]) -> None:
        self.keys = keys
        self.counts = counts
        self._valid = valid
        self.fields: list[tuple[int, ...]] = [(each,) * len(valid) for each in range(len(keys))]

    def patched(self, below: int, above: int) -> int:
        """Return a row with the values of `above`, and those of `below` where `above` has none."""
        pairs = zip(self.fields[below], self.fields[above], self._valid, strict=True)
        self.fields.append(tuple(new if valid[new] else old for old, new, valid in pairs))
        self.keys.append(self.keys[below])
        self.counts.append(True)
        return len(self.fields) - 1


class PatchedRows(KeyedElements):
    """The state of `nested_partial_update`."""

    def __init__(self, patches: Patches) -> None:
        super().__init__(patches.keys)
        self._patches = patches

    def add(self, elements: Iterable[int]) -> None:
        for each in elements:
            if self._patches.counts[each]:
                stored = self._stored.get(self._keys[each])
                new = each if stored is None else self._patches.patched(stored, each)
                self._stored[self._keys[each]] = new
