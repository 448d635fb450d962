"""What a commit carries from attempt to attempt, in memory only. Raises nothing."""

from __future__ import annotations

import uuid
from typing import Final

from widetable.commit.commit_files import CommitFiles
from widetable.commit.commit_request import CommitRequest
from widetable.commit.replay import CommitHistory
from widetable.commit.touched_keys import Untouched


class Attempts:
    """Of one commit. files: None before the first attempt. may_be_in: it is not known how a publish that was tried
    ended.
    """

    def __init__(
        self,
        asked: CommitRequest,
        history: CommitHistory,
        started_millis: float,
    ) -> None:
        self.asked = asked
        self.files: CommitFiles | None = None
        self.history = history
        self.started_millis = started_millis
        self.uuid: Final = str(uuid.uuid4())
        self.retries = 0
        self.may_be_in = False
        read_id, is_at_barrier = asked.read_snapshot_id or 0, asked.barrier is not None
        self.untouched = Untouched(asked.messages, read_id, asked.by.user, retracted=is_at_barrier)
