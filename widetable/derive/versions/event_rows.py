"""The features of keys by the time at which they happened, whenever they were written.

    versions of a group      clicked_at 5: A      clicked_at 3: B, written later
    at                       2 null    4 B    5 A

For each group of features: the newest version whose own time is not after the row's. Of equal times the one counts that
the other columns of the order say, and of those that are equal the one that was written last: by `_from`, then
`_snapshot`, then `_place`. With `as_known` only versions count that had been written by the row's time. A version
without a time of its own is none for the group: so a delete ends a feature only where the record that deletes has a
time, as with the changelog producer `input`; from then on the feature is null.

In: the versions of the keys, their times, groups, and a limit of age. Out: one column per feature. Raises NotFoundError
for a time at which a version may have counted that is not kept any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from widetable.derive.changes.equal_keys import key_numbers, rows_at
from widetable.derive.versions.as_of import last_known_until, last_until
from widetable.derive.versions.event_groups import EventGroup
from widetable.derive.versions.event_micros import event_micros
from widetable.derive.versions.snapshot_moments import Oldest, check_not_before
from widetable.derive.versions.version_rows import VersionRows
from widetable.kernels.array_types import Positions
from widetable.kernels.arrow_buffers import one_array, valid_of
from widetable.schema.history_columns import FROM, PLACE, SNAPSHOT

_FIRST_MICROS: Final = np.iinfo(np.int64).min


def event_rows(
    versions: VersionRows,
    at_micros: Positions,
    groups: Sequence[EventGroup],
    oldest: Oldest,
    *,
    as_known: bool,
    limit_micros: int | None,
) -> dict[str, pa.Array]:
    """Return the features by name, one value for each key."""
    columns: dict[str, pa.Array] = {}
    if as_known:
        check_not_before(oldest, at_micros, at_micros < oldest.millis * 1000)
    for group in groups:
        is_dated = valid_of(one_array(versions.rows.column(group.time)))
        if group.by_rows:
            is_dated = is_dated & (versions.numbers(PLACE) == 0)
        dated = versions.where(is_dated)
        times = event_micros(dated.rows.column(group.time), group.unit)
        _check_reach(dated, times, at_micros, oldest)
        ties = _ranks(dated, group)
        dated, order = dated.sorted_by(
            times, *ties, dated.numbers(FROM), dated.numbers(SNAPSHOT), dated.numbers(PLACE)
        )
        times = times[order]
        if as_known:
            written = dated.numbers(FROM) * 1000
            places = last_known_until(times, written, dated.firsts, dated.counts, at_micros)
        else:
            places = last_until(times, dated.firsts, dated.counts, at_micros)
        places[np.append(dated.is_deleted, True)[places]] = -1
        if limit_micros is not None:
            # The difference of two times may not fit their type; what is subtracted here always does.
            oldest_micros = np.maximum(at_micros, _FIRST_MICROS + limit_micros) - limit_micros
            places[np.append(times, 0)[places] < oldest_micros] = -1
        rows = rows_at(dated.rows.select(list(group.features)), places)
        columns |= {name: one_array(rows.column(name)) for name in group.features}
    return columns


def _ranks(dated: VersionRows, group: EventGroup) -> list[Positions]:
    """Return numbers by which versions of one time are in the order of the group."""
    if not group.ties:
        return []
    (ranks,) = key_numbers([dated.rows], group.ties)
    return [-ranks if group.is_descending else ranks]


def _check_reach(
    dated: VersionRows, times: Positions, at_micros: Positions, oldest: Oldest
) -> None:
    """Refuse a time before that of the oldest version of its key: an older one may have expired."""
    is_image = (dated.numbers(SNAPSHOT) == oldest.snapshot_id) & (dated.numbers(PLACE) == 0)
    image = dated.where(is_image)
    of_image = np.append(times[is_image], 0)[np.where(image.counts > 0, image.firsts, -1)]
    check_not_before(oldest, at_micros, (image.counts > 0) & (at_micros < of_image))
