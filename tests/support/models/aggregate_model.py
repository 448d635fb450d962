"""What aggregate functions give, in plain Python: one value after the other, by the words of semantics.md section 8.

Independent of everything under `widetable.merge`. A fold starts from nothing; `add` comes behind what stands, `late` in
front of it, `retract` takes back. Values are what `python_values` gives.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any, Final

from tests.support.models.plain_rows import plain
from widetable.schema.types import DataType

Value = Any
Options = Mapping[str, str]


def text(value: Value) -> str:
    """Equal for equal values."""
    return json.dumps(plain(value), sort_keys=True)


class MeaninglessRetraction(Exception):
    """A retraction met another record of its key in a table that gives it no meaning."""


class Fold:
    """One column of one key. functions that need no more than `add` define nothing else."""

    def __init__(
        self, kind: DataType, options: Options, compare: Callable[[Any, Any], int]
    ) -> None:
        self.kind = kind
        self.options = options
        self.compare = compare
        self.value: Value = None

    def add(self, value: Value) -> None:
        raise NotImplementedError

    def late(self, value: Value) -> None:
        self.add(value)

    def retract(self, value: Value) -> None:
        raise MeaninglessRetraction(f"{value} cannot be taken back")


class LastValue(Fold):
    def add(self, value: Value) -> None:
        self.value = value

    def late(self, value: Value) -> None:
        pass

    def retract(self, value: Value) -> None:
        self.value = None


class LastNonNullValue(Fold):
    def add(self, value: Value) -> None:
        self.value = self.value if value is None else value

    def late(self, value: Value) -> None:
        self.value = value if self.value is None else self.value

    def retract(self, value: Value) -> None:
        self.value = self.value if value is None else None


class FirstValue(Fold):
    is_set = False

    def add(self, value: Value) -> None:
        if not self.is_set:
            self.value, self.is_set = value, True

    def late(self, value: Value) -> None:
        self.value, self.is_set = value, True


class FirstNonNullValue(Fold):
    def add(self, value: Value) -> None:
        self.value = value if self.value is None else self.value

    def late(self, value: Value) -> None:
        self.value = value


class Best(Fold):
    sign = 1

    def add(self, value: Value) -> None:
        if value is None:
            return
        if self.value is None or self.compare([value], [self.value]) * self.sign > 0:
            self.value = value


class Least(Best):
    sign = -1


class Number(Fold):
    def _fitting(self, value: Value) -> Value:
        """Raises OverflowError for an integer that the column's type cannot hold."""
        bits = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}.get(self.kind.root)
        if bits is not None and not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise OverflowError(f"{value} is no {self.kind.root}")
        return value


class Sum(Number):
    def add(self, value: Value) -> None:
        if value is not None:
            self.value = value if self.value is None else self._fitting(self.value + value)

    def retract(self, value: Value) -> None:
        if value is not None:
            self.value = self._fitting(-value if self.value is None else self.value - value)


class Product(Number):
    def add(self, value: Value) -> None:
        if value is not None:
            self.value = value if self.value is None else self._rounded(self.value * value)

    def retract(self, value: Value) -> None:
        if value is None or self.value is None:
            return
        if isinstance(value, int):
            quotient = abs(self.value) // abs(value)
            self.value = self._fitting(quotient if (self.value < 0) == (value < 0) else -quotient)
        else:
            self.value = self._rounded(self.value / value)

    def _rounded(self, value: Value) -> Value:
        if not isinstance(value, Decimal):
            return self._fitting(value)
        found = value.quantize(Decimal(1).scaleb(-(self.kind.scale or 0)), ROUND_HALF_UP)
        return found if len(found.as_tuple().digits) <= (self.kind.precision or 0) else None


class ListAgg(Fold):
    def add(self, value: Value) -> None:
        self.value = self._joined(self.value, value)

    def late(self, value: Value) -> None:
        self.value = self._joined(value, self.value)

    def _joined(self, stood: Value, given: Value) -> Value:
        delimiter = self.options.get("list-agg-delimiter", ",")
        if stood is None or given is None:
            return given if stood is None else stood
        if not given.strip():
            return stood
        if not stood.strip():
            return given
        if self.options.get("distinct") == "true":
            parts = stood.split(delimiter)
            kept = [stood]
            for part in given.split(delimiter):
                if part not in parts and part.strip():
                    parts.append(part)
                    kept.append(part)
            return delimiter.join(kept)
        return stood + delimiter + given


class Collect(Fold):
    def add(self, value: Value) -> None:
        if value is None:
            return
        self.value = list(self.value or [])
        for each in value:
            known = [text(one) for one in self.value]
            if self.options.get("distinct") != "true" or text(each) not in known:
                self.value.append(each)

    def retract(self, value: Value) -> None:
        if value is None or self.value is None:
            return
        for each in value:
            known = [text(one) for one in self.value]
            if text(each) in known:
                del self.value[known.index(text(each))]


