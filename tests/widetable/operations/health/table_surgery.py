"""Damages a copy of a table so that only what the test is about is wrong: the rest of the metadata is made to fit.

Before anybody has opened the copy: decoded manifests are kept by path. Names that say which bytes a file has are
replaced by others first.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.widetable.format.data_files import rewrite
from widetable.format.binary_row import encode_rows, with_arity
from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ADD, ManifestEntry
from widetable.format.manifest_file import ManifestFileMeta, read_manifest, write_manifest
from widetable.format.manifest_list import read_manifest_list, write_manifest_list
from widetable.lsm.sorted_run import key_types
from widetable.schema.row_kind import is_retraction
from widetable.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND, TableSchema, schema_from_json
from widetable.storage.paths import is_named_after

Entries = list[ManifestEntry]


class Surgery:
    """On the table at `root`, without partitions."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._rename()

    @property
    def schema(self) -> TableSchema:
        newest = max(self.root.glob("schema/schema-*"), key=lambda path: int(path.name[7:]))
        return schema_from_json(newest.read_bytes(), str(newest))

    def snapshot(self, id: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / f"snapshot/snapshot-{id}").read_text())
        return found

    def alter_snapshot(self, id: int, **values: Any) -> None:
        self._write_snapshot(id, {**self.snapshot(id), **values})
        self._refit()

    def metas(self, id: int, which: str) -> list[ManifestFileMeta]:
        """which: `base`, `delta` or `changelog`."""
        path = self._list(id, which)
        return read_manifest_list(path.read_bytes(), str(path))

    def alter_list(
        self, id: int, which: str, alter: Callable[[ManifestFileMeta], ManifestFileMeta]
    ) -> None:
        self._write_list(self._list(id, which), map(alter, self.metas(id, which)))
        self._refit()

    def alter_entries(self, id: int, which: str, alter: Callable[[Entries], Entries]) -> None:
        """Of the manifests of one list, each by itself; the list keeps its counts right."""
        counts = {}
        for meta in self.metas(id, which):
            path = self.root / "manifest" / meta.file_name
            entries = alter(list(read_manifest(path.read_bytes(), str(path))))
            path.write_bytes(write_manifest(entries))
            added = sum(entry.kind == ADD for entry in entries)
            counts[meta.file_name] = (added, len(entries) - added)

        def recounted(meta: ManifestFileMeta) -> ManifestFileMeta:
            added, deleted = counts[meta.file_name]
            return replace(meta, num_added_files=added, num_deleted_files=deleted)

        self.alter_list(id, which, recounted)

    def alter_file(
        self, id: int, which: str, alter: Callable[[DataFileMeta], DataFileMeta]
    ) -> None:
        """The meta of all files that the list adds."""
        self.alter_entries(
            id,
            which,
            lambda entries: [
                e._replace(file=alter(e.file)) if e.kind == ADD else e for e in entries
            ],
        )

    def alter_rows(self, id: int, which: str, alter: Callable[[pa.Table], pa.Table]) -> None:
        """The rows of all files that the list adds; their metas and the count of the snapshot follow."""
        rows = 0

        def rewritten(entries: Entries) -> Entries:
            nonlocal rows
            found = []
            for entry in entries:
                if entry.kind == ADD:
                    entry = entry._replace(file=self._rewrite(entry, alter))
                    rows += entry.file.row_count
                found.append(entry)
            return found

        self.alter_entries(id, which, rewritten)
        if which == "changelog":
            self.alter_snapshot(id, changelogRecordCount=rows)

    def data_file(self, entry: ManifestEntry) -> Path:
        return self.root / f"bucket-{entry.bucket}" / entry.file.file_name

    def entries(self, id: int, which: str) -> Entries:
        paths = [self.root / "manifest" / meta.file_name for meta in self.metas(id, which)]
        return [entry for p in paths for entry in read_manifest(p.read_bytes(), str(p))]

    def _rename(self) -> None:
        """Every manifest and list, wherever it is named."""
        names = {
            path.name: f"{path.name[:-38]}{uuid.uuid4()}-0"
            if _is_named_after_bytes(path)
            else path.name
            for path in self.root.glob("manifest/manifest-*")
        }
        for path in self.root.glob("manifest/manifest-list-*"):
            metas = read_manifest_list(path.read_bytes(), str(path))
            self._write_list(path, [replace(m, file_name=names[m.file_name]) for m in metas])
        for old, new in names.items():
            (self.root / "manifest" / old).rename(self.root / "manifest" / new)
        for id in self._ids():
            body = {key: names.get(str(value), value) for key, value in self.snapshot(id).items()}
            self._write_snapshot(id, body)
        self._refit()

    def _refit(self) -> None:
        """Every recorded size."""
        manifests = self.root / "manifest"
        for path in manifests.glob("manifest-list-*"):
            metas = read_manifest_list(path.read_bytes(), str(path))
            sizes = [(manifests / meta.file_name).stat().st_size for meta in metas]
            fitted = [replace(m, file_size=size) for m, size in zip(metas, sizes, strict=True)]
            if fitted != metas:
                self._write_list(path, fitted)
        for id in self._ids():
            body = self.snapshot(id)
            for which in ("base", "delta", "changelog"):
                name = body.get(f"{which}ManifestList")
                if name is not None:
                    body[f"{which}ManifestListSize"] = (manifests / name).stat().st_size
            self._write_snapshot(id, body)

    def _ids(self) -> list[int]:
        return [int(path.name[9:]) for path in self.root.glob("snapshot/snapshot-*")]

    def _write_snapshot(self, id: int, body: dict[str, Any]) -> None:
        (self.root / f"snapshot/snapshot-{id}").write_text(json.dumps(body))

    def _write_list(self, path: Path, metas: Iterable[ManifestFileMeta]) -> None:
        path.write_bytes(write_manifest_list(metas))

    def _list(self, id: int, which: str) -> Path:
        return Path(self.root / "manifest" / str(self.snapshot(id)[f"{which}ManifestList"]))

    def _rewrite(self, entry: ManifestEntry, alter: Callable[[pa.Table], pa.Table]) -> DataFileMeta:
        path = self.data_file(entry)
        table = alter(pq.read_table(path))
        rewrite(table, path)
        numbers = table.column(SEQUENCE_NUMBER).to_numpy()
        kinds = table.column(VALUE_KIND).to_numpy().astype(np.int8)
        return entry.file._replace(
            file_size=path.stat().st_size,
            row_count=table.num_rows,
            min_key=self._key(table.slice(0, 1)),
            max_key=self._key(table.slice(table.num_rows - 1)),
            min_sequence_number=int(numbers.min()),
            max_sequence_number=int(numbers.max()),
            delete_row_count=int(is_retraction(kinds).sum()),
        )

    def _key(self, row: pa.Table) -> bytes:
        columns = [row.column(name).combine_chunks() for name in self.schema.trimmed_primary_key]
        return with_arity(encode_rows(columns, key_types(self.schema)).row(0), len(columns))


def _is_named_after_bytes(path: Path) -> bool:
    return not is_named_after(path.name, b"other bytes")


def with_values(table: pa.Table, row: int, **values: Any) -> pa.Table:
    """One row with other values."""
    rows = table.to_pylist()
    rows[row].update(values)
    return pa.Table.from_pylist(rows, schema=table.schema)


def without_row(table: pa.Table, row: int) -> pa.Table:
    rows = table.to_pylist()
    del rows[row]
    return pa.Table.from_pylist(rows, schema=table.schema)


def in_order(table: pa.Table, *rows: int) -> pa.Table:
    """These rows, in this order."""
    return table.take(pa.array(rows, pa.int64()))
