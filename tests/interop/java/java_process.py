"""Paimon's Java as another client of our tables: one process answers for all of them (java/PaimonServer.java)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.rival import NEWEST, java_command
from tests.interop.alter_steps import alter_steps
from tests.interop.java.java_values import arrow_rows, json_rows
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.models.plain_rows import python_rows
from widetable.schema.types import (
    DataField,
    arrow_field,
    assign_field_ids,
    field_from_json,
    field_to_json,
    parse_type,
)

_SOURCES = sorted(Path(__file__).parent.glob("*.java"))
# Code of a short run is not worth optimising, nor a few cores threads that collect garbage.
_RUN = ("-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class JavaRefused(Exception):
    """What Java threw, with its stack."""


class JavaProcess:
    """PaimonServer.java, asked one question at a time. Needs Maven and a JDK (benchmarks/rival.py)."""

    def __init__(self, folder: Path, beside: Sequence[Path] = ()) -> None:
        """folder: for its classes, spilled rows and log; beside: more jars. Raises benchmarks.rival.RivalAbsent."""
        command = java_command(NEWEST, _SOURCES, folder, beside)
        self.log = folder / "java.log"
        with open(self.log, "w") as errors:
            self._process = subprocess.Popen(
                [*command, *_RUN, "PaimonServer", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                encoding="utf-8",
            )

    def ask(self, path: Path, do: str, **how: Any) -> list[list[Any]]:
        """The rows of an answer about the table at `path`. Raises JavaRefused."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        name = f"{path.parent.name.removesuffix('.db')}.{path.name}"
        request = {"do": do, "warehouse": str(path.parent.parent), "table": name, **how}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"Java died:\n{self.log.read_text()[-4000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise JavaRefused(answer["error"])
        rows: list[list[Any]] = answer["rows"]
        return rows

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE_SECONDS)


class JavaTable:
    """One table, or one of its branches, as Java has it."""

    def __init__(self, java: JavaProcess, path: Path, branch: str | None = None) -> None:
        self.java, self.path, self.branch = java, path, branch
        self._where: dict[str, Any] = {} if branch is None else {"branch": branch}
        self.folder = path / f"branch/branch-{branch}" if branch else path

    @classmethod
    def create(
        cls,
        java: JavaProcess,
        path: Path,
        columns: Mapping[str, str | dict[str, Any]],
        *,
        key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
    ) -> JavaTable:
        """columns: name -> type, as in a schema file."""
        fields = []
        next_id = 0
        for name, text in columns.items():
            kind, after = assign_field_ids(parse_type(text), next_id + 1)
            fields.append(field_to_json(DataField(next_id, name, kind)))
            next_id = after
        schema = {"fields": fields, "primaryKeys": list(key), "partitionKeys": list(partition_by)}
        java.ask(path, "create", schema={**schema, "options": dict(options or {})})
        return cls(java, path)

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([arrow_field(field) for field in self.fields()])

    def fields(self, options: Mapping[str, str] | None = None) -> tuple[DataField, ...]:
        """The columns of the newest schema, or of what the options of time travel choose."""
        chosen = options or {}
        if "scan.snapshot-id" in chosen:
            schema_id = self._json(f"snapshot/snapshot-{chosen['scan.snapshot-id']}")["schemaId"]
        elif "scan.tag-name" in chosen:
            schema_id = self._json(f"tag/tag-{chosen['scan.tag-name']}")["schemaId"]
        else:
            files = self.folder.glob("schema/schema-*")
            schema_id = max(int(file.name.rpartition("-")[2]) for file in files)
        return self.fields_of(schema_id)

    def fields_of(self, schema_id: int) -> tuple[DataField, ...]:
        schema = self._json(f"schema/schema-{schema_id}")
        return tuple(field_from_json(field) for field in schema["fields"])

    def _json(self, name: str) -> Any:
        return json.loads((self.folder / name).read_bytes())

    def write(self, rows: pa.Table, **how: Any) -> None:
        """One commit. how: `options`, and `stream`, the name of a writer that stays open."""
        self.ask("write", rows=json_rows(rows, self.fields()), **how)

    def read(self, options: Mapping[str, str] | None = None) -> pa.Table:
        """Its rows, with dynamic options: those of time travel."""
        dynamic = dict(options or {})
        rows = self.ask("read", options=dynamic)
        return arrow_rows(rows, self.fields(dynamic))

    def compact(self, *, full: bool, **how: Any) -> None:
        self.ask("compact", full=full, **how)

    def changes(self, last: int) -> list[tuple[int, tuple[str, dict[str, Any]]]]:
        """What a streaming reader that starts with the first snapshot is given up to `last`: snapshot, kind and row."""
        given = self.ask("changes", first=1, last=last)
        rows = python_rows(arrow_rows([row[1:] for row in given], self.fields()))
        return [(row[0], (row[1], values)) for row, values in zip(given, rows, strict=True)]

    def alter(self, change: Mapping[str, Any]) -> None:
        """What `Catalog.alter_table` takes."""
        names = [field.name for field in self.fields()]
        self.ask("alter", changes=alter_steps(change, names))

    def ask(self, do: str, **how: Any) -> list[list[Any]]:
        return self.java.ask(self.path, do, **self._where, **how)
