"""The state of a commit between its attempts, in memory only. Raises nothing.

What a commit leaves on disk if its process dies, step by step (`committer`):

    after step                                  on disk                 found by the next commit
    data files of the writers                   unreferenced files      orphans, unless committed again
    lists, manifests, index of this attempt     unreferenced files      orphans
    snapshot-(N+1) is published                 the whole commit        committed: a replay commits nothing
    the mark and the hint                       fewer files to check    nothing is missing without them

So a caller that got no answer commits again with the same user and identifier, whatever happened.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import uuid4

from widetable.commit.transaction.commit_files import CommitFiles
from widetable.commit.transaction.commit_request import CommitRequest, FileChanges
from widetable.commit.transaction.ordered_append import OrderedAppend
from widetable.commit.transaction.replay import CommitHistory
from widetable.commit.transaction.touched_keys import Untouched


@dataclass
class Attempts:
    """The attempts of one commit. files: None before the first attempt. may_be_published: whether the last
    publish got no answer, so that the snapshot may exist.

    changes: the files of the last attempt; for a rewrite and for an append that was overtaken they differ from attempt
    to attempt. order: keeps the order of an append's sequence numbers. history, untouched: each stores up to which
    snapshot it has checked. started_millis: monotonic. uuid: of the snapshot in all attempts; it identifies the
    snapshot if the publish got no answer. retries: lost races. For one thread.
    """

    request: CommitRequest
    changes: FileChanges
    history: CommitHistory
    order: OrderedAppend
    started_millis: float
    files: CommitFiles | None = None
    uuid: str = field(default_factory=lambda: str(uuid4()))
    retries: int = 0
    may_be_published: bool = False
    untouched: Untouched = field(default_factory=Untouched)
