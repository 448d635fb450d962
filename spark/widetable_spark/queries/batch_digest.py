"""A digest of the contents of a micro-batch: equal when Spark runs the batch again, different for any other batch.

Spark notes what a batch reads in `<checkpoint>/offsets/<batch id>` before it begins, and never again: a replay uses
that file (spark.md section 3). The digest is SHA-256 of the query's id and these bytes, so another query's batch of the
same number has another digest, as has a batch that an older copy of the checkpoint makes today. Raises nothing: a
checkpoint that cannot be read here (another storage, or one that the session's configuration names) gives no digest.

Batch 3 arrives, and 3 is the last committed batch of its user (`commit/transaction/replay.py`):

    the same batch            the same digest    it is committed already, nothing is committed
    of a checkpoint that      another one: the   InvalidError: to take it for the same would lose its rows
    was put back              file has a time
    no digest                 not known          taken for the same, by its number alone
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from typing import Final

from widetable import WidetableError
from widetable.connector import local_path, locate

_log = logging.getLogger("widetable.spark")
_logged: Final[set[str | None]] = set()


def batch_digest(checkpoint: str | None, batch_id: int, query_ids: Iterable[str]) -> str | None:
    """Return the digest of a batch; None where its contents cannot be read. The reason is logged once, at level debug.

    checkpoint: the option `checkpointLocation`, a path or URL; None: not given. query_ids: of the tasks; normally one.
    """
    try:
        noted = None if checkpoint is None else _offsets_of_batch(checkpoint, batch_id)
    except WidetableError as error:
        _log_once(checkpoint, str(error))
        return None
    if noted is None:
        _log_once(checkpoint, "no option checkpointLocation")
        return None
    digest = hashlib.sha256()
    for query_id in sorted(query_ids):
        digest.update(f"{query_id}\n".encode())
    digest.update(noted)
    return digest.hexdigest()


def _offsets_of_batch(checkpoint: str, batch_id: int) -> bytes:
    # Spark reads buckets with credentials of its own: a look with ours would be tried for long, batch after batch.
    storage, root = locate(local_path(checkpoint))
    return storage.read(f"{root}/offsets/{batch_id}")


def _log_once(checkpoint: str | None, why: str) -> None:
    """Log once per checkpoint: the reason is the same for every batch."""
    if checkpoint not in _logged:
        _logged.add(checkpoint)
        _log.debug("batches of checkpoint %r have no digest: %s", checkpoint, why)
