"""Deletes the files of messages that were certainly not published, as far as that goes.

It is called where something has failed already, and that error is the one to be raised: a file that cannot be deleted
is said in the log and left to `remove_orphan_files`. Raises nothing of this package.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from widetable.errors import WidetableError
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")


def discard(state: TableState, messages: Iterable[CommitMessage]) -> None:
    """Delete what they added."""
    for message in messages:
        for file in message.written_files():
            try:
                state.discard(message.partition, message.bucket, (file,))
            except WidetableError as refusal:
                _log.info("a file that nobody needs stays until orphans are removed: %s", refusal)
