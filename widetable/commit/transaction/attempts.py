"""What a commit carries from attempt to attempt, in memory only. Raises nothing.

What a commit leaves on disk where its process dies, step by step (`committer`):

    behind step                                 there is then           found by the next one
    data files of the writers                   files nobody names      orphans, unless committed again
    lists, manifests, index of this attempt     files nobody names      orphans
    snapshot-(N+1) is published                 the whole commit        in: a replay commits nothing
    the mark and the hint                       less to look at         nothing is missing without them

So a caller that got no answer commits again with the same user and identifier, whatever happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from widetable.commit.transaction.commit_files import CommitFiles
from widetable.commit.transaction.commit_request import CommitRequest
from widetable.commit.transaction.ordered_append import OrderedAppend
from widetable.commit.transaction.replay import CommitHistory
from widetable.commit.transaction.touched_keys import Untouched


@dataclass
class Attempts:
    """Of one commit. files: None before the first attempt. may_be_in: it is not known how a publish that was tried
    ended.

    asked: as it stands behind the newest snapshot seen so far; that of a rescaling, and of an append that was
    overtaken, differs from attempt to attempt. order: of the append's numbers. history, untouched: each remembers up
    to which snapshot it has looked. started_millis: monotonic. uuid: of the snapshot in all attempts, by which one
    whose publish was not answered is known again. retries: lost races. For one thread.
    """

    asked: CommitRequest
    history: CommitHistory
    order: OrderedAppend
    started_millis: float
    files: CommitFiles | None = None
    uuid: str = field(default_factory=lambda: str(uuid4()))
    retries: int = 0
    may_be_in: bool = False

    def __post_init__(self) -> None:
        self.untouched = Untouched(self.asked)
