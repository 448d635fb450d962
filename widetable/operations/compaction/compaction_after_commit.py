"""What is compacted behind a commit, and by whom. It never fails the commit: a lost race is left to the next one, other
errors are logged.

With `changelog-producer=lookup` no append may stay without its changelog because somebody else had the lease just then.
It leaves a note (`compaction_wishes`) and waits for its turn among the writes of this machine. Whose turn it is makes,
in one compaction, the changelog of all that have left a note by then, whose notes go: they find that it is made. Who
does not get the lease all the same, because a maintainer or another machine has it, leaves a note to anybody and asks
once more; who has made its own changelog and finds such notes serves them behind its commit. Either the one that wrote
the note gets the lease, or its holder sees the note. Nor may one stay without it because its writer was killed before
it compacted: its note is open to anybody then, and when its batch comes again, all that is due is compacted.

What a commit need not wait for is done behind it (`compaction_threads`): with `lookup-wait=false` the changelog, else
large picks among the older levels (`bucket_plan.Scope`), under a lease of their own: they share no file with
what commits move up. A commit whose pick can be put off no longer waits for them. Under barriers the files of a whole
interval are due at once: if they are many, they are compacted behind the commit that happened to complete the barrier,
and appends go on at its pace (`compaction_pace`): no writer gets further ahead.

Why no append of `lookup` stays without its changelog:

    A  commits, asks for the lease: M has it     leaves an open note, asks again: has it, compacts
    M  has planned before A's commit             or M has it yet: finds the note, compacts again

    A  commits, is killed before its note        the batch comes again, which compacts what is due
    A  commits, notes, is killed                 the note is open; whoever compacts next answers it
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from widetable.commit.notes.compaction_requests import CompactionWishes
from widetable.commit.transaction.committer import Committer
from widetable.errors import ConflictError, StorageError, WidetableError
from widetable.format.bucket_id import BucketId
from widetable.lsm.bucket_plan import Plan, Scope, new_rows, rewrites_much, takes_much
from widetable.lsm.compaction import RowsDone
from widetable.lsm.levels import compacts_with_lookup
from widetable.messages.warning_code import WarningCode, warn
from widetable.operations.compaction.compaction import (
    Newest,
    answered,
    compact_scope,
    due_plans,
    newest_entries,
)
from widetable.operations.compaction.compaction_cut import last_cut, waiting_buckets
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
    """What is due in the buckets of an append; messages is None: in the whole table, after a batch came again that was
    in already. Raises nothing: the append is in.

    With the producer `lookup` and `lookup-wait=false` a thread does it. With others nobody waits for what is due after
    a replay, and the next append does it.
    """
    is_awaited = compacts_with_lookup(state.options)
    if messages is None and not is_awaited:
        return
    touched = None if messages is None else frozenset(m.bucket_id for m in messages)
    rows = sum(file.row_count for message in messages or () for file in message.new_files)
    follow_up = _FollowUp(state, committer, touched, rows)
    if is_awaited and not state.options.get(opt.LOOKUP_WAIT):
        with _logged(state):
            CHANGELOGS.submit(state.paths.root, follow_up.noted(partial(follow_up.run, False)))
    else:
        follow_up.run(may_put_off=True)


@contextlib.contextmanager
def _logged(state: TableState) -> Iterator[None]:
    """What fails inside is logged, and no error of who waits for it."""
    try:
        yield
    except ConflictError as lost:
        _log.info("compaction of %s is left to the next: %s", state.paths.root, lost)
    except WidetableError as error:
        # What a full disk says to do is of a commit that failed.
        said = error.facts if isinstance(error, StorageError) else error
        text = (
            "compaction of %s after an append failed, and is left to the next; the append is in: %s"
        )
        warn(_log, WarningCode.COMPACTION_FAILED, text, state.paths.root, said)
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
    """Of one commit. touched: its buckets, None for all. rows: that it has appended. rows_done: told of what its
    compaction has done.

    Here, in order: wait for the pace; leave it to the thread if that is at it; wait for the old
    levels if they are in the way; compact, or put off; leave the rest to the other thread. In a
    thread (may_put_off is False) nothing waits for a pace: it would wait for itself.
    """

    state: TableState
    committer: Committer
    touched: frozenset[BucketId] | None
    rows: int = 0
    rows_done: RowsDone | None = None

    def noted(self, work: Callable[[str | None], None]) -> Callable[[], None]:
        """The work, with a note until it is done: a process that is killed leaves it to the next that compacts. The
        work is given the note, None where none could be made.
        """
        try:
            note = self._wishes.add(is_own=True)
        except StorageError as refusal:
            _log.info("no note of a compaction that is still to be done: %s", refusal)
            return partial(work, None)

        def noted_run() -> None:
            try:
                work(note)
            finally:
                with _logged(self.state):
                    self._wishes.forget([note])

        return noted_run

    def run(self, may_put_off: bool, note: str | None = None) -> None:
        root = self.state.paths.root
        with _logged(self.state):
            # Without barriers nothing is handed over that an append would have to wait for.
            may_put_off = may_put_off and self._is_cut
            if may_put_off:
                CHANGELOGS.pace(root).follow(self.rows)
                if self._is_put_off():
                    return
            plans = self._plans(Scope.COMMIT)
            if any(rewrites_much(plan, self.state.options) for plan in plans):
                OLD_LEVELS.wait(root)  # it may be at the same files, and be done with them
            barrier = self._much_of_barrier(plans) if may_put_off else None
            if barrier is not None:
                self._put_off(barrier, plans)
            elif plans:
                self._compact_now(note)
            if compacts_with_lookup(self.state.options) and self._plans(Scope.REST):
                OLD_LEVELS.submit_alone(root, self._compact_rest)

    def _compact_now(self, note: str | None) -> None:
        """What the commit waits for. A changelog is made by whose turn it is, at once for all that wait meanwhile.

        note: of this commit, where it has one already.
        """
        if not compacts_with_lookup(self.state.options):
            self._round(self._newest, None)
            return
        wish = note or self._wishes.add(is_own=True)
        try:
            with self.state.file_io.turn(self.state.paths.compaction_turn):
                # Whoever had the turn before may have made it, with that of all others, and
                # taken the note.
                is_made = not self._wishes.is_there(wish) or self._round(self._newest, wish)
                if not is_made:
                    self._wishes.add(is_own=False)  # its holder finds it, or is done by now
                    is_made = self._round(self._newest, wish)
        finally:
            self._wishes.forget([wish])
        if is_made and self._wishes.open():
            # Behind the commit: nobody waits for work that is not its own.
            CHANGELOGS.submit_alone(self.state.paths.root, self._serve)

    def _round(self, newest: Callable[[], Newest], own: str | None) -> bool:
        """Compact what is due there, or in the whole table if others wait; False when somebody else has the lease.

        own: the caller's note. More are of others, whose buckets are not known here. All are
        answered when it is done, so an error leaves them.
        """
        with held_lease(self.state) as is_ours:
            if is_ours:
                with answered(self.state) as notes:
                    wanted = self._newest_of_all if set(notes) - {own} else newest
                    compact_scope(
                        self.state,
                        self.committer,
                        wanted,
                        Scope.COMMIT,
                        rows_done=self.rows_done,
                    )
            return is_ours

    def _serve(self) -> None:
        """For those that do not come back to it: killed ones, and those of other machines."""
        with _logged(self.state):
            while self._wishes.open():
                with self.state.file_io.turn(self.state.paths.compaction_turn):
                    if not self._round(self._newest_of_all, None):
                        return

    def _is_put_off(self) -> bool:
        """Whether the thread is at all that may be taken: most commits complete no barrier."""
        pending = CHANGELOGS.pending_barriers(self.state.paths.root)
        latest = self.committer.snapshots.latest
        return bool(pending) and last_cut(self.state, self.committer, latest()) in pending

    def _much_of_barrier(self, plans: Sequence[Plan]) -> int | None:
        """The barrier up to which there is much to be done; None where it is little."""
        if any(takes_much(plan, self.state.options) for plan in plans):
            return last_cut(self.state, self.committer, self.committer.snapshots.latest())
        return None

    def _put_off(self, barrier: int, plans: Sequence[Plan]) -> None:
        """Leave the files up to a barrier to the thread. Appends go on at its pace."""
        root = self.state.paths.root
        pace = CHANGELOGS.pace(root)
        compact = replace(self, rows_done=pace.rows_done)._compact_behind
        work = (
            self.noted(compact)
            if compacts_with_lookup(self.state.options)
            else partial(compact, None)
        )
        taken = pace.hand_over(new_rows(plans))  # last: appends wait from here until `finish`

        def paced_work() -> None:
            try:
                work()
            finally:
                pace.finish(taken)

        CHANGELOGS.submit(root, paced_work, barrier)

    def _compact_behind(self, note: str | None) -> None:
        with _logged(self.state):
            self._compact_now(note)

    def _compact_rest(self) -> None:
        lease = self.state.paths.old_levels_lease
        with _logged(self.state), held_lease(self.state, path=lease) as is_ours:
            if is_ours:
                compact_scope(self.state, self.committer, self._newest, Scope.REST)

    @property
    def _is_cut(self) -> bool:
        """Whether the table is under barriers."""
        return self.state.options.get(BARRIER_INTERVAL) is not None

    @property
    def _wishes(self) -> CompactionWishes:
        return CompactionWishes(self.state.file_io, self.state.paths)

    def _plans(self, scope: Scope) -> list[Plan]:
        return due_plans(self.state, self.committer, self._newest(), scope)

    def _newest(self) -> Newest:
        touched = self.touched
        if self._is_cut:
            # A commit that completes a barrier lets files go that others brought, in any bucket.
            latest = self.committer.snapshots.latest()
            touched = waiting_buckets(self.state, self.committer, latest)
            if not touched:
                return latest, []
        return newest_entries(self.committer, touched)

    def _newest_of_all(self) -> Newest:
        return newest_entries(self.committer)
