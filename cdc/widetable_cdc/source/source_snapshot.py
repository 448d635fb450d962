"""Which transactions a snapshot of the server sees. Pure.

    '750:760:752,755'   750 is the oldest that ran, 760 the next to be given, 752 and 755 ran

A text of the type pg_snapshot goes in, whose numbers have 64 bits. The log has the lower 32 bits of a transaction's
number, so those are compared modulo 2^32: a number stands for the one that is nearest to the snapshot's xmax. That
holds as long as fewer than 2^31 transactions lie between, which the server itself ensures. Transactions within others
(savepoints) are not listed, and the log names the outer ones only. Raises InvalidError for another text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from widetable import InvalidError

_LOW: Final = 0xFFFFFFFF
_TEXT: Final = re.compile(r"([0-9]+):([0-9]+):((?:[0-9]+(?:,[0-9]+)*)?)")


@dataclass(frozen=True)
class SourceSnapshot:
    """A snapshot. xmin: all below have ended. xmax: none from here on has. in_progress: ascending, those between that
    run. All with 64 bits.
    """

    xmin: int
    xmax: int
    in_progress: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> SourceSnapshot:
        """Return the snapshot that a text of pg_snapshot names."""
        parts = _TEXT.fullmatch(text)
        if parts is None:
            raise InvalidError(
                "a snapshot",
                found=repr(text),
                expected="xmin:xmax:xid,xid, as pg_current_snapshot() gives it",
                action="Take the text from PostgreSQL, and do not change it.",
            )
        listed = parts[3].split(",") if parts[3] else []
        return cls(int(parts[1]), int(parts[2]), tuple(sorted(int(each) for each in listed)))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(str(each) for each in self.in_progress)}"

    def sees(self, xids: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
        """Return which transactions, committed ones of the log, the snapshot sees."""
        distance = (xids - np.uint32(self.xmax & _LOW)).view(np.int32)
        seen: npt.NDArray[np.bool_] = distance < 0
        if self.in_progress:
            running = np.array([each & _LOW for each in self.in_progress], np.uint32)
            seen &= ~np.isin(xids, running)
        return seen
