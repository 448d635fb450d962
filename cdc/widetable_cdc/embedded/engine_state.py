"""What a job keeps of the engine, in the table `<database>.__cdc_<name>_engine`: one commit moves all of it.

    item                 number    position      text
    offset               0         8589935746    {"file": "bin.000002", "pos": 1154, ..}
    history              0                       {"source": .., "ddl": "CREATE TABLE ..", ..}
    history              1                       ..
    table shop.orders    0                       {"columns": {"id": {..}}, "key": ["id"], "unfilled": []}

The offset says where the engine begins again, and the position which changes are in the tables. There is none before
the full copy is complete. The history is Debezium's own, so the schema of a table at the offset is known, whatever it
is at the server by now. It may be ahead of the offset: Debezium reads the history up to the offset.

The commit of a round's state comes after those of its tables. Raises what reading and writing a table raise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from widetable import Catalog, NotFoundError, Table
from widetable_cdc.embedded.source_form import SourceForm

OFFSET: Final = "offset"
HISTORY: Final = "history"
_TABLE: Final = "table "
_Row = tuple[str, int, str, "int | None"]
_SCHEMA: Final = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        pa.field("number", pa.int64(), nullable=False),
        pa.field("text", pa.string()),
        pa.field("position", pa.int64()),
    ]
)
_OPTIONS: Final = {"bucket": "1"}


@dataclass(frozen=True)
class EngineState:
    """Where a job is. offset: JSON of Debezium; None before the full copy is complete. position: of the last change
    before it. history: lines of JSON. forms: of the tables of the
    source, by their names.
    """

    offset: str | None = None
    position: int = 0
    history: tuple[str, ...] = ()
    forms: Mapping[str, SourceForm] = field(default_factory=dict)


class EngineStates:
    """The state of a job. database, job: give the name of its table. It is made with the first `save`."""

    def __init__(self, catalog: Catalog, database: str, job: str, user: str) -> None:
        self._catalog, self._user = catalog, user
        self._name = f"{database}.__cdc_{job}_engine"

    def load(self) -> EngineState:
        """Read the state; an empty one of a job that is new."""
        table = self._opened()
        rows = [] if table is None else table.scan().to_arrow().to_pylist()
        history = sorted((row["number"], row["text"]) for row in rows if row["item"] == HISTORY)
        offsets = [row for row in rows if row["item"] == OFFSET]
        return EngineState(
            offset=offsets[0]["text"] if offsets else None,
            position=offsets[0]["position"] if offsets else 0,
            history=tuple(text for _, text in history),
            forms={
                row["item"][len(_TABLE) :]: SourceForm.from_json(row["text"])
                for row in sorted(rows, key=lambda row: str(row["item"]))
                if row["item"].startswith(_TABLE)
            },
        )

    def save(self, state: EngineState, known: int) -> None:
        """Write the state in one commit. known: how many lines of the history the table has."""
        table = self._opened()
        if table is None:
            table = self._catalog.create_table(
                self._name, _SCHEMA, primary_key=["item", "number"], options=_OPTIONS
            )
        rows: list[_Row] = [
            (f"{_TABLE}{name}", 0, form.to_json(), None) for name, form in state.forms.items()
        ]
        if state.offset is not None:
            rows.append((OFFSET, 0, state.offset, state.position))
            rows += [(HISTORY, at, text, None) for at, text in enumerate(state.history)][known:]
        table.write(_rows(rows), self._user)

    def _opened(self) -> Table | None:
        try:
            return self._catalog.table(self._name)
        except NotFoundError:
            return None


def _rows(rows: Sequence[_Row]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(_SCHEMA.names, row, strict=True)) for row in rows], _SCHEMA
    )
