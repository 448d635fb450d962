"""The form of a source's table that its target has been brought to. A job keeps it, as JSON, beside its other state.

    relation   as the log gave it          {"oid": 16384, "schema": "public", "name": "t", "identity": "d", …}
    table      as the catalog gave it      attnums tell renamed columns from added ones
    fields     attnum -> field id          field ids of the target, which a rename keeps; also of dropped columns

Pure. Raises DamagedError for a text of another form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from widetable import DamagedError
from widetable_cdc.log.changes import Relation, RelationColumn
from widetable_cdc.source.source_table import SourceColumn, SourceTable
from widetable_cdc.values.source_type import SourceType


@dataclass(frozen=True)
class AppliedForm:
    """A form of a table. fields: the field of the target that each column has or had, by its attnum. section: what the
    configuration said of the target's columns, as a text; empty if nothing.
    """

    relation: Relation
    table: SourceTable
    fields: Mapping[int, int] = field(default_factory=dict)
    section: str = ""

    @property
    def highest_attnum(self) -> int:
        """The highest attnum that the table is known to have had."""
        return max((*self.fields, *(column.attnum for column in self.table.columns)), default=0)

    def to_json(self) -> str:
        """Return the form as a JSON object."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False)

    @staticmethod
    def from_json(text: str) -> AppliedForm:
        """Return the form of a text that `to_json` made."""
        try:
            body = json.loads(text)
            relation, table = body["relation"], body["table"]
            columns = tuple(RelationColumn(**each) for each in relation.pop("columns"))
            sources = tuple(
                SourceColumn(**(each | {"type": _type(each["type"])}))
                for each in table.pop("columns")
            )
            key = tuple(table.pop("key"))
            fields = {int(attnum): int(id) for attnum, id in body["fields"].items()}
            return AppliedForm(
                Relation(**relation, columns=columns),
                SourceTable(**table, key=key, columns=sources),
                fields,
                body.get("section", ""),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as cause:
            raise DamagedError(
                "form of a source's table",
                found=repr(text[:100]),
                expected="a JSON object with relation, table and fields",
                action="Copy the table again.",
            ) from cause


def _type(body: Mapping[str, Any]) -> SourceType:
    element = body["element"]
    return SourceType(**{**body, "element": None if element is None else _type(element)})


def names_between(old: SourceTable, new: SourceTable) -> dict[str, str]:
    """Return the new name of each column that both forms have: for rows of the old form in a target of the new one."""
    names = {column.attnum: column.name for column in new.columns}
    return {c.name: names[c.attnum] for c in old.columns if c.attnum in names}
