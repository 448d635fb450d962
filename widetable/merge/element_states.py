"""What one key has while its lists or maps are folded: elements by their numbers, one class per function.

    in     numbers of elements, step by step: behind what stands, before it, or taken back
    out    the numbers that the key has, in their order

What an element is (equal by, ordered by, whether it counts) is given by number, too:
element_functions finds it. So a state is a few lists and dicts of integers. An example per
class; x1 and x2 are elements of one key x:

                              add        add      late      retract     has
    Collected                 x y        x        x         x           y x x
    KeyedElements             x1 y1      x2                             x2 y1
                              x1 y1               x2 z1                 x1 z1 y1
    TimedElements  (times)    x1 (5)     x2 (5)                         x1       a tie keeps what stood,
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
    """collect. codes: what elements are equal by.

    A retraction removes, of each element that it has, one that is equal: the first that stands.
    """

    def __init__(self, codes: list[int]) -> None:
        self._codes = codes
        self._stored: Elements = []

    def add(self, given: Iterable[int]) -> None:
        self._stored += given

    def late(self, given: Iterable[int]) -> None:
        """Behind what stands, as in Paimon, which appends whatever comes when."""
        self.add(given)

    def retract(self, given: Iterable[int]) -> None:
        gone = Counter(self._codes[each] for each in given)
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
    """merge_map: one element per key, the newer one. keys: of elements."""

    def __init__(self, keys: list[int]) -> None:
        self._keys = keys
        self._stored: dict[int, int] = {}

    def add(self, given: Iterable[int]) -> None:
        for each in given:
            self._stored[self._keys[each]] = each

    def late(self, given: Iterable[int]) -> None:
        """From nothing: what comes, then what stood, which wins. So late keys stand first."""
        stood, self._stored = self._stored, {}
        self.add(given)
        self.add(list(stood.values()))

    def retract(self, given: Iterable[int]) -> None:
        for each in given:
            self._stored.pop(self._keys[each], None)

    def elements(self) -> Iterable[int]:
        return self._stored.values()


# What one key has. given: numbers of elements. `add` puts them behind what stands, `late` as if they had come first,
# `retract` takes them back; `elements` gives what is left in its order.
ElementState: TypeAlias = Collected | KeyedElements


class DistinctElements(KeyedElements):
    """collect distinct: of equal elements the first; what is late comes behind, too."""

    def add(self, given: Iterable[int]) -> None:
        for each in given:
            self._stored.setdefault(self._keys[each], each)

    def late(self, given: Iterable[int]) -> None:
        self.add(given)


class TimedElements(KeyedElements):
    """merge_map_with_keytime. times: of each entry, None where it has none; is_row: whether it has a value at all;
    composes: an entry without a value stays, to remove what is older.

    An entry of no time is passed over. One without a value removes its key, whatever the times
    are; late it removes nothing, for what stood is put on top of it.
    """

    def __init__(
        self, keys: list[int], times: list[int | None], is_row: list[bool], *, composes: bool
    ) -> None:
        super().__init__(keys)
        self._times = times
        self._is_row = is_row
        self._composes = composes

    def add(self, given: Iterable[int]) -> None:
        self._merge(given, of_equal_newer=False)

    def late(self, given: Iterable[int]) -> None:
        kept = [each for each in given if self._is_row[each]]
        self._merge(kept, of_equal_newer=True)

    def _merge(self, given: Iterable[int], *, of_equal_newer: bool) -> None:
        for each in given:
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
    """Of the rows of a column. order: by which a row is newer; values: what they are equal by; counts: whether a row
    counts at all; most: that a list may have.
    """

    order: list[int] | None
    values: list[int]
    counts: list[bool]
    most: int


class NestedRows(Collected):
    """nested_update without keys."""

    def __init__(self, rows: NestedColumn) -> None:
        super().__init__(rows.values)
        self._rows = rows

    def add(self, given: Iterable[int]) -> None:
        room = max(0, self._rows.most - len(self._stored))
        self._stored += [each for each in given if self._rows.counts[each]][:room]

    def late(self, given: Iterable[int]) -> None:
        stood, self._stored = self._stored, []
        self.add(given)
        self.add(stood)

    def retract(self, given: Iterable[int]) -> None:
        gone = {self._codes[each] for each in given}
        self._stored = [each for each in self._stored if self._codes[each] not in gone]


class NestedByKey(KeyedElements):
    """nested_update by key. A list that is full lets no new key in.

    With an order a row replaces one that is not above it, whichever came first.
    """

    def __init__(self, rows: NestedColumn, keys: list[int]) -> None:
        super().__init__(keys)
        self._rows = rows

    def add(self, given: Iterable[int]) -> None:
        order = self._rows.order
        for each in given:
            stood = self._stored.get(self._keys[each])
            if not self._rows.counts[each] or (stood is None and self._is_full):
                continue
            if stood is None or order is None or order[each] >= order[stood]:
                self._stored[self._keys[each]] = each

    def retract(self, given: Iterable[int]) -> None:
        super().retract([each for each in given if self._rows.counts[each]])

    @property
    def _is_full(self) -> bool:
        return len(self._stored) >= self._rows.most


class Patches:
    """Rows that are put together of others get numbers of their own, behind those of the column's rows.

    fields: of each row, the row that each of its fields is from; valid: for each field, where it has a value.

        rows 0: (p, ·)  1: (·, q)        fields  (0, 0)  (1, 1)        patched(0, 1) is row 2, with fields (0, 1)

    Grows by one for each row that meets another of its key; `valid` does not, since fields name
    rows of the column.
    """

    def __init__(self, keys: list[int], counts: list[bool], valid: list[list[bool]]) -> None:
        self.keys = keys
        self.counts = counts
        self._valid = valid
        self.fields: list[tuple[int, ...]] = [(each,) * len(valid) for each in range(len(keys))]

    def patched(self, below: int, above: int) -> int:
        """The row with the values of `above`, where it has some."""
        pairs = zip(self.fields[below], self.fields[above], self._valid, strict=True)
        self.fields.append(tuple(new if valid[new] else old for old, new, valid in pairs))
        self.keys.append(self.keys[below])
        self.counts.append(True)
        return len(self.fields) - 1


class PatchedRows(KeyedElements):
    """nested_partial_update."""

    def __init__(self, patches: Patches) -> None:
        super().__init__(patches.keys)
        self._patches = patches

    def add(self, given: Iterable[int]) -> None:
        for each in given:
            if self._patches.counts[each]:
                stood = self._stored.get(self._keys[each])
                new = each if stood is None else self._patches.patched(stood, each)
                self._stored[self._keys[each]] = new
