"""Batches of rows for a training: an iterator over one snapshot whose order can be computed, resumed and shared.

In: the pinned rows, how batches are asked for (`batch_schedule`), and the form of each column. Out: per epoch an
iterator of batches. Nothing is read before the first batch but what the plan needs (`piece_plan`). It is picklable, and
a forked child may go on with it. Raises InvalidError for nulls and states that do not fit, NotFoundError for a snapshot
that has expired, and what reading data files raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from widetable.arguments import whole_number
from widetable.derive.loading.batch_schedule import BatchPlan, BatchSchedule, Taker
from widetable.derive.loading.column_form import ColumnForm, form_of, null_refused
from widetable.derive.loading.loading_state import check_order, check_workers, checked_state
from widetable.derive.loading.piece import RowGroupPiece
from widetable.derive.loading.pinned_rows import PinnedRows, pinned_rows, snapshot_expired
from widetable.derive.loading.pool_rows import ArrowPool, NumpyPool, Order, PoolRows
from widetable.derive.loading.taken_rows import TrackReader, taken_rows
from widetable.errors import InvalidError, NotFoundError
from widetable.messages.counted import counted
from widetable.operations.handle.open_table import OpenTable


@dataclass(frozen=True)
class FormChoices:
    """The caller's choices for the forms of columns. fills, vocabularies: by column."""

    masks: bool
    fills: dict[str, Any]
    vocabularies: dict[str, Any]

    def of(self, pinned: PinnedRows) -> tuple[ColumnForm, ...]:
        """Return the forms of the pinned columns."""
        names = [field.name for field in pinned.fields]
        for argument, given in (("null", self.fills), ("vocabularies", self.vocabularies)):
            unknown = [name for name in given if name not in names]
            if unknown:
                raise InvalidError(
                    f"{argument}[{unknown[0]!r}]",
                    found="no such column among those that are read",
                    expected=f"one of {', '.join(names)}",
                    action="Correct the name.",
                )
        return tuple(
            form_of(field, masks=self.masks, fills=self.fills, vocabularies=self.vocabularies)
            for field in pinned.fields
        )


@dataclass(frozen=True)
class LoadingChoices:
    """What a caller asked for. filter: as given. forms: None for Arrow batches."""

    table: OpenTable
    columns: Sequence[str] | None
    filter: Any
    plan: BatchPlan
    rank: int
    world: int
    forms: FormChoices | None


