"""Where in its source a change was made: a number that grows.

    source                                       position
    lsn 24401168                                 24401168, PostgreSQL
    file mysql-bin.000003, pos 154               3 * 2^32 + 154, MySQL and MariaDB
    scn "2164301"                                2164301, Oracle
    ts_ms 1795991452818                          1795991452818, the others

`events` names what is one event in the source, by raw JSON: a change of a key comes as a delete and an insert of one
event. In: bytes and ranges of `source`. Out: int64, -1 without a position. Pure. Raises nothing.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widetable_cdc.debezium.json_fields import Ranges, scan_fields
from widetable_cdc.debezium.json_kernels import Bytes, Longs
from widetable_cdc.debezium.json_texts import string_texts
from widetable_cdc.debezium.value_cast import cast

NO_POSITION: Final = -1
_FILE_BYTES: Final = 1 << 32
_FIELDS: Final = ("lsn", "file", "pos", "scn", "ts_ms")


def positions(data: Bytes, source: Ranges) -> Longs:
    """Return the position of each change."""
    fields = scan_fields(data, source, _FIELDS)
    texts = {name: string_texts(data, fields[name]) for name in _FIELDS}
    numbers = pc.replace_substring_regex(texts["file"], r"^.*\.(\d+)$", r"\1")
    in_files = pc.add(pc.multiply(_long(numbers), _FILE_BYTES), _long(texts["pos"]))
    choices = (_long(texts["lsn"]), in_files, _long(texts["scn"]), _long(texts["ts_ms"]))
    return np.asarray(pc.coalesce(*choices).fill_null(NO_POSITION)).astype(np.int64)


def events(data: Bytes, source: Ranges) -> pa.Array:
    """Return a text for each event of the source, null where the source does not name it: large_string."""
    fields = scan_fields(data, source, ("lsn", "scn"))
    lsn, scn = (string_texts(data, fields[name]) for name in ("lsn", "scn"))
    nothing = pa.scalar(None, pa.large_string())
    named = pc.coalesce(lsn, scn)
    return pc.if_else(pc.equal(named, "null").fill_null(True), nothing, named)


def _long(texts: pa.Array) -> pa.Array:
    return cast(texts, pa.int64()).values
