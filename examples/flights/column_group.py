"""What one stream brings into a table: the key, some columns, and the one that orders their versions.

Sequences are epoch seconds: the moment at which the source issued the version.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class ColumnGroup:
    """The columns one stream writes and, among them, the one that says which version is newer.

    table: that it writes to. key: of that table. unwritten: what else the stream's files hold.
    """

    name: str
    table: str
    key: tuple[pa.Field, ...]
    sequence: str
    values: tuple[pa.Field, ...]
    unwritten: tuple[pa.Field, ...] = ()

    @property
    def key_names(self) -> list[str]:
        return [field.name for field in self.key]

    @property
    def value_names(self) -> list[str]:
        return [field.name for field in self.values]

    @property
    def fields(self) -> list[pa.Field]:
        return [pa.field(self.sequence, pa.int64()), *self.values]

    @property
    def written_schema(self) -> pa.Schema:
        """What the stream writes: the key, the sequence, the values."""
        return pa.schema([*self.key, *self.fields])

    @property
    def stream_schema(self) -> pa.Schema:
        """What a file of the stream holds."""
        return pa.schema([*self.written_schema, *self.unwritten])
