"""Batches of a table for a training: as arrays of numpy, as Arrow's record batches, or as tensors of PyTorch.

In: arguments of `Table.to_batches` and `Table.to_torch`. Out: a loader over a pinned snapshot. Raises InvalidError for
arguments that do not fit, and what `pinned_rows` raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from widetable.arguments import mapping, names, one_of, refused, whole_number
from widetable.derive.loading.batch_loader import BatchLoader, FormChoices, LoadingChoices
from widetable.derive.loading.batch_schedule import BatchPlan
from widetable.derive.loading.pinned_rows import pinned_rows
from widetable.derive.loading.pool_rows import VALID
from widetable.derive.loading.torch_rows import TorchRows, rank_and_world, torch_rows
from widetable.errors import InvalidError
from widetable.operations.handle.open_table import OpenTable


def to_batches(
    table: OpenTable, columns: Sequence[str] | None = None, *, snapshot_id: int | None = None,
    tag: str | None = None, filter: str | pc.Expression | None = None, batch_rows: int = 1024,
    shuffle_seed: int | None = None, shuffle_groups: int = 64, rank: int = 0, world: int = 1,
    global_batch: int | None = None, even: str = "drop", null: str | Mapping[str, Any] = "error",
    vocabularies: Mapping[str, Sequence[str]] | None = None, form: str = "numpy",
) -> BatchLoader:  # fmt: skip
    """Give the rows of one snapshot in batches, for a training.

    Their order is a function of the snapshot, the seed, the epoch and how batches are asked for. The loader keeps the
    snapshot from expiry while it is open. Rows of files that overlap, or under a filter, are counted when it is made.

    Parameters
    ----------
    columns, snapshot_id, tag, filter
        As in `scan`. A tag keeps the snapshot beyond this loader, for a training that is resumed later.
    batch_rows : int, default 1024
        Rows of a batch; the last one may have fewer. It is not used with `global_batch`.
    shuffle_seed : int, default None
        The seed, 0 or more. None: rows come in the order of a scan.
    shuffle_groups : int, default 64
        How many pieces, each a row group or a range of keys, are in memory and shuffled together.
    rank : int, default 0
        The number of this process: each gets a part of the rows.
    world : int, default 1
        How many processes there are.
    global_batch : int, default None
        Rows of a batch of all ranks together, the same for any number of them: rank r of n gets rows rb/n to (r+1)b/n.
    even : str, default "drop"
        All ranks get as many batches: "drop" leaves out rows that do not divide, "repeat" gives some rows twice.
    null : str or dict, default "error"
        "error" refuses nulls, a dict of column to value replaces them, "mask" adds columns `<column>__valid`.
    vocabularies : dict of str to list of str, default None
        Texts that become int64: the place of the word in the list, or behind the last one if it is not in it.
    form : str, default "numpy"
        "numpy": dicts of arrays, as docs/into-pytorch.md lists them. "arrow": record batches as they are.

    Returns
    -------
    BatchLoader
        The loader; each iteration over it gives the batches of an epoch.

    Raises
    ------
    InvalidError
        An argument does not fit.
    NotFoundError
        There is no such column, snapshot or tag.
    UnsupportedError
        A column has a type without a form in numpy, or the table has an option that this version does not honour.
    """
    plan = _plan(batch_rows, shuffle_seed, shuffle_groups, global_batch, even)
    choices = _forms(null, vocabularies, form)
    return _loader(table, columns, (snapshot_id, tag), filter, plan, (rank, world), choices)


def _loader(
    table: OpenTable,
    columns: Sequence[str] | None,
    snapshot: tuple[int | None, str | None],
    filter: str | pc.Expression | None,
    plan: BatchPlan,
    rank_of_world: tuple[Any, Any],
    choices: FormChoices | None,
) -> BatchLoader:
    """Pin the snapshot, by its id or tag, and make the loader."""
    world = whole_number(rank_of_world[1], "world", least=1)
    rank = whole_number(rank_of_world[0], "rank", least=0, most=world - 1)
    if plan.global_batch is not None and plan.global_batch < world:
        raise refused(plan.global_batch, "global_batch", f"a row for each rank of the {world}")
    chosen = None if columns is None else names(columns, "columns")
    pinned = pinned_rows(table, chosen, filter, *snapshot)
    try:
        _check_columns([field.name for field in pinned.fields], choices)
        return BatchLoader(
            LoadingChoices(table, chosen, filter, plan, rank, world, choices), pinned
        )
    except BaseException:
        pinned.release()
        raise


def _plan(
    batch_rows: int,
    shuffle_seed: int | None,
    shuffle_groups: int,
    global_batch: int | None,
    even: str,
) -> BatchPlan:
    return BatchPlan(
        whole_number(batch_rows, "batch_rows", least=1),
        None if shuffle_seed is None else whole_number(shuffle_seed, "shuffle_seed", least=0),
        whole_number(shuffle_groups, "shuffle_groups", least=1),
        None if global_batch is None else whole_number(global_batch, "global_batch", least=1),
        one_of(even, ("drop", "repeat"), "even") == "repeat",
    )


def _forms(null: Any, vocabularies: Any, form: str) -> FormChoices | None:
    """Return the choices for the forms of columns; None for Arrow's."""
    words = mapping(vocabularies, "vocabularies")
    if isinstance(null, Mapping):
        fills, masks = mapping(null, "null"), False
    elif isinstance(null, str):
        fills, masks = {}, one_of(null, ("error", "mask"), "null") == "mask"
    else:
        raise refused(null, "null", "error, mask, or a dict of column to value")
    if one_of(form, ("numpy", "arrow"), "form") == "numpy":
        return FormChoices(masks, fills, words)
    if fills or masks or words:
        raise InvalidError(
            "null and vocabularies",
            found="one of them with form='arrow'",
            expected="neither: record batches have nulls and texts as they are",
            action="Leave them out, or choose form='numpy'.",
        )
    return None


