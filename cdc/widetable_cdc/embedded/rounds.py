"""Cuts the engine's batches into rounds of whole transactions, each with the offset to begin at after it.

    records    BEGIN 7   row   row   END 7 | BEGIN 8   row ...          cut behind END 7: 8 is not complete
    offset                                   that of BEGIN 7, as the newest one that is not within a transaction

A round begins anew at a change of the schema, so the rows of a round have one form. In the full copy, which begins
again after a restart, rounds have no offset, and may end anywhere.

In: `EngineBatch`es in their order. Out: `EngineRound`s. Pure; raises what `EngineBatch` and `binlog_position` raise.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from widetable_cdc.embedded.binlog_position import offset_position
from widetable_cdc.embedded.engine_batch import EngineBatch


@dataclass(frozen=True)
class EngineRound:
    """Whole transactions. changes: of rows, in their order. schema_changes: values of the records before them, JSON.

    offset: where the engine begins after the round; None while the full copy is not complete. ends_copy: whether the
    full copy ends with the round. is_copied: whether the changes are rows of the full copy.
    """

    changes: tuple[EngineBatch, ...]
    schema_changes: tuple[str, ...]
    offset: str | None
    ends_copy: bool
    is_copied: bool

    def __len__(self) -> int:
        """Return the number of changes."""
        return sum(map(len, self.changes))


@dataclass
class RoundCutter:
    """Collects batches. prefix: of topics. offset: where the engine began; None for a full copy."""

    prefix: str
    offset: str | None
    _pending: list[EngineBatch] = field(default_factory=list, init=False)
    _schema_changes: list[str] = field(default_factory=list, init=False)
    _rounds: list[EngineRound] = field(default_factory=list, init=False)
    _is_copying: bool = field(init=False)

    def __post_init__(self) -> None:
        self._is_copying = self.offset is None

    @property
    def waiting(self) -> int:
        """The number of changes that belong to no complete round yet, and of those that nobody took."""
        return sum(map(len, self._pending)) + sum(map(len, self._rounds))

    def add(self, batch: EngineBatch) -> None:
        """Take a batch."""
        at = 0
        for change in np.flatnonzero(batch.is_schema(self.prefix)).tolist():
            self._add_part(batch.part(at, change))
            self._close()
            self._note_offset(batch.part(change, change + 1))
            self._schema_changes.append(batch.values[change].as_py())
            if not self._is_copying:
                self._round(ends_copy=False)  # no transaction is open, and nothing else may come
            at = change + 1
        self._add_part(batch.part(at, len(batch)))

    def take(self) -> list[EngineRound]:
        """Return the rounds that are complete. What comes later belongs to others."""
        rounds, self._rounds = self._rounds, []
        return rounds

    def _add_part(self, part: EngineBatch) -> None:
        """Take records without changes of the schema, and end a round behind the last transaction in them."""
        if not len(part):
            return
        if self._is_copying:
            copied = np.flatnonzero(part.is_copied())
            end = int(copied[-1]) + 1 if len(copied) else 0
            rest = np.flatnonzero(part.is_clean()[end:] & ~part.is_change(self.prefix)[end:])
            if not len(rest):
                self._keep(part)
                self._round(ends_copy=False)
                return
            # The last row of the copy has an offset behind it already.
            end += int(rest[0]) + 1
            self._keep(part.part(0, end))
            self._note_offset(part.part(end - 1, end))
            self._round(ends_copy=True)
            self._is_copying = False
            part = part.part(end, len(part))
            if not len(part):
                return
        ends = np.flatnonzero(part.ends_transaction(self.prefix))
        end = int(ends[-1]) + 1 if len(ends) else 0
        self._keep(part.part(0, end))
        self._note_offset(part.part(0, end))
        if end:
            self._round(ends_copy=False)
        self._keep(part.part(end, len(part)))
        self._note_offset(part.part(end, len(part)))

    def _close(self) -> None:
        """End a round before a change of the schema, which ends each transaction."""
        self._round(ends_copy=False)

    def _keep(self, part: EngineBatch) -> None:
        is_change = part.is_change(self.prefix)
        if is_change.all():
            kept = part
        else:
            rows = np.flatnonzero(is_change)
            kept = EngineBatch(
                *(
                    column.take(rows)
                    for column in (part.topics, part.keys, part.values, part.offsets)
                )
            )
        if len(kept):
            self._pending.append(kept)

    def _note_offset(self, part: EngineBatch) -> None:
        """Keep the newest offset at the begin of a transaction. The first one of a session may be at a file's begin."""
        clean = np.flatnonzero(part.is_clean())
        if not len(clean):
            return
        offset = part.offsets[int(clean[-1])].as_py()
        if self.offset is None or offset_position(offset) >= offset_position(self.offset):
            self.offset = offset

    def _round(self, *, ends_copy: bool) -> None:
        """End a round. It is one with the round before it, if nobody took that and nothing divides them."""
        is_copied = self._is_copying
        made = EngineRound(
            tuple(self._pending),
            tuple(self._schema_changes),
            None if is_copied and not ends_copy else self.offset,
            ends_copy,
            is_copied,
        )
        self._pending, self._schema_changes = [], []
        before = self._rounds[-1] if self._rounds else None
        is_one = before is not None and before.is_copied == is_copied and not before.ends_copy
        if before is not None and is_one and (is_copied or not made.schema_changes):
            self._rounds[-1] = replace(
                made,
                changes=(*before.changes, *made.changes),
                schema_changes=(*before.schema_changes, *made.schema_changes),
            )
        else:
            self._rounds.append(made)
