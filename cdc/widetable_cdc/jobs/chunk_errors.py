"""Rows of a chunk of the full copy that their types do not hold, for the table of errors.

Their lsn is that of the chunk's snapshot, and their position the hash of their key, so a chunk that is read again from
an equal snapshot adds none. Raises what writing the table of errors raises.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import numpy as np
import pyarrow as pa

from widetable.connector import now_millis
from widetable_cdc.applying.error_rows import ERROR_SCHEMA, ErrorTable
from widetable_cdc.applying.last_states import INSERTED
from widetable_cdc.values.text_cast import Cast


def write_chunk_errors(
    errors: ErrorTable,
    relation: str,
    key: Sequence[str],
    batch: pa.RecordBatch,
    casts: Mapping[str, Cast],
    lsn: int,
) -> None:
    """Write the bad rows of a batch. batch: as the source gave it, in the columns of the target."""
    reasons: dict[int, str] = {}
    for name, cast in casts.items():
        for row in np.flatnonzero(cast.bad).tolist():
            reasons.setdefault(row, f"column {name!r}: {cast.reason}")
    numbers = sorted(reasons)
    now = datetime.fromtimestamp(now_millis() / 1000, timezone.utc)
    rows = []
    for number, row in zip(numbers, batch.take(pa.array(numbers)).to_pylist(), strict=True):
        texts = {name: None if value is None else str(value) for name, value in row.items()}
        keys = json.dumps({name: texts.pop(name) for name in key}, ensure_ascii=False)
        rows.append(
            {
                "name": errors.job,
                "relation": relation,
                "lsn": lsn,
                "position": zlib.crc32(keys.encode()),
                "kind": INSERTED,
                "key": keys,
                "row": json.dumps(texts, ensure_ascii=False),
                "reason": reasons[number],
                "time": now,
            }
        )
    errors.write_rows(pa.Table.from_pylist(rows, ERROR_SCHEMA))
