"""Tensors of PyTorch's DataLoader: the batches of `to_batches`, in its workers, too.

`make torch` sets WIDETABLE_TORCH, and fetches PyTorch and torchdata by pip.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import widetable as wt
from tests.support.programs.pages import ROOT, blocks_of

pytestmark = [
    pytest.mark.skipif(not os.environ.get("WIDETABLE_TORCH"), reason="make torch"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),
    pytest.mark.filterwarnings(
        "ignore:.*multi-threaded:DeprecationWarning"
    ),  # forks beside threads
]
ROWS = 10_000
PAGE = "docs/into-pytorch.md"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> wt.Table:
    """Ten row groups of a thousand rows in each of two buckets."""
    monkeypatch.setattr("widetable.format.data_file_writer.ROW_GROUP_ROWS", 1000)
    columns = {"k": "BIGINT", "v": "DOUBLE", "s": "STRING", "e": "ARRAY<FLOAT>"}
    made = wt.Catalog(str(tmp_path)).create_table(
        "db.t", columns, primary_key=["k"], options={"bucket": "2"}
    )
    keys = range(ROWS)
    made.write(
        pa.table(
            {
                "k": pa.array(keys, pa.int64()),
                "v": pa.array([None if k == 3 else k / 2 for k in keys]),
                "s": [f"w{k % 3}" for k in keys],
                "e": pa.array([[k, -k] for k in keys], pa.list_(pa.float32())),
            }
        )
    )
    made.compact(full=True)
    return made


def data_loader(dataset: Any, workers: int, **arguments: Any) -> Any:
    made = import_module("torch.utils.data").DataLoader
    return made(dataset, batch_size=None, num_workers=workers, **arguments)


def keys(batches: Any) -> list[list[int]]:
    return [batch["k"].tolist() for batch in batches]


def test_tensors_are_the_arrays_of_to_batches(table: wt.Table) -> None:
    torch = import_module("torch")
    arguments: dict[str, Any] = {"null": "mask", "shuffle_seed": 1}
    for words in ({}, {"s": ["w2", "w0"]}):
        arrays = list(table.to_batches(**arguments, vocabularies=words))
        tensors = list(table.to_torch(**arguments, vocabularies=words))
        assert len(arrays) == len(tensors) == 10
        for array, tensor in zip(arrays, tensors, strict=True):
            assert list(array) == list(tensor)
            for name, values in tensor.items():
                assert array[name].tolist() == (
                    values if name == "s" and not words else values.tolist()
                )
    assert tensors[0]["e"].shape == (1024, 2)
    assert tensors[0]["e"].dtype == torch.float32
    assert tensors[0]["v__valid"].dtype == torch.bool


def test_the_dataset_is_one_of_pytorch(table: wt.Table) -> None:
    dataset = table.to_torch(["k"], shuffle_seed=2)
    assert isinstance(dataset, import_module("torch.utils.data").IterableDataset)
    assert isinstance(dataset, wt.TorchRows)
    copy = pickle.loads(pickle.dumps(dataset))
    assert keys(copy) == keys(dataset)
    assert (copy.rows, copy.snapshot_id) == (ROWS, dataset.snapshot_id)


def test_tensors_do_not_share_memory_with_other_batches(table: wt.Table) -> None:
    for batch in table.to_torch(["k"], batch_rows=100):
        batch["k"] += 1_000_000  # in place
    assert sorted(key for batch in keys(table.to_torch(["k"])) for key in batch) == list(
        range(ROWS)
    )


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_case_12_workers_of_a_data_loader(table: wt.Table, context: str) -> None:
    """Two ranks of two workers: each row once, as many batches everywhere, and what is written does not appear."""
    given = []
    for rank in range(2):
        dataset = table.to_torch(["k"], shuffle_seed=1, batch_rows=300, rank=rank, world=2)
        table.write(pa.table({"k": pa.array([ROWS + rank], pa.int64())}))
        batches = keys(data_loader(dataset, 2, multiprocessing_context=context))
        assert len(batches) == dataset.batches(workers=2) == 2 * 9
        given += [key for batch in batches for key in batch]
        table.delete_keys([{"k": ROWS + rank}])
    assert sorted(given) == list(range(ROWS))


def test_case_17_elastic_in_data_loaders(table: wt.Table) -> None:
    """1 x 4, 2 x 2 and 4 x 1 give the same global batches, resumed after 7 of them, too."""
    arguments: dict[str, Any] = {"shuffle_seed": 5, "global_batch": 1024}
    expected = keys(table.to_torch(["k"], **arguments))
    assert len(expected) == 9
    state = table.to_torch(["k"], **arguments).state_dict(batches=7)
    for world, workers in ((1, 4), (2, 2), (4, 0)):
        for begun in (None, state):
            ranks = []
            for rank in range(world):
                dataset = table.to_torch(["k"], rank=rank, world=world, **arguments)
                if begun is not None:
                    dataset.load_state_dict(begun)
                ranks.append(keys(data_loader(dataset, workers)))
            batches = [list(chain(*parts)) for parts in zip(*ranks, strict=True)]
            assert batches == (expected if begun is None else expected[7:])


def test_epochs_of_workers(table: wt.Table) -> None:
    """Workers are copies: `set_epoch` before each epoch tells them."""
    dataset = table.to_torch(["k"], shuffle_seed=1)
    loader = data_loader(dataset, 2)
    epochs = []
    for epoch in range(2):
        dataset.set_epoch(epoch)
        epochs.append(keys(loader))
    assert epochs[0] != epochs[1]
    dataset.set_epoch(0)
    assert keys(loader) == epochs[0]


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # called by torchdata
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_data_loader_goes_on(table: wt.Table, workers: int) -> None:
    stateful = import_module("torchdata.stateful_dataloader").StatefulDataLoader

    def made() -> Any:
        dataset = table.to_torch(["k"], shuffle_seed=1)
        return stateful(dataset, batch_size=None, num_workers=workers)

    expected = keys(made())
    first = made()
    batches = iter(first)
    begun = [next(batches)["k"].tolist() for _ in range(3)]
    state = first.state_dict()
    second = made()
    second.load_state_dict(state)
    assert begun + keys(second) == expected


def test_ranks_of_the_surroundings(table: wt.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert keys(table.to_torch(["k"])) == keys(table.to_batches(["k"], rank=1, world=2))
    assert len(keys(table.to_torch(["k"], rank=0, world=1))) == 10
    distributed = import_module("torch.distributed")
    distributed.init_process_group("gloo", rank=0, world_size=1, store=distributed.HashStore())
    try:
        assert len(keys(table.to_torch(["k"]))) == 10
    finally:
        distributed.destroy_process_group()
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(wt.InvalidError, match="RANK and WORLD_SIZE"):
        table.to_torch()
    with pytest.raises(wt.InvalidError, match="both or neither"):
        table.to_torch(rank=0)


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    """Its blocks with PyTorch, after those without."""
    page = blocks_of((ROOT / PAGE).read_text(), PAGE)
    chosen = [block for block in page if block.language in ("python", "py")]
    program = "\n".join(block.text for block in chosen).replace("/tmp/", f"{tmp_path}/")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(block.printed or "" for block in chosen)
