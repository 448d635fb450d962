"""How difficult each input stream is, counted from its records: late, repeated, corrected.

In: the files of the streams as Arrow, in order of arrival. Out: one `InputProfile` per stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from examples.flights.column_group import ColumnGroup
from examples.flights.wide_table import STREAMS

LATE_SECONDS = 3_600


@dataclass(frozen=True)
class InputProfile:
    """Counts of one stream.

    late: issued more than an hour before the newest record that had already arrived. repeated: exact
    copies of a record that came before. superseded: first versions whose correction is also in the
    stream. overtaken: those of them that arrive after their correction.
    """

    group: str
    file_count: int
    record_count: int
    late_count: int
    repeated_count: int
    superseded_count: int
    overtaken_count: int


def profile_streams(streams: dict[str, list[pa.Table]]) -> list[InputProfile]:
    """One profile per stream, in their order."""
    return [_profile(group, streams[group.name]) for group in STREAMS]


def _profile(group: ColumnGroup, files: list[pa.Table]) -> InputProfile:
    records = pa.concat_tables(files)
    issued = records[group.sequence].to_numpy()
    position = pa.array(np.arange(records.num_rows))
    key = group.key_names
    versions = (
        records.select([*key, group.sequence])
        .append_column("position", position)
        .group_by([*key, group.sequence])
        .aggregate([("position", "min")])
    )
    keys = versions.group_by(key).aggregate(
        [("position_min", "max"), (group.sequence, "max"), (group.sequence, "count")]
    )
    newest = versions.join(
        keys, keys=[*key, group.sequence], right_keys=[*key, f"{group.sequence}_max"]
    )
    corrected = newest.filter(pc.field(f"{group.sequence}_count") > 1)
    overtaken = corrected.filter(pc.field("position_min") < pc.field("position_min_max"))
    return InputProfile(
        group=group.name,
        file_count=len(files),
        record_count=records.num_rows,
        late_count=int(np.count_nonzero(np.maximum.accumulate(issued) - issued > LATE_SECONDS)),
        repeated_count=records.num_rows - versions.num_rows,
        superseded_count=versions.num_rows - keys.num_rows,
        overtaken_count=overtaken.num_rows,
    )
