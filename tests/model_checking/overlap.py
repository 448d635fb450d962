"""One key of a table whose writers overlap, as a system to search: what was committed later is later.

Each writer begins (takes its number), looks at what is published, and publishes if nobody was faster; else it looks
again. Where a live row that depends on the order has a higher number, the look gives the writer a new one. Compactions
plan and publish in two steps as well: of all rows, which forgets deletes, or of the newest ones without the base.

Two engines: `deduplicate`, where a row wins as a whole and keeps its number, and `partial-update` with
remove-record-on-delete, where a merged row has the number of its first record, and 0 where nothing older is left
(decision 0007). Broken: the rows by number are not those of the commits in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.model_checking.configuration import Mistake
from tests.model_checking.search import Broken


class Record(NamedTuple):
    """What one writer writes. columns: of its add, none of a delete."""

    writer: str
    columns: tuple[str, ...]

    @property
    def is_delete(self) -> bool:
        return not self.columns


# a and b write one column, c another one, d deletes the row.
RECORDS: Final = (Record("a", ("x",)), Record("b", ("x",)), Record("c", ("y",)), Record("d", ()))
_COLUMNS: Final = ("x", "y")

# Per column who wrote its value, None for null; None for no row.
Values = tuple[str | None, ...] | None


class Stored(NamedTuple):
    """A row at some level. deletes: a row that removes what is older."""

    number: int
    values: Values
    deletes: bool = False

    @property
    def columns(self) -> set[str]:
        named = zip(_COLUMNS, self.values or (), strict=False)
        return {name for name, value in named if value is not None}


class Writer(NamedTuple):
    """number: 0 before it began, and when it is done. has_looked: and nobody has published since, where is_fresh."""

    number: int = 0
    has_looked: bool = False
    is_fresh: bool = False
    is_done: bool = False


class OverlapState(NamedTuple):
    """rows: live ones. commits: writers in the order of their snapshots. plan: the inputs of a compaction, and whether
    nothing older is left beside them. Only the order of numbers counts, so each is its rank among those that are there.
    """

    writers: tuple[Writer, ...] = tuple(Writer() for _ in RECORDS)
    rows: tuple[Stored, ...] = ()
    commits: tuple[int, ...] = ()
    plan: tuple[tuple[Stored, ...], bool] | None = None

    def with_writer(self, index: int, writer: Writer) -> OverlapState:
        writers = list(self.writers)
        writers[index] = writer
        return self._replace(writers=tuple(writers))

    @property
    def next_number(self) -> int:
        """Above all that are there, as a clock and the noted number give it."""
        numbers = [*(writer.number for writer in self.writers), *(row.number for row in self.rows)]
        return max(numbers) + 1

    def published(self) -> OverlapState:
        """Behind a new snapshot: whoever looked before it has to look again."""
        return self._replace(writers=tuple(w._replace(is_fresh=False) for w in self.writers))

    def ranked(self) -> OverlapState:
        """The same state with ranks as numbers; 0 stays 0."""
        planned = self.plan[0] if self.plan else ()
        numbers = {
            0,
            *(w.number for w in self.writers),
            *(r.number for r in (*self.rows, *planned)),
        }
        ranks = {number: rank for rank, number in enumerate(sorted(numbers))}

        def ranked_rows(rows: Iterable[Stored]) -> tuple[Stored, ...]:
            return tuple(row._replace(number=ranks[row.number]) for row in rows)

        return self._replace(
            writers=tuple(w._replace(number=ranks[w.number]) for w in self.writers),
            rows=ranked_rows(self.rows),
            plan=self.plan and (ranked_rows(planned), self.plan[1]),
        )


@dataclass(frozen=True)
class Overlap:
    """mixes: columns are merged one by one."""

    mixes: bool
    mistake: Mistake | None = None

    def start(self) -> OverlapState:
        return OverlapState()

    def steps(self, state: OverlapState) -> Iterator[tuple[str, OverlapState]]:
        for action, after in self.unranked_steps(state):
            yield action, after.ranked()

    def unranked_steps(self, state: OverlapState) -> Iterator[tuple[str, OverlapState]]:
        for index, writer in enumerate(state.writers):
            name = RECORDS[index].writer
            if writer.is_done:
                continue
            if not writer.number:
                yield f"{name} begins", state.with_writer(index, Writer(state.next_number))
            elif not writer.has_looked:
                yield f"{name} looks", self.look(state, index, writer)
            else:
                yield from self.publish(state, index, writer)
        yield from self.compact(state)

    def look(self, state: OverlapState, index: int, writer: Writer) -> OverlapState:
        looked = writer._replace(has_looked=True, is_fresh=True)
        if self.mistake != "overtaken_is_published" and self.is_overtaken(state, index, writer):
            looked = looked._replace(number=state.next_number)
        return state.with_writer(index, looked)

    def is_overtaken(self, state: OverlapState, index: int, writer: Writer) -> bool:
        record = RECORDS[index]
        newer = [row for row in state.rows if row.number >= writer.number]
        if not self.mixes:
            return bool(newer)
        meets = any(row.columns.intersection(record.columns) for row in newer)
        if self.mistake == "only_columns_count":
            return meets
        return meets or any(row.deletes or record.is_delete for row in newer)

    def publish(
        self, state: OverlapState, index: int, writer: Writer
    ) -> Iterator[tuple[str, OverlapState]]:
        name = RECORDS[index].writer
        if not writer.is_fresh and self.mistake != "looks_once":
            yield f"{name} lost", state.with_writer(index, writer._replace(has_looked=False))
            return
        done = state.with_writer(index, Writer(is_done=True)).published()
        yield (
            f"{name} is published",
            done._replace(
                rows=_sorted((*state.rows, stored(index, writer.number))),
                commits=(*state.commits, index),
            ),
        )

    def compact(self, state: OverlapState) -> Iterator[tuple[str, OverlapState]]:
        if state.plan is None:
            in_order = sorted(state.rows)
            for first in range(len(in_order)):
                inputs = tuple(in_order[first:])
                is_whole = first == 0
                if is_whole or (len(inputs) > 1 and not any(row.deletes for row in inputs)):
                    yield (
                        f"a compaction plans {len(inputs)}",
                        state._replace(plan=(inputs, is_whole)),
                    )
            return
        inputs, is_whole = state.plan
        if not set(inputs) <= set(state.rows):  # it lost
            yield "the compaction drops its plan", state._replace(plan=None)
            return
        left = [row for row in state.rows if row not in inputs]
        merged = self.merged(inputs, is_whole=is_whole)
        yield (
            f"a compaction replaces {len(inputs)}",
            state.published()._replace(rows=_sorted((*left, *merged)), plan=None),
        )

    def merged(self, inputs: tuple[Stored, ...], *, is_whole: bool) -> list[Stored]:
        """What a compaction leaves of rows in the order of their numbers; nothing of a delete at the bottom."""
        values = self.folded(row[1:] for row in inputs)
        if values is None:
            last = inputs[-1].number
            return [] if is_whole else [Stored(last, None, True)]
        if not self.mixes:
            return [Stored(inputs[-1].number, values)]
        return [Stored(0 if is_whole else inputs[0].number, values)]

    def folded(self, rows: Iterable[tuple[Values, bool]]) -> Values:
        found: Values = None
        for values, deletes in rows:
            if deletes or values is None:
                found = None
            elif not self.mixes or found is None:
                found = values
            else:
                found = tuple(new or old for new, old in zip(values, found, strict=True))
        return found

    def check(self, state: OverlapState) -> None:
        shown = self.folded(row[1:] for row in sorted(state.rows))
        expected = self.folded(stored(index, 1)[1:] for index in state.commits)
        if shown != expected:
            order = ", ".join(RECORDS[index].writer for index in state.commits)
            raise Broken(f"after {order} the row is {shown}, not {expected}")

    def finished(self, state: OverlapState) -> bool:
        return all(writer.is_done for writer in state.writers)


def stored(index: int, number: int) -> Stored:
    """The row that a writer publishes."""
    record = RECORDS[index]
    if record.is_delete:
        return Stored(number, None, True)
    values = tuple(record.writer if name in record.columns else None for name in _COLUMNS)
    return Stored(number, values)


def _sorted(rows: Iterable[Stored]) -> tuple[Stored, ...]:
    return tuple(sorted(rows, key=lambda row: (row.number, row.deletes, repr(row.values))))
