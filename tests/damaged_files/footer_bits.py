"""`python -m tests.damaged_files.footer_bits`: what each wrong bit of a footer does to a process that reads the file.

A known limit, not a test: nothing covers a Parquet footer with a checksum, and Arrow ends the process at some of its
bits (an exception that leaves a C++ function which must not throw). Each bit is read in a child of its own.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.widetable.format.data_files import SIMPLE, batch_of, read, simple_rows, write
from widetable.errors import DamagedError, UnsupportedError

_RIGHT, _REFUSED, _WRONG, _RAW = range(4)
_SAID = {_RIGHT: "right rows", _REFUSED: "refused", _WRONG: "wrong rows", _RAW: "another error"}


def main() -> None:
    path = Path(tempfile.mkdtemp()) / "data-0.parquet"
    meta = write(path, SIMPLE, [batch_of(SIMPLE, simple_rows(*range(20)))])
    whole, rows = path.read_bytes(), read(path, meta, SIMPLE)
    counts: Counter[str] = Counter()
    for at in range(len(whole) - 8 - int.from_bytes(whole[-8:-4], "little"), len(whole)):
        for bit in range(8):
            spoiled = bytearray(whole)
            spoiled[at] ^= 1 << bit
            path.write_bytes(spoiled)
            child = os.fork()
            if child == 0:
                try:
                    os._exit(_RIGHT if read(path, meta, SIMPLE) == rows else _WRONG)
                except (DamagedError, UnsupportedError):
                    os._exit(_REFUSED)
                except BaseException:  # noqa: BLE001 -- it is what is looked for
                    os._exit(_RAW)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said = _SAID.get(code, f"killed by signal {-code}")
            counts[said] += 1
            if code not in (_RIGHT, _REFUSED):
                sys.stdout.write(f"byte {at}, bit {bit}: {said}\n")
    sys.stdout.write(f"{dict(counts)}\n")


if __name__ == "__main__":
    main()