class BatchLoader(AbstractContextManager["BatchLoader"]):
    """Batches of the rows of one snapshot, for a training.

    `Table.to_batches` makes it. Each iteration gives one epoch; the next one goes on with the next epoch. It keeps its
    snapshot from expiry until it is closed or garbage-collected. It can be pickled and sent to another process, which
    then keeps the snapshot itself. One thread may use it.

    Examples
    --------
    >>> import widetable as wt
    >>> columns = {"id": "BIGINT", "price": "DOUBLE"}
    >>> catalog = wt.Catalog("warehouse")
    >>> sales = catalog.create_table("shop.sales", columns, primary_key=["id"])
    >>> sales.write([{"id": 1, "price": 1.5}, {"id": 2, "price": 2.5}]).snapshot_id
    1
    >>> loader = sales.to_batches(["price"])
    >>> [batch["price"].tolist() for batch in loader]
    [[1.5, 2.5]]
    """

    __module__ = "widetable"

    def __init__(self, wanted: LoadingChoices, pinned: PinnedRows) -> None:
        self._wanted = wanted
        self._pinned = pinned
        self._forms = None if wanted.forms is None else wanted.forms.of(pinned)
        self._epoch = 0
        # What the newest iterator has given, and where the next one begins.
        self._given = self._start = 0
        self._workers = 1
        self._resumed: dict[str, Any] | None = None
        self._iterations = 0

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read; None if the table had none."""
        return self._pinned.snapshot_id

    @property
    def rows(self) -> int:
        """The number of rows of the snapshot that the filter keeps, before any are dropped or repeated."""
        return sum(self._pinned.piece_rows)

    def __len__(self) -> int:
        """The number of batches of this rank in an epoch, if it has one worker."""
        return self.batches()

    def batches(self, workers: int = 1) -> int:
        """Count the batches of this rank in an epoch.

        Parameters
        ----------
        workers : int, default 1
            The number of worker processes of the rank. With `global_batch` it does not matter.

        Returns
        -------
        int
            The number; that of all other ranks is the same.

        Raises
        ------
        InvalidError
            `workers` is no such number.

        Examples
        --------
        >>> loader.batches()
        1
        """
        workers = whole_number(workers, "workers", least=1)
        return self._schedule(Taker(self._wanted.rank, self._wanted.world, 0, workers)).batches

    def __iter__(self) -> Iterator[Any]:
        """Give the batches of the epoch, from its beginning, or from where a state was loaded."""
        return self.batches_of_worker(0, 1)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch. The order of its rows depends on the seed and this number.

        Parameters
        ----------
        epoch : int
            The number, 0 or more.

        Raises
        ------
        InvalidError
            It is no such number.

        Examples
        --------
        >>> loader.set_epoch(3)
        >>> loader.state_dict()["epoch"]
        3
        """
        self._epoch = whole_number(epoch, "epoch", least=0)
        self._iterations += 1
        self._given = self._start = 0
        self._resumed = None

    def state_dict(self, batches: int | None = None, workers: int | None = None) -> dict[str, Any]:
        """Return where the training is, as a dict that JSON can hold.

        At the end of an epoch this is the beginning of the next one.

        Parameters
        ----------
        batches : int, default None
            How many batches the rank has given in the epoch, where worker processes read and only the training loop
            knows it. None: as many as the newest iterator of this object.
        workers : int, default None
            With `batches`: the number of worker processes. None: that of the newest iterator.

        Returns
        -------
        dict
            The state, for `load_state_dict`.

        Raises
        ------
        InvalidError
            An argument is no such number.

        Examples
        --------
        >>> batches = iter(loader)
        >>> _ = next(batches)
        >>> loader.state_dict()["batches"]
        1
        """
        if batches is None:
            batches = self._given
        state = self._order_state(self._pinned)
        state["workers"] = self._workers
        if workers is not None:
            state["workers"] = whole_number(workers, "workers", least=1)
        if state["global_batch"] is not None:
            state["workers"] = None
        given = whole_number(batches, "batches", least=0)
        return {**state, "epoch": self._epoch, "batches": given}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken: the next iterator gives the batches that follow it.

        The loader reads the snapshot of the state from then on. With `global_batch` the number of ranks and workers may
        be another one.

        Parameters
        ----------
        state : dict
            What `state_dict` returned.

        Raises
        ------
        InvalidError
            The state is none, or belongs to another order of batches: another seed, another global batch, a filter
            that keeps another number of rows, or without `global_batch` another number of ranks.
        NotFoundError
            The snapshot of the state has expired.

        Examples
        --------
        >>> state = loader.state_dict()
        >>> loader.load_state_dict(state)
        """
        fields = checked_state(state)
        before = self._pinned
        pinned = before
        if fields["snapshot_id"] != before.snapshot_id:
            pinned = self._pinned_by(fields)
        try:
            check_order(fields, self._order_state(pinned))
            self._forms = None if self._wanted.forms is None else self._wanted.forms.of(pinned)
        except BaseException:
            if pinned is not before:
                pinned.release()
            raise
        self._pinned = pinned
        if pinned is not before:
            before.release()
        self._epoch = fields["epoch"]
        self._iterations += 1
        self._given = self._start = fields["batches"]
        self._resumed = fields

    def close(self) -> None:
        """Let the snapshot expire. May be called again."""
        self._pinned.release()

    def __exit__(self, *_: object) -> None:
        self.close()

    def batches_of_worker(
        self, worker: int, workers: int, *, use_threads: bool = True
    ) -> Iterator[Any]:
        """Give the batches of one of several worker processes of this rank.

        Parameters
        ----------
        worker : int
            Its number, from 0 on.
        workers : int
            How many there are.
        use_threads : bool, default True
            Decode on several cores.

        Yields
        ------
        dict or pyarrow.RecordBatch
            The batches `worker`, `worker + workers` and so on of the rank, behind those that it has given.

        Raises
        ------
        InvalidError
            A column has a null that the caller made no choice for, or the state was one of another number of workers.
        NotFoundError
            The snapshot has expired.
        """
        if self._resumed is not None:
            check_workers(self._resumed, workers)
        start, self._start, self._resumed = self._start, 0, None
        self._pinned.hold()
        self._check_nulls()
        self._given, self._workers = start, workers
        taker = Taker(self._wanted.rank, self._wanted.world, worker, workers)
        schedule = self._schedule(taker)
        names = tuple(field.name for field in self._pinned.fields)

        def reader_of(track: int) -> TrackReader:
            return TrackReader(
                schedule.order,
                track,
                self._pinned.pieces,
                names,
                self._pool,
                use_threads=use_threads,
            )

        self._iterations += 1
        return self._counted(taken_rows(schedule, start, reader_of), self._iterations)

    def _counted(self, batches: Iterator[tuple[int, Any]], iteration: int) -> Iterator[Any]:
        """Yield the batches, and note how many there were unless a newer iterator does so.

        One of several workers does not begin the next epoch by itself: others may be within this one.
        """
        for given, batch in batches:
            if iteration == self._iterations:
                self._given = given
            yield batch
        if iteration == self._iterations and self._workers == 1:
            self._epoch += 1
            self._given = 0

    def _schedule(self, taker: Taker) -> BatchSchedule:
        return self._wanted.plan.schedule(self._pinned.piece_rows, self._epoch, taker)

    def _pool(self, batches: Iterator[pa.RecordBatch], order: Order) -> PoolRows:
        if self._forms is None:
            names = [field.name for field in self._pinned.fields]
            return ArrowPool(batches, self._pinned.state.schema.arrow_schema(names), order)
        return NumpyPool(batches, self._forms, order)

    def _order_state(self, pinned: PinnedRows) -> dict[str, Any]:
        """Return what decides the order of batches."""
        plan = self._wanted.plan
        elastic = plan.global_batch is not None
        return {
            "snapshot_id": pinned.snapshot_id,
            "tag": pinned.tag,
            "schema_id": pinned.state.schema.id,
            "rows": sum(pinned.piece_rows),
            "seed": plan.seed,
            "shuffle_groups": plan.shuffle_groups,
            "global_batch": plan.global_batch,
            "batch_rows": None if elastic else plan.batch_rows,
            "world": None if elastic else self._wanted.world,
            "even": "repeat" if plan.repeats else "drop",
        }

    def _pinned_by(self, state: dict[str, Any]) -> PinnedRows:
        """Pin the snapshot of a state."""
        wanted, snapshot_id, tag = self._wanted, state["snapshot_id"], state["tag"]
        chosen = (snapshot_id, None) if tag is None else (None, tag)
        try:
            pinned = pinned_rows(
                wanted.table,
                wanted.columns,
                wanted.filter,
                chosen[0],
                chosen[1],
                state["schema_id"],
            )
        except NotFoundError as cause:
            raise snapshot_expired(snapshot_id, self._pinned.state.paths.root) from cause
        if pinned.snapshot_id != snapshot_id:  # the tag is another snapshot's now
            pinned.release()
            raise snapshot_expired(snapshot_id, self._pinned.state.paths.root)
        return pinned

    def _check_nulls(self) -> None:
        """Refuse a null before anything is read, where a manifest says that there is one."""
        if self._forms is None:
            return
        refused = {form.field.name for form in self._forms if form.refuses_nulls}
        for piece in self._pinned.pieces:
            if refused and isinstance(piece, RowGroupPiece) and piece.read.predicate is None:
                for name, count in piece.known_nulls(refused):
                    raise null_refused(name, f"{counted(count, 'null')} in {piece.file.file_name}")