class MergeMap(Fold):
    def add(self, value: Value) -> None:
        if value is not None:
            self.value = list({**dict(self.value or []), **dict(value)}.items())

    def late(self, value: Value) -> None:
        if value is not None:
            self.value = list({**dict(value), **dict(self.value or [])}.items())

    def retract(self, value: Value) -> None:
        if value is not None and self.value is not None:
            gone = dict(value)
            self.value = [(k, v) for k, v in self.value if k not in gone]


class MergeMapByTime(Fold):
    def add(self, value: Value) -> None:
        self._merge(value, of_equal=False)

    def late(self, value: Value) -> None:
        if value is not None:
            self._merge([(k, v) for k, v in value if v is not None], of_equal=True)

    def _merge(self, value: Value, *, of_equal: bool) -> None:
        if value is None:
            return
        entries = dict(self.value or [])
        for key, row in value:
            if row is None:
                entries.pop(key, None)
            elif row["ts"] is not None:
                stood = entries.get(key)
                before = None if stood is None else stood["ts"].encode()
                now = row["ts"].encode()
                if before is None or now > before or (of_equal and now == before):
                    entries[key] = row
        self.value = list(entries.items())


class NestedUpdate(Fold):
    def add(self, value: Value) -> None:
        """A record is first what it is alone (decision 0001): no longer than the limit."""
        if value is not None:
            self.value = self._onto(list(self.value or []), self._onto([], value))

    def _onto(self, rows: list[Value], value: list[Value]) -> list[Value]:
        for each in value:
            if each is None:
                continue
            at = self._place(rows, each)
            if at is not None:
                if self._is_newer(each, rows[at]):
                    rows[at] = each
            elif len(rows) < int(self.options.get("count-limit", 1 << 31)):
                rows.append(each)
        return rows

    def late(self, value: Value) -> None:
        if value is not None:
            stood, self.value = self.value, None
            self.add(value)
            self.add(stood)

    def retract(self, value: Value) -> None:
        if value is None or self.value is None:
            return
        gone = [self._key(each) for each in value if each is not None]
        self.value = [each for each in self.value if self._key(each) not in gone]

    def _place(self, rows: list[Value], row: Value) -> int | None:
        if "nested-key" not in self.options:
            return None
        keys = [self._key(each) for each in rows]
        return keys.index(self._key(row)) if self._key(row) in keys else None

    def _key(self, row: Value) -> str:
        names = self.options.get("nested-key")
        return text(row if names is None else [row[name] for name in names.split(",")])

    def _is_newer(self, row: Value, stood: Value) -> bool:
        names = self.options.get("nested-sequence-field")
        if names is None:
            return True
        wanted = names.split(",")
        return self.compare([row[n] for n in wanted], [stood[n] for n in wanted]) >= 0


class NestedPartialUpdate(NestedUpdate):
    def add(self, value: Value) -> None:
        if value is None:
            return
        rows = list(self.value or [])
        for each in value:
            if each is None:
                continue
            at = self._place(rows, each)
            if at is None:
                rows.append(each)
            else:
                rows[at] = {**rows[at], **{k: v for k, v in each.items() if v is not None}}
        self.value = rows


FOLDS: Final[Mapping[str, type[Fold]]] = {
    "last_value": LastValue,
    "last_non_null_value": LastNonNullValue,
    "first_value": FirstValue,
    "first_non_null_value": FirstNonNullValue,
    "first_not_null_value": FirstNonNullValue,
    "max": Best,
    "min": Least,
    "bool_or": Best,
    "bool_and": Least,
    "sum": Sum,
    "product": Product,
    "listagg": ListAgg,
    "collect": Collect,
    "merge_map": MergeMap,
    "merge_map_with_keytime": MergeMapByTime,
    "nested_update": NestedUpdate,
    "nested_partial_update": NestedPartialUpdate,
}
TAKE_BACK: Final = (
    "last_value",
    "last_non_null_value",
    "sum",
    "product",
    "collect",
    "merge_map",
    "nested_update",
)


class ColumnFold:
    """One column: its function, and whether it minds retractions."""

    def __init__(
        self,
        kind: DataType,
        function: str,
        options: Options,
        compare: Callable[[Any, Any], int],
    ) -> None:
        self._fold = FOLDS[function](kind, options, compare)
        self._ignores = options.get("ignore-retract") == "true"

    @property
    def value(self) -> Value:
        return self._fold.value

    def apply(self, step: str, value: Value) -> None:
        """step: add, late or retract."""
        with localcontext(_WIDE):
            self._apply(step, value)

    def _apply(self, step: str, value: Value) -> None:
        if step != "retract":
            getattr(self._fold, step)(value)
        elif not self._ignores:
            self._fold.retract(value)


_WIDE: Final = Context(prec=80)
