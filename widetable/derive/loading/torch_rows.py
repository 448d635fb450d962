"""Batches as tensors of PyTorch: an IterableDataset over a `BatchLoader`.

In: a loader of numpy batches. Out: a dataset whose batches are dicts of tensors; texts and bytes are lists. PyTorch is
imported at the first use of this module's functions, and its dataset class is made then. Raises UnsupportedError if
PyTorch is not installed, and what `BatchLoader` raises.

    DataLoader(dataset, batch_size=None, num_workers=2)
        worker 0   forked, or a pickle   batches 0, 2, 4 .. of the rank
        worker 1                         batches 1, 3, 5 ..      the DataLoader takes them in turn: 0 1 2 3 4 ..
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any, Final

import numpy as np

from widetable.arguments import refused, whole_number
from widetable.derive.loading.batch_loader import BatchLoader
from widetable.derive.loading.pool_rows import NumpyRows
from widetable.runtime.extra_package import extra_package

_WHAT: Final = "Table.to_torch"
_EXTRA: Final = "torch"


class TorchRows:
    """Batches of the rows of one snapshot as tensors, for a training: an `IterableDataset` of PyTorch.

    `Table.to_torch` makes it. Give it to a `DataLoader` with `batch_size=None`, because it gives whole batches. It can
    be pickled, and forks are safe: nothing is open before the first batch. Call `set_epoch` before each epoch if the
    DataLoader has workers, which are copies: they know of no other epoch. `persistent_workers` cannot be told of one.
    """

    __module__ = "widetable"

    def __init__(self, loader: BatchLoader) -> None:
        self._loader = loader

    def __reduce__(self) -> tuple[Any, ...]:
        return torch_rows, (self._loader,)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Give the batches of this worker, from the beginning of the epoch or from where a state was loaded."""
        info = _torch("torch.utils.data").get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        batches = self._loader.batches_of_worker(worker, workers, use_threads=info is None)
        return map(_tensors, batches)

    @property
    def snapshot_id(self) -> int | None:
        """The snapshot that is read; None if the table had none."""
        return self._loader.snapshot_id

    @property
    def rows(self) -> int:
        """The number of rows of the snapshot that the filter keeps, before any are dropped or repeated."""
        return self._loader.rows

    def batches(self, workers: int = 1) -> int:
        """Count the batches of this rank in an epoch.

        Parameters
        ----------
        workers : int, default 1
            The number of worker processes of the DataLoader. With `global_batch` it does not matter.

        Returns
        -------
        int
            The number; that of all other ranks is the same.

        Raises
        ------
        InvalidError
            `workers` is no such number.
        """
        return self._loader.batches(workers)

    def set_epoch(self, epoch: int) -> None:
        """Go to the beginning of an epoch, as `BatchLoader.set_epoch`.

        Parameters
        ----------
        epoch : int
            The number, 0 or more.

        Raises
        ------
        InvalidError
            It is no such number.
        """
        self._loader.set_epoch(epoch)

    def state_dict(self, batches: int | None = None, workers: int | None = None) -> dict[str, Any]:
        """Return where the training is, as `BatchLoader.state_dict`.

        Parameters
        ----------
        batches : int, default None
            How many batches the DataLoader has given in the epoch, if it has workers. None: as many as this object.
        workers : int, default None
            With `batches`: the number of workers.

        Returns
        -------
        dict
            The state, for `load_state_dict`.

        Raises
        ------
        InvalidError
            An argument is no such number.
        """
        return self._loader.state_dict(batches, workers)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken, as `BatchLoader.load_state_dict`.

        Parameters
        ----------
        state : dict
            What `state_dict` returned.

        Raises
        ------
        InvalidError
            The state is none, or belongs to another order of batches.
        NotFoundError
            The snapshot of the state has expired.
        """
        self._loader.load_state_dict(state)

    def close(self) -> None:
        """Let the snapshot expire. May be called again."""
        self._loader.close()


def torch_rows(loader: BatchLoader) -> TorchRows:
    """Return the dataset of a loader, whose class is one of PyTorch's."""
    made: TorchRows = _dataset_class()(loader)
    return made


def rank_and_world(rank: int | None, world: int | None) -> tuple[int, int]:
    """Return the number of this process and how many there are: as given, else as `torch.distributed` says, else by
    RANK and WORLD_SIZE as torchrun sets them, else one process.
    """
    if (rank is None) != (world is None):
        raise refused(rank if world is None else world, "rank and world", "both or neither")
    if rank is None or world is None:
        rank, world = _surrounding()
    world = whole_number(world, "world", least=1)
    return whole_number(rank, "rank", least=0, most=world - 1), world


def _surrounding() -> tuple[int, int]:
    distributed = _torch("torch.distributed")
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    given = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if None in given:
        return 0, 1
    try:
        return int(str(given[0])), int(str(given[1]))
    except ValueError:
        raise refused(given, "RANK and WORLD_SIZE", "whole numbers") from None


def _torch(module: str) -> ModuleType:
    return extra_package(module, _WHAT, _EXTRA)


@cache
def _dataset_class() -> type[Any]:
    base = _torch("torch.utils.data").IterableDataset
    return type("TorchRows", (TorchRows, base), {"__module__": "widetable"})


def _tensors(batch: NumpyRows) -> dict[str, Any]:
    """Return a batch as tensors that share memory with it, unless it is that of a file's columns, which others read."""
    return {name: _tensor(array) for name, array in batch.items()}


def _tensor(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype == object:
        return array.tolist()
    return _torch("torch").from_numpy(array if array.flags.writeable else array.copy())
