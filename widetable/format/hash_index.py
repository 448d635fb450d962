"""Hash indexes of dynamic buckets: the hashes of the keys that a bucket has (`bucket_hash.key_hashes`).

    file := hash*          int32, big-endian, each once, in any order

Source: Paimon `HashIndexFile`, `IntFileUtils`; format.md section 13. Raises DamagedError naming the subject.
"""

from __future__ import annotations

import numpy as np

from widetable.errors import DamagedError
from widetable.kernels.hashing.bucket_hash import Hashes
from widetable.messages.counted import counted


def write_hash_index(hashes: Hashes) -> bytes:
    """Return the file of these hashes."""
    return hashes.astype(">i4").tobytes()


def read_hash_index(data: bytes, subject: str) -> Hashes:
    """Return the hashes, ascending. subject: the file's path, for messages.

    The file's order and repetitions do not matter. Its length is not compared with the
    manifest's here.
    """
    if len(data) % 4:
        raise DamagedError(
            subject,
            found=counted(len(data), "byte"),
            expected="a multiple of 4, the bytes of a hash",
            action="Restore the file from a copy of the table.",
        )
    return np.unique(np.frombuffer(data, ">i4").astype(np.int32))
