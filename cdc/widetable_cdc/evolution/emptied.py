"""Finds the transactions of a round at whose end a table was empty, by the log alone: those that end with a truncate.

    TRUNCATE                      empty: a transaction that truncates keeps others out until it ends
    INSERT, TRUNCATE              empty
    TRUNCATE, INSERT              not empty: what was inserted may have been rewritten without an event

Such a transaction explains that the rows lie in other files: what was rewritten before it is gone. Pure. Raises
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from widetable_cdc.log.changes import ChangeBatch, Kind


def emptied_by(batches: Sequence[ChangeBatch]) -> frozenset[int]:
    """Return the transactions whose last change of a relation is a truncate. batches: of the relation, in order."""
    if not any((batch.kinds == Kind.TRUNCATE).any() for batch in batches):
        return frozenset()
    xids = np.concatenate([batch.xids for batch in batches])
    kinds = np.concatenate([batch.kinds for batch in batches])
    # The changes of a transaction follow one another.
    is_last = np.append(xids[1:] != xids[:-1], True)
    return frozenset(xids[is_last & (kinds == Kind.TRUNCATE)].tolist())
