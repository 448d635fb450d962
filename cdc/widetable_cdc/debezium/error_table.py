"""Records that could not be applied, as rows of the table `<db>.__cdc_errors` (`applying/error_rows.py`).

    name       commit user                    kind      +I, +U or -D; null if nobody knows
    relation   the table                      key       of the record
    lsn        number of the batch            row       the record, or its row as JSON
    position   of the record in the batch     reason    what is wrong, in words
                                              time      when it was first seen

A batch that comes again adds none, as its records have the same numbers. Raises what making and writing a table raises.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable import Catalog
from widetable.connector import now_millis
from widetable_cdc.applying.error_rows import errors_table

_KINDS: Final = {"c": "+I", "r": "+I", "u": "+U", "d": "-D"}


def store_bad_records(catalog: Catalog, table: str, user: str, batch: int, bad: pa.Table) -> None:
    """Write bad records (`bad_records`) of a batch of a table; nothing without any. table: as `db.name`."""
    if not bad.num_rows:
        return
    count = bad.num_rows
    moment = pa.scalar(now_millis(), pa.timestamp("ms", "UTC"))
    kinds = [_KINDS.get(letter or "") for letter in bad.column("kind").to_pylist()]
    columns = {
        "name": pa.repeat(pa.scalar(user), count),
        "relation": pa.repeat(pa.scalar(table), count),
        "lsn": pa.repeat(pa.scalar(batch, pa.int64()), count),
        "position": bad.column("ordinal"),
        "kind": pa.array(kinds, pa.string()),
        "key": bad.column("key").cast(pa.string()),
        "row": pc.utf8_trim_whitespace(bad.column("row")).cast(pa.string()),
        "reason": bad.column("reason"),
        "time": pa.repeat(moment, count),
    }
    errors_table(catalog, table.partition(".")[0]).write(pa.table(columns))
