"""The section of one table of the source: what its target has that is not the usual thing. Pure.

`config.py` has the form of the entries. Raises InvalidError that names the entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from widetable_cdc.columns.target_columns import ColumnSection
from widetable_cdc.jobs.config_entries import Entries


@dataclass(frozen=True)
class Group:
    """The columns of an existing wide table that the source fills, and the bigint column that takes the LSN."""

    columns: tuple[str, ...]
    sequence: str


@dataclass(frozen=True)
class TableConfig:
    """What is special about one table of the source. key: empty for the primary key. types: of columns, by name.
    computed: expressions, by the names of computed columns. metadata: columns that say where a row came from.
    """

    target: str | None = None
    key: tuple[str, ...] = ()
    partition: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    computed: Mapping[str, str] = field(default_factory=dict)
    metadata: tuple[str, ...] = ()
    group: Group | None = None

    @property
    def section(self) -> ColumnSection:
        """What it says of the columns of the target."""
        group = None if self.group is None else self.group.columns
        return ColumnSection(self.key, self.computed, self.metadata, group)


def table_config(part: Entries) -> TableConfig:
    """Check the entries of a section."""
    group = part.optional_section("group")
    table = TableConfig(
        target=part.optional_text("target"),
        key=part.texts("key"),
        partition=part.texts("partition"),
        options=part.options("options"),
        types=part.named_texts("types"),
        computed=part.named_texts("computed"),
        metadata=part.texts("metadata"),
        group=None
        if group is None
        else Group(group.texts("columns", least=1), group.text("sequence")),
    )
    if group is not None:
        group.end()
    part.end()
    return table
