"""What a job keeps of each table of the source, in the table `<database>.__cdc_<name>_tables`.

    relation         status      reason                       target      form
    public.orders    streaming                                shop.orders {"oid": 16385, "columns": [..], ..}
    public.users     parked      the key column id changed    shop.users  {..}

`form` is the form of the source that the target was last brought to: a change of the schema is seen against it, also
one that happened while the job was down. A status is one of `Status`. Raises what writes to a table raise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from widetable import Catalog, NotFoundError, Table
from widetable.connector import ROW_KIND_COLUMN, did_you_mean
from widetable_cdc.evolution.applied_form import AppliedForm
from widetable_cdc.jobs.followed_server import SERVER, FollowedServer

_SCHEMA: Final = pa.schema(
    [
        pa.field("relation", pa.string(), nullable=False),
        pa.field("status", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("target", pa.string()),
        pa.field("form", pa.string()),
    ]
)
STATE_OPTIONS: Final = {"bucket": "1"}


class Status(Enum):
    """What the job does about a table."""

    COPYING = "copying"
    STREAMING = "streaming"
    PARKED = "parked"
    PAUSED = "paused"
    GONE = "gone"


@dataclass(frozen=True)
class FollowedState:
    """A table. relation: schema.table. reason: why it is parked, else empty. target: the full name of the table.

    form: the form of the source that the target has.
    """

    relation: str
    status: Status
    target: str
    form: AppliedForm
    reason: str = ""


class FollowedStates:
    """The states of a job's tables. database, job: give the name of the table, which the first state makes."""

    def __init__(self, catalog: Catalog, database: str, job: str) -> None:
        self._catalog = catalog
        self._name = f"{database}.__cdc_{job}_tables"

    @property
    def _table(self) -> Table:
        return state_table(self._catalog, self._name, _SCHEMA, ["relation"])

    def load(self, target: str | None = None) -> dict[str, FollowedState]:
        """Read all states, by relation; or those of one target."""
        is_its = None if target is None else pc.field("target") == target
        rows = rows_there(self._catalog, self._name, _SCHEMA, is_its).to_pylist()
        return {row["relation"]: _state_of(row) for row in rows if row["relation"] != SERVER}

    def load_server(self) -> FollowedServer | None:
        """Read what the last run knew of the server; None before the first."""
        rows = rows_there(self._catalog, self._name, _SCHEMA).to_pylist()
        texts = [row["form"] for row in rows if row["relation"] == SERVER]
        return FollowedServer.from_json(texts[0]) if texts else None

    def save_server(self, server: FollowedServer) -> None:
        """Write what this run knows of the server."""
        row = {"relation": SERVER, "form": server.to_json()}
        self._table.write(pa.Table.from_pylist([row], _SCHEMA))

    def save(self, *states: FollowedState) -> None:
        """Write states in one commit."""
        if states:
            self._table.write(pa.Table.from_pylist([_row_of(one) for one in states], _SCHEMA))

    def delete(self, relation: str) -> None:
        """Delete the state of a table."""
        self._table.write([{"relation": relation, ROW_KIND_COLUMN: "-D"}])


def rows_there(
    catalog: Catalog, name: str, schema: pa.Schema, filter: pc.Expression | None = None
) -> pa.Table:
    """Read the rows of a table of a job; none if it is absent."""
    try:
        return catalog.table(name).scan(filter=filter).to_arrow()
    except NotFoundError:
        return schema.empty_table()


def no_such_table(name: str, job: str, states: Mapping[str, FollowedState]) -> NotFoundError:
    """Return the error of a name that no table of the job has."""
    return NotFoundError(
        f"table {name}",
        found=f"no such table of the job {job!r}",
        expected=f"one of {', '.join(sorted(states)) or 'none'}",
        action=did_you_mean(name, states).strip() or "Correct the name.",
    )


def state_table(catalog: Catalog, name: str, schema: pa.Schema, key: list[str]) -> Table:
    """Open a table of a job, and make it if it is absent."""
    try:
        return catalog.table(name)
    except NotFoundError:
        return catalog.create_table(name, schema, primary_key=key, options=STATE_OPTIONS)


def _row_of(state: FollowedState) -> dict[str, Any]:
    return {
        "relation": state.relation,
        "status": state.status.value,
        "reason": state.reason,
        "target": state.target,
        "form": state.form.to_json(),
    }


def _state_of(row: Mapping[str, Any]) -> FollowedState:
    return FollowedState(
        relation=row["relation"],
        status=Status(row["status"]),
        target=row["target"],
        form=AppliedForm.from_json(row["form"]),
        reason=row["reason"] or "",
    )
