"""Which version of a row a time has: the arguments `basis`, `ttl`, `event_times` and `as_known`, checked.

    basis     ttl    read
    known     none   the row of each key at its time, by lookups and from the history
    known     given  the versions: the age of a row is the time since the commit that changed it last
    event            the versions, group by group

In: what a caller gives, a held past, and keys with times. Out: the columns of the features. Raises InvalidError for
arguments that do not fit one another, and NotFoundError for a time that the past does not cover.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from widetable.arguments import flag, one_of, refused
from widetable.derive.changes.equal_keys import rows_at
from widetable.derive.versions.age_limit import age_limit_micros
from widetable.derive.versions.entity_rows import EntityRows
from widetable.derive.versions.event_groups import event_groups
from widetable.derive.versions.event_rows import event_rows
from widetable.derive.versions.held_past import HeldPast
from widetable.derive.versions.past_versions import past_versions
from widetable.derive.versions.snapshot_moments import check_not_before
from widetable.derive.versions.version_rows import known_versions
from widetable.schema.history_columns import FROM, SNAPSHOT, check_kept

_BASES: Final = ("known", "event")


class AgeRule:
    """A checked choice. is_final: whether later commits change no answer for a time that has passed."""

    def __init__(self, basis: str, ttl: Any, event_times: Any, as_known: bool) -> None:
        self.basis: Final = one_of(basis, _BASES, "basis")
        self._limit_micros = age_limit_micros(ttl)
        self._event_times = event_times
        self._as_known = flag(as_known, "as_known")
        if self.basis == "known" and event_times is not None:
            raise refused(event_times, "event_times", "none with basis='known', or basis='event'")
        if self.basis == "known" and as_known:
            raise refused(
                as_known, "as_known", "False with basis='known', which is as known always"
            )
        self.is_final: Final = self.basis == "known" or self._as_known

    def columns(
        self, past: HeldPast, given: EntityRows, features: Sequence[str]
    ) -> list[pa.ChunkedArray | pa.Array]:
        """Return the features of the keys, in order."""
        if self.basis == "event":
            return self._of_events(past, given, features)
        if self._limit_micros is None:
            return list(past.known_rows(given.keys, given.at_micros, features).columns)
        return self._known(past, given, features, self._limit_micros)

    def _of_events(
        self, past: HeldPast, given: EntityRows, features: Sequence[str]
    ) -> list[pa.Array]:
        groups = event_groups(past.table.schema, self._event_times, features)
        own = [name for group in groups for name in (group.time, *group.ties)]
        read = dict.fromkeys([*features, *own])
        check_kept(past.table.schema, read)
        versions = past_versions(past, given.keys, list(read))
        columns = event_rows(
            versions,
            given.at_micros,
            groups,
            past.oldest,
            as_known=self._as_known,
            limit_micros=self._limit_micros,
        )
        return [columns[name] for name in features]

    def _known(
        self, past: HeldPast, given: EntityRows, features: Sequence[str], limit_micros: int
    ) -> list[pa.ChunkedArray]:
        """Return what was known and not older than the limit. A row of the oldest snapshot may be older than that."""
        at, oldest = given.at_micros, past.oldest
        versions, places = known_versions(past_versions(past, given.keys, features), at)
        check_not_before(oldest, at, (places < 0) & (at < oldest.millis * 1000))
        ages = at - np.append(versions.numbers(FROM) * 1000, 0)[places]
        is_there = ~np.append(versions.is_deleted, True)[places]
        is_of_oldest = np.append(versions.numbers(SNAPSHOT), 0)[places] == oldest.snapshot_id
        is_young = is_there & (ages <= limit_micros)
        check_not_before(oldest, at - limit_micros, is_young & is_of_oldest)
        rows = versions.rows.select(list(features))
        return list(rows_at(rows, np.where(is_young, places, -1)).columns)
