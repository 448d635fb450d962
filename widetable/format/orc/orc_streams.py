"""Check the lengths of a stripe's texts and lists before Arrow reads it: Arrow ends the process where a
length is negative or exceeds the memory, or where a dictionary lacks an entry, and ORC has no checksums.

Raises ValueError. Runs of ORC before version 2 (Hive 0.11) are not checked.

    encoding        LENGTH            DATA                        checks
    DIRECT_V2       of each value     not read                    lengths >= 0, in sum below 2 GiB
    DICTIONARY_V2   of each entry     the entry of each value     also: a length for each entry,
                                                                  an existing entry for each value

A column has as many values as the stripe has rows, a child of lists and maps as many as the sum of their lengths, and a
dictionary no more entries than that: a few bytes that claim more numbers are damage, and cost nothing.

Arrow's string and list offsets have 32 bits, hence 2 GiB. The check decodes lengths and
entries, which Arrow does again, and reads these streams, but not the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from widetable.format.orc.orc_tail import LIST, MAP, STRUCT, OrcTail, Read, StripeFooter
from widetable.kernels.arrow_buffers import frozen
from widetable.kernels.orc_runs import Numbers, unsigned_runs

DATA, LENGTH, NANOS = 1, 2, 5
DIRECT_V2, _DICTIONARY_V2 = 2, 3
_MOST: Final = (1 << 31) - 1


def check_streams(
    tail: OrcTail, footer: StripeFooter, read: Read, types: Sequence[int], rows: int
) -> None:
    """Raise ValueError for invalid lengths. types: those that will be read, each before its children. rows: of the
    stripe.

    Types without lengths (numbers, times, structs) have no such stream and pass. footer: of the
    stripe. read: reads (position, count) of the file.
    """
    most = dict.fromkeys(types, rows)
    for index in types:
        encoding, entries = footer.encodings[index]
        kind, values = tail.types[index], most[index]
        below = values if kind.kind == STRUCT else _MOST
        if encoding in (DIRECT_V2, _DICTIONARY_V2):
            has_entries = encoding == _DICTIONARY_V2
            limit = min(values, entries) if has_entries else values
            lengths = numbers_of(tail, footer, read, (index, LENGTH), limit)
            # Summed as floats: a sum of int64 could wrap around to a small number.
            total = lengths.sum(dtype=np.float64)
            if np.any(lengths < 0) or total > _MOST:
                raise ValueError(f"lengths in the column {index} that no stripe has")
            if kind.kind in (LIST, MAP):
                below = int(total)
            if has_entries:
                chosen = numbers_of(tail, footer, read, (index, DATA), values)
                is_short = len(lengths) != entries or np.any(chosen < 0)
                if is_short or (len(chosen) and chosen.max() >= entries):
                    raise ValueError(f"a dictionary of the column {index} that lacks entries")
        most.update(dict.fromkeys(kind.children, below))


def numbers_of(
    tail: OrcTail, footer: StripeFooter, read: Read, stream: tuple[int, int], most: int
) -> Numbers:
    """Return the unsigned numbers of a stream, at most `most`; none where there is no such stream."""
    place = footer.streams.get(stream)
    data = b"" if place is None else tail.stream(read, place)
    numbers = unsigned_runs(frozen(np.frombuffer(data, np.uint8)), most)
    if numbers is None:
        raise ValueError(f"a stream of the column {stream[0]} that is no runs of {most} numbers")
    return numbers
