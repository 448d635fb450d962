"""Tables whose data files lack columns, as tools leave them that name the files of Hive tables.

In: a table on a local disk, written by anyone in Parquet. Out: a copy in which data files have the same names, but not
the columns. Manifests, lists and snapshots say the sizes that they have then; manifests and lists have new names, for
ours are named after their bytes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from widetable.format.manifest_file import read_manifest, write_manifest
from widetable.format.manifest_list import read_manifest_list, write_manifest_list
from widetable.storage.paths import new_file_name


def bare_copy(source: Path, table: Path, names: Collection[str]) -> None:
    """Copy a table; its data and changelog files lack these columns there."""
    shutil.copytree(source, table)
    sizes: dict[str, int] = {}
    for path in table.rglob("*.parquet"):
        rows = pq.ParquetFile(path).read().replace_schema_metadata(None)
        pq.write_table(rows.drop_columns([n for n in names if n in rows.schema.names]), path)
        sizes[path.name] = path.stat().st_size
    # The new names and sizes of manifests, then of lists.
    moved: dict[str, tuple[str, int]] = {}
    lists = set(table.glob("manifest/manifest-list-*"))
    for path in set(table.glob("manifest/manifest-*")) - lists:
        entries = [
            entry._replace(file=entry.file._replace(file_size=sizes[entry.file.file_name]))
            for entry in read_manifest(path.read_bytes(), path.name)
        ]
        moved[path.name] = _moved(path, "manifest", write_manifest(entries))
    for path in lists:
        metas = [
            replace(meta, file_name=moved[meta.file_name][0], file_size=moved[meta.file_name][1])
            for meta in read_manifest_list(path.read_bytes(), path.name)
        ]
        moved[path.name] = _moved(path, "manifest-list", write_manifest_list(metas))
    for path in table.glob("snapshot/snapshot-*"):
        snapshot = json.loads(path.read_text())
        for key in [key for key in snapshot if key.endswith("ManifestList")]:
            if snapshot[key] is not None:
                snapshot[key], snapshot[key + "Size"] = moved[snapshot[key]]
        path.write_text(json.dumps(snapshot))


def _moved(path: Path, prefix: str, data: bytes) -> tuple[str, int]:
    path.unlink()
    name = new_file_name(prefix)
    (path.parent / name).write_bytes(data)
    return name, len(data)
