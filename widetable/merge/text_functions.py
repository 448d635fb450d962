"""The aggregate function listagg: it joins texts with a delimiter.

Source: Paimon `FieldListaggAgg`; semantics.md section 8. Blank texts are skipped, and a blank first text is
replaced. `distinct`: parts of a new text that are listed already, or blank, are dropped. Late texts are put in front.

    a, blank, b                  a,b                distinct: b,c then c,d then d        b,c,d
    blank, b                     b                  distinct: b,c then late c,a          c,a,b
    b, late a                    a,b                distinct: a,a alone                  a,a

The first text is stored as it is, with repeated parts: it was one record, and merging a single
record does not change it. Null is skipped; a key of nulls is null. An empty delimiter splits nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import pyarrow as pa

from widetable.kernels.aggregate import LATE, SKIP
from widetable.merge.aggregate_function import (
    DELIMITER,
    DISTINCT,
    Aggregate,
    AggregateColumn,
    ColumnType,
    Grouping,
    Retraction,
    always,
    never,
    none,
)
from widetable.merge.fold import Fold, spans
from widetable.merge.plan import Computed
from widetable.schema.types import MAX_LENGTH, DataType

# Java's `Character.isWhitespace`, which excludes some of Unicode's blanks.
_BLANKS: Final = (
    "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a\u2028\u2029"
    "\u205f\u3000"
)


def _is_unbounded_string(kind: DataType) -> bool:
    return kind.root == "VARCHAR" and kind.length == MAX_LENGTH


def _listagg(fold: Fold, column: AggregateColumn) -> Computed:
    values, steps = fold.column(column.name).to_pylist(), fold.steps.tolist()
    delimiter, is_distinct = column.get(DELIMITER), column.get(DISTINCT)
    results: list[str | None] = []
    for first, end in spans(fold):
        listed = _Listed(delimiter, is_distinct)
        for record in range(first, end):
            if steps[record] != SKIP and values[record] is not None:
                (listed.late if steps[record] == LATE else listed.add)(values[record])
        results.append(listed.text())
    texts = pa.array(results, pa.large_string())
    return fold.computed(column.name, texts, or_last=not column.field.type.nullable)


class _Listed:
    """The texts of one key, which are joined once, at the end.

    So n records cost their length, not its square; but a late one with `distinct` splits all texts again.
    _texts: whole records; with `distinct` all but the first are parts, and _listed has all parts.
    """

    def __init__(self, delimiter: str, is_distinct: bool) -> None:
        self._delimiter = delimiter
        self._is_distinct = is_distinct
        self._texts: deque[str] = deque()
        self._listed: set[str] = set()

    def add(self, text: str) -> None:
        """Append a text to the stored ones."""
        if not self._texts:
            self._begin(text)
        elif _is_blank(text):
            return
        elif self._is_blank:
            self._begin(text)
        elif self._is_distinct:
            for part in self._parts(text):
                if part not in self._listed and not _is_blank(part):
                    self._listed.add(part)
                    self._texts.append(part)
        else:
            self._texts.append(text)

    def late(self, text: str) -> None:
        """Put a text in front of the stored ones."""
        if not self._texts or self._is_blank:
            self._begin(text)
        elif _is_blank(text):
            return
        elif self._is_distinct:
            stored = self._delimiter.join(self._texts)
            self._begin(text)
            self.add(stored)
        else:
            self._texts.appendleft(text)

    def text(self) -> str | None:
        return self._delimiter.join(self._texts) if self._texts else None

    @property
    def _is_blank(self) -> bool:
        """Whether only one blank text is stored: only the first text can be blank."""
        return len(self._texts) == 1 and _is_blank(self._texts[0])

    def _begin(self, text: str) -> None:
        self._texts = deque([text])
        self._listed = set(self._parts(text)) if self._is_distinct else set()

    def _parts(self, text: str) -> list[str]:
        return text.split(self._delimiter) if self._delimiter else [text]


def _is_blank(text: str) -> bool:
    return not text.strip(_BLANKS)


LISTAGG: Final = Aggregate(
    column_type=ColumnType("STRING without a length", _is_unbounded_string),
    aggregate=_listagg,
    grouping=lambda column: Grouping.IN_ORDER,
    retraction=Retraction.REFUSED,
    by_order=always,
    nulls_count=False,
    # Repeated texts are listed again, but not with `distinct`.
    counts_again=lambda column: not column.get(DISTINCT),
    tells_apart=never,
    normal_form=none,
    boundaries=None,
)
