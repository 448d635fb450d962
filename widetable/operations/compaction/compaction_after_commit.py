"""Compacts after a commit, and decides which process does it. It never fails the commit: after a lost race the next
commit compacts, and other errors are logged.

One object (`_FollowUp`) owns the notes, the queue, the plans and the choice of a thread, because together they keep one
promise: every append of `changelog-producer=lookup` gets its changelog, and waits for little else. An append leaves a
note (`compaction_requests`) and waits for its turn among the writes of this machine. The append whose turn it is makes,
in one compaction, the changelog of all that have left a note by then, and removes the notes: their owners find that the
work is done. If a maintainer or another machine has the lease, the append leaves an open note and tries the lease once
more; an append that has made its own changelog and finds open notes serves them after its commit. So either the writer
of a note gets the lease, or the holder of the lease sees the note. If a writer is killed, its note becomes open, and
when its batch is repeated, all that is due is compacted. Threads do what a commit need not wait for
(`compaction_threads`): with `lookup-wait=false` the changelog; large picks among the older levels
(`bucket_plan.Scope`), under a lease of their own, as they share no file with the picks of commits; and under barriers,
where the files of a whole interval are due at once, all of these if they are many, and appends then wait so that
they do not get ahead (`compaction_pace`).

Deciding who compacts needs the plans, so the work receives them. It reads the newest snapshot again, after the queue
and after the notes are listed, and plans a bucket again only if its files differ.

Why every append of `lookup` gets its changelog:

    A  commits, asks for the lease: M has it     leaves an open note, asks again: gets it, compacts
    M  has planned before A's commit             or M still has it: finds the note, compacts again

    A  commits, is killed before its note        the batch is repeated, which compacts what is due
    A  commits, notes, is killed                 the note is open; the next compaction answers it
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from widetable.commit.notes.compaction_requests import CompactionRequests
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, StorageError, WidetableError
from widetable.format.bucket_id import BucketId
from widetable.lsm.bucket_plan import Plan, Scope, new_rows, rewrites_much, takes_much
from widetable.lsm.compaction import RowsDone
from widetable.lsm.levels import looks_up_rows
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.compaction.compaction import (
    Newest,
    answered,
    compact_scope,
    made_plans,
    newest_entries,
)
from widetable.operations.compaction.compaction_cut import last_cut, waiting_buckets
from widetable.operations.compaction.compaction_job import MadePlans
from widetable.operations.handle.compaction_threads import CHANGELOGS, OLD_LEVELS
from widetable.operations.handle.held_lease import held_lease
from widetable.schema import options as opt
from widetable.schema.barrier_options import BARRIER_INTERVAL
from widetable.write.commit_message import CommitMessage
from widetable.write.table_state import TableState

_log = logging.getLogger("widetable")


def compact_after_commit(
    state: TableState, committer: Committer, messages: Sequence[CommitMessage] | None
) -> None:
    """Compact what is due in the buckets of an append. messages is None: in the whole table, after a replay.

    It raises nothing, because the append is committed. With the producer `lookup` and `lookup-wait=false` a thread
    does the work. With other producers, work that is due after a replay is left to the next append.
    """
    is_awaited = looks_up_rows(state.schema)
    if messages is None and not is_awaited:
        return
    touched = None if messages is None else frozenset(m.bucket_id for m in messages)
    rows = sum(file.row_count for message in messages or () for file in message.new_files)
    follow_up = _FollowUp(state, committer, touched, rows)
    if is_awaited and not state.options.get(opt.LOOKUP_WAIT):
        with _logged(state):
            follow_up.hand_over(partial(follow_up.run, False))
    else:
        follow_up.run(may_put_off=True)


@contextlib.contextmanager
def _logged(state: TableState) -> Iterator[None]:
    """Log the errors of the block instead of raising them."""
    try:
        yield
    except ConflictError as lost:
        _log.info("compaction of %s is left to the next append: %s", state.paths.root, lost)
    except WidetableError as error:
        # The advice in the error of a full disk is about a failed commit.
        facts = error.facts if isinstance(error, StorageError) else error
        text = "compaction of %s after an append failed, and the next append repeats it; the append is committed: %s"
        warn(_log, WarningCode.COMPACTION_FAILED, text, state.paths.root, facts)
    except Exception:  # noqa: BLE001
        warn(
            _log,
            WarningCode.COMPACTION_FAILED,
            "compaction of %s after an append failed",
            state.paths.root,
            level=logging.ERROR,
            exc_info=True,
        )


@dataclass(frozen=True)
class _FollowUp:
    """The compactions after one commit. touched: its buckets, None for all. rows: the number that it appended.
    rows_done: is told of the progress. made: the last plan of each bucket and scope.

    In the caller, in this order: wait for the pace; leave the work to the thread if that does it already; wait for
    the old levels if they are in the way; compact or postpone; leave the rest to the other thread. In a thread
    (may_put_off is False) nothing waits for a pace, because it would wait for itself.
    """

    state: TableState
    committer: Committer
    touched: frozenset[BucketId] | None
    rows: int = 0
    rows_done: RowsDone | None = None
    made: MadePlans = field(default_factory=dict)

    def run(self, may_put_off: bool, note: str | None = None) -> None:
        root, options = self.state.paths.root, self.state.options
        with _logged(self.state):
            is_caller = may_put_off
            # Without barriers an append never has to wait for work that was handed over.
            may_put_off = may_put_off and self._is_cut
            if may_put_off:
                CHANGELOGS.pace(root).follow(self.rows)
                pending = CHANGELOGS.pending_barriers(root)
                if pending and self._last_cut() in pending:
                    return  # the thread already compacts up to this barrier; most commits complete none
            plans = self._plans(Scope.COMMIT)
            if any(rewrites_much(plan, options) for plan in plans):
                OLD_LEVELS.wait(root)  # it may be compacting the same files
            if may_put_off and any(takes_much(plan, options) for plan in plans):
                paced = replace(self, rows_done=CHANGELOGS.pace(root).rows_done)
                self.hand_over(paced._compact_now, self._last_cut(), new_rows(plans))
            elif plans and self._compact_now(note) and is_caller and self._requests.open():
                # After the commit, so that no one waits for the work of others.
                CHANGELOGS.submit(root, self._serve, looks_at_all=True)
            if looks_up_rows(self.state.schema) and self._plans(Scope.REST):
                OLD_LEVELS.submit(root, self._compact_rest, is_alone=True)

    def hand_over(
        self,
        work: Callable[[str | None], object],
        barrier: int | None = None,
        new_rows: Mapping[str, int] | None = None,
    ) -> None:
        """Leave the work to the thread (`CHANGELOGS.submit`).

        The work of a changelog gets a note, or None where none could be made. The note lasts until the work is done:
        if the process is killed, the next compaction does it. Then the thread answers the open notes of others.
        """
        note = None
        try:
            if looks_up_rows(self.state.schema):
                note = self._requests.add(is_own=True)
        except StorageError as refusal:
            _log.info("could not leave a note of a pending compaction: %s", refusal)

        def noted_work() -> None:
            with _logged(self.state):
                work(note)
            if note is not None:
                with _logged(self.state):
                    self._requests.forget([note])
            if looks_up_rows(self.state.schema):
                self._serve()

        CHANGELOGS.submit(self.state.paths.root, noted_work, barrier, new_rows)

    def _compact_now(self, note: str | None) -> bool:
        """Compact what the commit waits for. One append makes the changelogs of all that wait meanwhile.

        note: that of this commit, if it has one already. Return whether open notes of others may be left for us: with
        a changelog, unless another process has the lease.
        """
        if not looks_up_rows(self.state.schema):
            self._round(None)
            return False
        own = note or self._requests.add(is_own=True)
        try:
            with self.state.file_io.turn(self.state.paths.compaction_queue):
                # The writer before us in the queue may have made this changelog, too, and removed the note.
                is_made = not self._requests.is_there(own) or self._round(own)
                if not is_made:
                    # The holder of the lease finds this open note, or has released the lease by now.
                    self._requests.add(is_own=False)
                    is_made = self._round(own)
        finally:
            self._requests.forget([own])
        return is_made

    def _round(self, own: str | None) -> bool:
        """Compact what is due, in the whole table if others wait. Return False when another process has the lease.

        own: the caller's note. Other notes are of others, whose buckets are unknown here. All are answered when the
        work is done, so an error leaves them.
        """
        with held_lease(self.state) as is_ours:
            if is_ours:
                with answered(self.state) as notes:
                    whole_table = partial(newest_entries, self.committer)
                    others_wait = bool(set(notes) - {own})
                    self._compact(Scope.COMMIT, whole_table if others_wait else self._newest)
            return is_ours

    def _serve(self) -> None:
        """Answer open notes, whose writers do not return to them: they were killed or are on other machines."""
        with _logged(self.state):
            while self._requests.open():
                with self.state.file_io.turn(self.state.paths.compaction_queue):
                    if not self._round(None):
                        return

    def _compact_rest(self) -> None:
        lease = self.state.paths.old_levels_lease
        with _logged(self.state), held_lease(self.state, path=lease) as is_ours:
            if is_ours:
                self._compact(Scope.REST, self._newest)

    def _compact(self, scope: Scope, newest: Callable[[], Newest]) -> None:
        compact_scope(
            self.state, self.committer, newest, scope, rows_done=self.rows_done, made=self.made
        )

    @property
    def _is_cut(self) -> bool:
        """Whether the table is under barriers."""
        return self.state.options.get(BARRIER_INTERVAL) is not None

    @property
    def _requests(self) -> CompactionRequests:
        return CompactionRequests(self.state.file_io, self.state.paths)

    def _plans(self, scope: Scope) -> list[Plan]:
        made = made_plans(self.state, self.committer, self._newest(), scope)
        self.made.update(made)
        return [plan for _, plan in made.values() if plan]

    def _newest(self) -> Newest:
        touched = self.touched
        if self._is_cut:
            # A commit that completes a barrier makes files of other commits due, in any bucket.
            latest = self.committer.snapshots.latest()
            touched = waiting_buckets(self.state, self.committer, latest)
            if not touched:
                return latest, []
        return newest_entries(self.committer, touched)

    def _last_cut(self) -> int | None:
        return last_cut(self.state, self.committer, self.committer.snapshots.latest())
