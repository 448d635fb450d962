"""A process without the memory for a data file says so: the file is not damaged, and a repair would lose its rows.

ORC is left out: where memory is short, Arrow's reader of it ends the process.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.widetable.format.data_files import table_schema, write
from tests.widetable.format.foreign_files import write_avro
from tests.widetable.format.test_other_formats import SYSTEM
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.decoding_errors import mapped_errors

SCHEMA = table_schema({"k": "INT", "v": "BYTES"})
READ = """
import pickle, resource, sys
from pathlib import Path
from tests.widetable.format.data_files import read
from tests.widetable.format.test_want_of_memory import SCHEMA
small, large = pickle.loads(Path(sys.argv[1]).read_bytes())
read(*small, SCHEMA)  # loads what a read needs
pages = int(Path("/proc/self/statm").read_text().split()[0])
most = pages * 4096 + int(sys.argv[2]) * (1 << 20)
resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
try:
    print("rows", read(*large, SCHEMA).num_rows)
except MemoryError:
    print("memory")
"""


def made(folder: Path, how: str, value_bytes: int) -> tuple[Path, DataFileMeta]:
    """Two rows of long values."""
    kind, _, codec = how.partition(" ")
    value = pa.scalar(bytes(value_bytes), pa.large_binary())
    columns = [
        pa.array([0, 1], pa.int64()),
        pa.array([0, 0], pa.int8()),
        pa.array([0, 1], pa.int32()),
        pa.repeat(value, 2).cast(pa.binary()),
    ]
    rows = pa.table(columns, names=["_SEQUENCE_NUMBER", "_VALUE_KIND", "k", "v"])
    path = folder / f"data.{kind}"
    meta = write(folder / "data.parquet", SCHEMA, rows.to_batches())
    if kind == "avro":
        types = {**SYSTEM, **{field.name: field.type for field in SCHEMA.fields}}
        meta = write_avro(path, rows, types, meta, codec=codec)
    return path, meta


@pytest.mark.slow
@pytest.mark.parametrize("how", ["parquet", "avro zstandard", "avro deflate"])
@pytest.mark.parametrize("megabytes", [10, 60])
def test_want_of_memory_is_said(tmp_path: Path, how: str, megabytes: int) -> None:
    """Under each of these limits something else fails; a process that has more than it says may read the file."""
    files = tmp_path / "files"
    sizes = {"small": 5_000, "large": 40 << 20}
    files.write_bytes(
        pickle.dumps([made(tmp_path / name, how, size) for name, size in sizes.items()])
    )
    found = subprocess.run(
        [sys.executable, "-c", READ, str(files), str(megabytes)],
        check=True,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"},  # others keep room in store
        capture_output=True,
        text=True,
    )
    assert found.stdout in (("memory\n", "rows 2\n")[: 1 + (megabytes > 10)])


def test_arrows_own_error_passes() -> None:
    with pytest.raises(MemoryError), mapped_errors("data.orc"):
        pa.allocate_buffer(1 << 60)
