"""The tables below tests/fixtures, written by Paimon's Java (wh_java) and by pypaimon (wh)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from widetable.format.data_file_meta import DataFileMeta
from widetable.format.manifest_entry import ManifestEntry
from widetable.format.manifest_file import read_manifest
from widetable.schema.table_schema import TableSchema, schema_from_json

ROOT = Path(__file__).resolve().parent.parent.parent / "fixtures"


@dataclass(frozen=True)
class FixtureTable:
    path: Path

    @property
    def id(self) -> str:
        return f"{self.warehouse}.{self.path.name}"

    @property
    def warehouse(self) -> str:
        return self.path.parent.parent.name

    @cached_property
    def schemas(self) -> dict[int, TableSchema]:
        found = [
            schema_from_json(p.read_bytes(), str(p)) for p in self.path.glob("schema/schema-*")
        ]
        return {schema.id: schema for schema in found}

    @property
    def schema(self) -> TableSchema:
        return self.schemas[max(self.schemas)]

    def manifests(self) -> list[Path]:
        found = self.path.glob("manifest/manifest-*")
        return sorted(p for p in found if not p.name.startswith("manifest-list"))

    def manifest_lists(self) -> list[Path]:
        return sorted(self.path.glob("manifest/manifest-list-*"))

    def snapshots(self) -> list[Path]:
        return sorted([*self.path.glob("snapshot/snapshot-*"), *self.path.glob("tag/tag-*")])

    def entries(self) -> list[ManifestEntry]:
        return [e for p in self.manifests() for e in read_manifest(p.read_bytes(), str(p))]

    def data_files(self) -> list[tuple[Path, DataFileMeta]]:
        """Every data and changelog file on disk that a manifest names, each once."""
        metas = {entry.file.file_name: entry.file for entry in self.entries()}
        paths = {p.name: p for p in self.path.rglob("*.parquet")}
        return [(path, metas[name]) for name, path in sorted(paths.items()) if name in metas]

    def rows_as_read(self) -> list[dict[str, Any]]:
        """The table's rows as pypaimon reads them, values as JSON."""
        described = json.loads((ROOT / "fixtures.json").read_text("utf-8"))["tables"]
        (table,) = (
            t
            for t in described
            if (t["warehouse"], t["table"]) == (self.warehouse, f"fx.{self.path.name}")
        )
        rows: list[dict[str, Any]] = table["rows"]
        return rows


TABLES = [FixtureTable(p) for p in sorted(ROOT.glob("*/fx.db/*")) if p.is_dir()]
JAVA_TABLES = [table for table in TABLES if table.warehouse == "wh_java"]