def _check_columns(columns: Sequence[str], choices: FormChoices | None) -> None:
    if not columns:
        raise InvalidError(
            "columns", found="no column", expected="at least one", action="Name the columns."
        )
    taken = [
        name for name in columns if name.endswith(VALID) and name.removesuffix(VALID) in columns
    ]
    if choices is not None and choices.masks and taken:
        raise InvalidError(
            f"column {taken[0]!r}",
            found="the name of a mask",
            expected=f"no column of the name that null='mask' gives to what is valid ({VALID})",
            action="Leave it out of `columns`, or choose another rule for nulls.",
        )


def to_torch(
    table: OpenTable, columns: Sequence[str] | None = None, *, snapshot_id: int | None = None,
    tag: str | None = None, filter: str | pc.Expression | None = None, batch_rows: int = 1024,
    shuffle_seed: int | None = None, shuffle_groups: int = 64, rank: int | None = None,
    world: int | None = None, global_batch: int | None = None, even: str = "drop",
    null: str | Mapping[str, Any] = "error",
    vocabularies: Mapping[str, Sequence[str]] | None = None,
) -> TorchRows:  # fmt: skip
    """Give the rows of one snapshot as an `IterableDataset` of PyTorch, whose batches are dicts of tensors.

    It is `to_batches` with tensors, and has the same order of rows. Texts and bytes are lists. The extra `torch`
    installs PyTorch; nothing else of widetable imports it.

    Parameters
    ----------
    columns, snapshot_id, tag, filter
        As in `scan`.
    batch_rows, shuffle_seed, shuffle_groups
        As in `to_batches`.
    rank : int, default None
        The number of this process. None: as `torch.distributed` says, else RANK, else 0.
    world : int, default None
        How many processes there are. None: as `torch.distributed` says, else WORLD_SIZE, else 1.
    global_batch, even, null, vocabularies
        As in `to_batches`.

    Returns
    -------
    TorchRows
        The dataset, for `DataLoader(dataset, batch_size=None)` with any number of workers.

    Raises
    ------
    InvalidError
        An argument does not fit.
    NotFoundError
        There is no such column, snapshot or tag.
    UnsupportedError
        PyTorch is not installed, or as in `to_batches`.
    """
    plan = _plan(batch_rows, shuffle_seed, shuffle_groups, global_batch, even)
    choices = _forms(null, vocabularies, "numpy")
    place = rank_and_world(rank, world)
    return torch_rows(_loader(table, columns, (snapshot_id, tag), filter, plan, place, choices))
