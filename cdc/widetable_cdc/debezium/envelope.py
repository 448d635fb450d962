"""What Debezium's envelopes say: an operation, the row before and after it, the position in the source, a schema.

    {"schema": {..}, "payload": {"before": .., "after": .., "op": "u", "source": {..}}}      with a schema
    {"before": .., "after": .., "op": "u", "source": {..}}                                   without

    op       c, r        u          d          t            m
    kind     INSERT      UPDATE     DELETE     TRUNCATE     none: it changes no row

In: `Records`. Out: `Envelopes`: kinds and ranges of bytes, and which records are bad, with the reason. Raises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from widetable_cdc.debezium.json_fields import Fields, Ranges, repeats, scan_fields
from widetable_cdc.debezium.json_kernels import Bytes, Longs, Mask
from widetable_cdc.debezium.json_texts import raw_texts, texts_of
from widetable_cdc.debezium.records import Records
from widetable_cdc.log.changes import Kind

NO_CHANGE: Final = 0
_BODY: Final = ("before", "after", "op", "source")
_KINDS: Final = {
    "c": Kind.INSERT,
    "r": Kind.INSERT,
    "u": Kind.UPDATE,
    "d": Kind.DELETE,
    "t": Kind.TRUNCATE,
    "m": NO_CHANGE,
}
_NO_KIND: Final = 255


@dataclass(frozen=True)
class Envelopes:
    """n records. data: the bytes of their values. kinds: uint8[n], of `Kind`, `NO_CHANGE` for messages, tombstones and
    bad records. letters: uint8[n], of op, 0 without one. is_message, is_tombstone: bool[n]. before, after, source: of
    raw JSON, no text where it is null. forms: int64[n], the number of the record's schema among `schemas`, -1 without
    one. reasons: of the bad records, by their rows.
    """

    records: Records
    data: Bytes
    kinds: npt.NDArray[np.uint8]
    letters: npt.NDArray[np.uint8]
    is_message: Mask
    is_tombstone: Mask
    before: Ranges
    after: Ranges
    source: Ranges
    forms: Longs
    schemas: tuple[str, ...]
    reasons: dict[int, str]


def read_envelopes(records: Records) -> Envelopes:
    """Read the envelopes of records."""
    data, values = texts_of(records.values)
    outer = scan_fields(data, values, ["schema", "payload", *_BODY])
    is_wrapped = outer["payload"].begin_with(data, "{")
    inner = scan_fields(data, outer["payload"].where(is_wrapped), _BODY)
    body = {name: _either(is_wrapped, inner[name], outer[name]) for name in _BODY}
    letters = _letters(data, body["op"])
    kinds = np.full(256, _NO_KIND, np.uint8)
    for letter, kind in _KINDS.items():
        kinds[ord(letter)] = kind
    kind_of = kinds[letters]
    before, after = (_objects(data, body[name]) for name in ("before", "after"))
    is_null = values.begin_with(data, "n") & (values.ends - values.starts >= len("null"))
    is_null |= outer["payload"].begin_with(data, "n") & ~outer["op"].is_there
    is_tombstone = records.is_utf8 & (~values.is_there | is_null)
    reasons = _reasons(records, data, values, outer, body["op"], kind_of, after, is_tombstone)
    is_bad = np.zeros(len(records), np.bool_)
    is_bad[list(reasons)] = True
    is_message = (letters == ord("m")) & ~is_bad & ~is_tombstone
    forms, schemas = _forms(data, outer["schema"].where(outer["schema"].begin_with(data, "{")))
    return Envelopes(
        records=records,
        data=data,
        kinds=np.where(is_bad | is_tombstone | is_message, NO_CHANGE, kind_of).astype(np.uint8),
        letters=letters,
        is_message=is_message,
        is_tombstone=is_tombstone,
        before=before,
        after=after,
        source=_objects(data, body["source"]),
        forms=forms,
        schemas=schemas,
        reasons=reasons,
    )


def _either(chooses: Mask, left: Ranges, right: Ranges) -> Ranges:
    return Ranges(
        np.where(chooses, left.starts, right.starts), np.where(chooses, left.ends, right.ends)
    )


def _objects(data: Bytes, ranges: Ranges) -> Ranges:
    return ranges.where(ranges.begin_with(data, "{"))


def _letters(data: Bytes, op: Ranges) -> npt.NDArray[np.uint8]:
    """Return the letter of each operation; 0 for none, and for a longer text."""
    if not len(data):
        return np.zeros(len(op.starts), np.uint8)
    is_letter = op.begin_with(data, '"') & (op.ends - op.starts == 3)
    return np.where(is_letter, data[np.where(is_letter, op.starts + 1, 0)], 0).astype(np.uint8)


def _reasons(
    records: Records,
    data: Bytes,
    values: Ranges,
    outer: Fields,
    op: Ranges,
    kinds: npt.NDArray[np.uint8],
    after: Ranges,
    is_tombstone: Mask,
) -> dict[int, str]:
    """Say why records are bad, by their rows."""
    needs_row = (kinds == Kind.INSERT) | (kinds == Kind.UPDATE)
    is_json = outer.is_json & values.is_there
    is_change = is_json & ~is_tombstone
    faults = {
        "the value is not UTF-8": ~records.is_utf8,
        "the value is no JSON object": values.is_there & ~is_json & ~is_tombstone,
        "the value is no envelope of Debezium: it has no op": is_change & ~op.is_there,
        "the operation is unknown": is_change & op.is_there & (kinds == _NO_KIND),
        "the row after the change is missing": is_change & needs_row & ~after.is_there,
    }
    return {row: reason for reason, mask in faults.items() for row in np.flatnonzero(mask).tolist()}


def _forms(data: Bytes, schemas: Ranges) -> tuple[Longs, tuple[str, ...]]:
    """Number the different schemas. Equal ones mostly follow each other, so only the first of each run is compared."""
    starts = np.flatnonzero(~repeats(data, schemas))
    firsts = raw_texts(data, Ranges(schemas.starts[starts], schemas.ends[starts]))
    encoded = firsts.dictionary_encode()
    numbers = np.asarray(encoded.indices.fill_null(-1)).astype(np.int64)
    lengths = np.diff(np.append(starts, len(schemas.starts)))
    return np.repeat(numbers, lengths), tuple(encoded.dictionary.to_pylist())


def key_texts(envelopes: Envelopes, names: tuple[str, ...], rows: Longs) -> dict[str, pa.Array]:
    """Return the raw key columns that the keys of some records say, null where they do not."""
    keys = envelopes.records.keys
    if keys is None:
        return {name: pa.nulls(len(rows), pa.large_string()) for name in names}
    data, texts = texts_of(pc.take(keys, pa.array(rows)))
    outer = scan_fields(data, texts, ["payload", *names])
    is_wrapped = outer["payload"].begin_with(data, "{")
    inner = scan_fields(data, outer["payload"].where(is_wrapped), names)
    columns = {}
    for name in names:
        ranges = _either(is_wrapped, inner[name], outer[name])
        columns[name] = raw_texts(data, ranges.where(~ranges.begin_with(data, "n")))
    return columns
