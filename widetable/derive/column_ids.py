"""Which columns something is made of. Names do not say it: a column may be dropped and added again, or take the name of
another one, and no snapshot tells of that. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

from widetable.schema import TableSchema


def column_ids(schema: TableSchema, names: Iterable[str]) -> dict[str, int | None]:
    """The field id of each; None for one that is not there."""
    fields = {name: schema.by_name.get(name) for name in names}
    return {name: None if field is None else field.id for name, field in fields.items()}
