"""Where a training is in an epoch, as a small dict that JSON can hold, and its check. Pure.

    {"snapshot_id": 7, "tag": null, "schema_id": 0, "rows": 10000, "seed": 1, "shuffle_groups": 64,
     "global_batch": 1024, "batch_rows": null, "world": null, "workers": null, "even": "drop", "epoch": 2, "batches": 7}

batches: how many the rank has given; with `global_batch` these are the global batches, and any number of ranks and
workers goes on from them. Without it a rank and its workers go on with their own rows, so `world` and `workers` must be
the same. rows: of the epoch; another number says that another filter is used.

Raises InvalidError for a state that is none, or that belongs to another order of batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from widetable.arguments import mapping, whole_number
from widetable.errors import InvalidError

_ORDER: Final = ("seed", "shuffle_groups", "global_batch", "batch_rows", "world", "even", "rows")
_FIELDS: Final = (*_ORDER, "workers", "snapshot_id", "tag", "schema_id", "epoch", "batches")


def checked_state(state: Any) -> dict[str, Any]:
    """Return a state of which all fields are there, and the numbers are numbers."""
    fields = mapping(state, "state")
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise InvalidError(
            "state",
            found=f"no {missing[0]} in it",
            expected="what state_dict() returned",
            action="Give the whole dict.",
        )
    for name in ("epoch", "batches", "rows"):
        fields[name] = whole_number(fields[name], f"{name} of the state", least=0)
    for name in ("snapshot_id", "schema_id", "workers"):
        if fields[name] is not None:
            fields[name] = whole_number(fields[name], f"{name} of the state", least=0)
    return fields


def check_order(state: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse a state of another order than that of this loader. own: its state."""
    for name in _ORDER:
        if state[name] != own[name]:
            raise _other_order(name, state[name], own[name])


def check_workers(state: Mapping[str, Any], workers: int) -> None:
    """Refuse to go on with another number of workers where each has rows of its own."""
    if state["global_batch"] is None and state["batches"] and state["workers"] != workers:
        raise _other_order("workers", state["workers"], workers)


def _other_order(name: str, of_state: Any, own: Any) -> InvalidError:
    action = f"Make the loader with the state's {name}, or begin the epoch again."
    if name in ("world", "workers"):
        action = (
            f"Go on with the state's number of {'ranks' if name == 'world' else 'workers'}. "
            "Batches of `global_batch` can be resumed with any number of ranks and workers."
        )
    return InvalidError(
        f"{name} of the state",
        found=repr(of_state),
        expected=f"{own!r}, as it is here",
        action=action,
    )
