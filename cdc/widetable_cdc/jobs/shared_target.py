"""Who else fills a target: another table of the job, or a table of another job that keeps its state in the database.

    shop.orders     public.orders of the job eu, with the constant shard = 'eu' in its key
                    public.orders of the job us, with shard = 'us': their rows are told apart
                    public.orders of the job asia, without a constant: refused, and so is another table of a job
    shop.wide       two groups with a sequence each: they have other columns

In: the states of tables (`FollowedStates`), whose forms have the sections of their tables as texts. Raises what reading
tables raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from widetable import Catalog
from widetable_cdc.jobs.config import SyncConfig
from widetable_cdc.jobs.followed_states import FollowedState, FollowedStates, Status

_PREFIX: Final = "__cdc_"
_SUFFIX: Final = "_tables"
_INTERVAL: Final = "widetable.barrier-interval"


@dataclass(frozen=True)
class Filler:
    """A table of a source that fills a target. section: of its configuration, parsed."""

    job: str
    relation: str
    section: dict[str, Any]


def fillers(catalog: Catalog, database: str, target: str) -> list[Filler]:
    """Return all tables that fill a target, by the states in its database."""
    return [
        Filler(job, state.relation, json.loads(state.form.section or "{}"))
        for job in _jobs(catalog, database)
        for state in FollowedStates(catalog, database, job).load(target).values()
        if state.status is not Status.GONE and has_target(state)
    ]


def other_fillers(catalog: Catalog, config: SyncConfig, relation: str, target: str) -> list[Filler]:
    """Return who fills a target besides a table of a job."""
    every = fillers(catalog, config.target.database, target)
    return [each for each in every if (each.job, each.relation) != (config.name, relation)]


def has_target(state: FollowedState) -> bool:
    """Return whether a table has a target. One that was parked before it had one has no column with a field."""
    return state.status is not Status.PARKED or bool(state.form.fields)


def conflict(
    catalog: Catalog, job: str, target: str, section: str, others: Iterable[Filler]
) -> str | None:
    """Return why a table of a job cannot fill a target as well; None if it can. section: of its configuration."""
    own = json.loads(section or "{}")
    for other in others:
        if other.job == job:
            # Rounds of both would have one commit user and one identifier.
            return (
                f"its target {target} is that of {other.relation}; give it another `target` in its section, or a job "
                "of its own"
            )
        if _are_groups(own, other.section):
            continue
        if _INTERVAL in catalog.table(target).schema.options:
            return (
                f"its target {target} is that of {other.relation} of the job {other.job}, and under barriers, so no "
                'other source may fill the same columns; let all its jobs have `barriers = "none"` in their target'
            )
        if not _are_apart(own, other.section):
            return (
                f"its target {target} is that of {other.relation} of the job {other.job}, and no constant column "
                "in both keys tells their rows apart; give each a computed column such as shard = \"'eu'\" in its "
                "key, or give it another `target` in its section"
            )
    return None


def _are_groups(one: dict[str, Any], other: dict[str, Any]) -> bool:
    sequences = [(each.get("group") or {}).get("sequence") for each in (one, other)]
    return all(sequences) and sequences[0] != sequences[1]


def _are_apart(one: dict[str, Any], other: dict[str, Any]) -> bool:
    mine, theirs = (each.get("constants", {}) for each in (one, other))
    return any(name in theirs and theirs[name] != value for name, value in mine.items())


def _jobs(catalog: Catalog, database: str) -> Iterator[str]:
    for full_name in catalog.list_tables(database):
        name = full_name.rpartition(".")[2]
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX):
            yield name[len(_PREFIX) : -len(_SUFFIX)]
