"""Rows of a chunk of the full copy that their types do not hold, for the table of errors.

Their lsn is that of the chunk's snapshot, and their position the hash of their key, so a chunk that is read again from
an equal snapshot adds none. Raises what writing the table of errors raises.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Final

import numpy as np
import pyarrow as pa

from widetable.connector import now_millis
from widetable_cdc.applying.error_rows import ERROR_SCHEMA, ErrorTable
from widetable_cdc.applying.last_states import INSERTED
from widetable_cdc.values.text_cast import Cast

# From 1970 to 2000, where PostgreSQL begins to count.
_EPOCH_DAYS: Final = 10_957
_EPOCH_MICROS: Final = 946_684_800_000_000


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
    bad = batch.take(pa.array(numbers))
    for at, number in enumerate(numbers):
        texts = {name: _text_of(bad.column(name)[at]) for name in bad.schema.names}
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


def _text_of(value: pa.Scalar) -> str | None:
    """Return a value as text: a moment that Python has no date for as PostgreSQL's infinity, or by its number."""
    if not value.is_valid:
        return None
    try:
        return str(value.as_py())
    except (OverflowError, ValueError):
        number = int(value.value)
        bits, epoch = (32, _EPOCH_DAYS) if pa.types.is_date32(value.type) else (64, _EPOCH_MICROS)
        # The driver adds the epoch to the server's number, which wraps around for both infinities.
        sent = (number - epoch + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        if sent == (1 << (bits - 1)) - 1:
            return "infinity"
        if sent == -(1 << (bits - 1)):
            return "-infinity"
        return f"{number} {'days' if bits == 32 else 'microseconds'} from 1970-01-01"
