"""An ORC data file as a stored file (stored_file.py): a group is a stripe.

Source: Paimon `OrcTypeUtil`, `FieldWriterFactory`, `OrcTimestampColumnVector`; ORC specification v1. Differences from
Arrow's way of reading ORC:

    CHAR(n)       ORC fills texts with spaces to n characters; Paimon removes spaces at the end. Arrow confuses n
                  bytes with n characters, so it is shown texts without a length.
    times         Arrow has nanoseconds only, which end in the years 1677 and 2262. Where the statistics do not rule out
                  that a column has other times, Arrow reads its seconds as integers, and the nanoseconds are decoded
                  here (not within ROW, ARRAY, MAP: there Arrow refuses such times).
    LOCAL ZONE    Paimon's Java by default stores an instant whose wall clock, in the writer's zone, is the value
                  (`orc.timestamp-ltz.legacy.type`). The stripe has the zone if the file has a TIMESTAMP, too;
                  otherwise it is that of the process, as in Java. ORC's C++ writes the instant itself.
    names         Arrow interprets dots in names as paths, so it is shown numbers.

A stripe is decoded as a whole (the requested columns). Only statistics of times are used: the bounds of a stripe's keys
are those of the file. Raises the errors of `stored_file`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import orc

from widetable.format.footer_seal import Seal
from widetable.format.key_range import KeyRange
from widetable.format.orc import orc_tail
from widetable.format.orc.orc_streams import DIRECT_V2, NANOS, check_streams, numbers_of
from widetable.format.orc.orc_tail import OrcTail, StripeFooter, read_tail
from widetable.format.orc.orc_values import Correction, corrected_values, wide_times
from widetable.format.parquet_data_file import times_beyond
from widetable.format.row_budget import RowBudget, pieces
from widetable.format.stored_file import FileToOpen
from widetable.format.zone_offsets import unknown_zone
from widetable.schema.options import ORC_LEGACY_INSTANTS
from widetable.schema.types import DataField
from widetable.storage.remote.ranged_input import PositionedInput

# The text of ORC's C++ when it has no file for the writer's zone.
_NO_ZONE: Final = "Time zone file"
_MICRO_DIGITS: Final = 6
_TIMES: Final = (orc_tail.TIMESTAMP, orc_tail.INSTANT)
# Milliseconds that nanoseconds hold, and a day for the zone of statistics.
_NANOS_HOLD: Final = (1 << 63) // 1_000_000 - 86_400_000


class OrcDataFile:
    """A StoredFile in the ORC format; it reads the tail when it is created.

    The steps for a stripe, in this order: `check_streams` before Arrow, which could
    end the process; Arrow's decoding; then columns of far times from seconds and nanoseconds,
    and last the conversions of `orc_values`. Memory: one decoded stripe, of the requested columns;
    pieces are slices of it.
    """

    seal: Final = Seal.NONE

    def __init__(self, file: FileToOpen) -> None:
        self._file = file
        self._tail: Final = read_tail(self._bytes, file.meta.file_size, file.path)
        file.check_rows(self._tail.rows)
        root = self._tail.types[0]
        file.check_names(root.names)
        kinds = {
            index: orc_tail.STRING
            for index, kind in enumerate(self._tail.types)
            if kind.kind in (orc_tail.CHAR, orc_tail.VARCHAR)
        }
        self._columns: Final = dict(zip(root.names, root.children, strict=True))
        self._arrow_names: Final = {name: str(i) for i, name in enumerate(root.names)}
        # Decided for the whole file, not by stripe, because the schema has one type for all stripes.
        self._wide: Final = self._wide_columns()
        kinds.update((self._columns[name], orc_tail.LONG) for name in self._wide)
        tail = self._tail.retyped(kinds)
        self._orc = orc.ORCFile(pa.PythonFile(_Retailed(file.source, self._tail.end, tail), "r"))
        arrow_types = [field.type for field in self._orc.schema]
        self.schema: Final = pa.schema(
            [
                (name, self._wide.get(name, arrow))
                for name, arrow in zip(root.names, arrow_types, strict=True)
            ]
        )
        self.group_rows: Final = tuple(stripe.rows for stripe in self._tail.stripes)

    def expect(self, groups: Iterable[int], names: Sequence[str]) -> None:
        """Do nothing: stripes are read whole, one after the other."""

    def batches(
        self, group: int, names: Sequence[str], budget: RowBudget, *, use_threads: bool
    ) -> Iterator[pa.RecordBatch]:
        stripe = self._tail.stripes[group]
        if not stripe.rows:
            return
        arrow_names = [self._arrow_names[name] for name in names]
        footer = self._tail.stripe_footer(self._bytes, stripe)
        types = [index for name in names for index in _walk(self._tail, self._columns[name])]
        check_streams(self._tail, footer, self._bytes, types, stripe.rows)
        try:
            rows = self._orc.read_stripe(group, columns=arrow_names)
        except MemoryError:
            raise
        except pa.ArrowException as cause:
            if _NO_ZONE in str(cause):
                raise unknown_zone(footer.zone or "", self._file.path) from cause
            # No thread is used, so Arrow's unknown errors are caused by the bytes, too.
            raise ValueError(str(cause)) from cause
        zone = self._zone(footer, types)
        arrays = []
        for name, arrow_name in zip(names, arrow_names, strict=True):
            correction = Correction(
                self._tail.types, self._columns[name], zone, name, self._file.path
            )
            array = rows.column(rows.schema.get_field_index(arrow_name))
            if name in self._wide:
                array = self._wide_times(footer, array, correction)
            arrays.append(corrected_values(array, correction))
        batch = pa.RecordBatch.from_arrays(arrays, names=list(names))
        # Only the batch is needed; other references would keep memory as long as the caller keeps
        # the iterator.
        del rows, arrays
        yield from pieces(batch, budget.budget_bytes, budget.rows)

    def key_ranges(self, keys: Sequence[DataField]) -> list[KeyRange]:
        whole = self._file.key_range(keys)
        return [KeyRange(rows, whole.minima, whole.maxima) for rows in self.group_rows]

    def close(self) -> None:
        """Do nothing: the source is its owner's."""

    def _bytes(self, at: int, count: int) -> bytes:
        source = self._file.source
        source.seek(at)
        return bytes(source.read(count))

    def _wide_columns(self) -> dict[str, pa.DataType]:
        """Return columns of times that may exceed nanoseconds, with the types to read them as.

        Only top-level columns count: within nested ones Arrow reads nanoseconds, and refuses far
        times by itself. The unit is microseconds unless the schema has more digits, as
        microseconds reach 290,000 years.
        """
        tail, far = self._tail, {}
        for name, index in self._columns.items():
            kind, times = tail.types[index].kind, tail.times[index]
            is_held = times is not None and all(abs(time) < _NANOS_HOLD for time in times)
            if kind in _TIMES and not is_held:
                stored = self._file.schema.by_name.get(name)
                digits = 0 if stored is None else stored.type.precision or 0
                zone = "UTC" if kind == orc_tail.INSTANT else None
                far[name] = pa.timestamp("ns" if digits > _MICRO_DIGITS else "us", zone)
        return far

    def _wide_times(
        self, footer: StripeFooter, seconds: pa.Array, correction: Correction
    ) -> pa.Array:
        if footer.encodings[correction.index][0] != DIRECT_V2:
            raise times_beyond(
                correction.column, correction.path, "in an encoding before ORC's version 2"
            )
        stream = (correction.index, NANOS)
        nanos = numbers_of(self._tail, footer, self._bytes, stream, len(seconds))
        return wide_times(seconds, nanos, footer.zone, self._wide[correction.column], correction)

    def _zone(self, footer: StripeFooter, types: Sequence[int]) -> str | None:
        """Return the zone whose wall clock gives the values; None where instants are values."""
        has_instants = any(self._tail.types[index].kind == orc_tail.INSTANT for index in types)
        is_legacy = self._file.schema.typed_options.get(ORC_LEGACY_INSTANTS)
        if not (has_instants and is_legacy and self._tail.is_java):
            return None
        return footer.zone or ""


def _walk(tail: OrcTail, index: int) -> Iterator[int]:
    yield index
    for child in tail.types[index].children:
        yield from _walk(tail, child)


class _Retailed(PositionedInput):
    """A file with a replaced tail.

    Arrow reads it like any file: positions before `end` are those of the source, behind it
    comes the other tail. All readers share one position, so it is not thread-safe.
    """

    def __init__(self, source: pa.NativeFile, end: int, tail: bytes) -> None:
        """Replace the tail. end: where the tail begins."""
        super().__init__(end + len(tail))
        self._source, self._end, self._tail = source, end, tail

    def read(self, size: int = -1) -> bytes:
        last = self._size if size < 0 else min(self._size, self._at + size)
        data = b""
        if self._at < min(last, self._end):
            self._source.seek(self._at)
            data = bytes(self._source.read(min(last, self._end) - self._at))
        if last > self._end:
            start = max(self._at - self._end, 0)
            data += self._tail[start : last - self._end]
        self._at += len(data)
        return data
