"""Commands of what a table keeps of its past: tag, consumer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from widetable.cli.command import DONE
from widetable.cli.console import write_json, write_line
from widetable.cli.duration import millis_of
from widetable.cli.human_units import time_text
from widetable.errors import InvalidError, NotFoundError
from widetable.table import Table


def tag(
    action: str,
    path: str,
    name: str | None,
    snapshot: int | None,
    time_retained: str | None,
    format: str,
) -> int:
    """To list prints name, snapshot and its time of each tag."""
    check_name_given("tag", action, name)
    of_create = {"--snapshot": snapshot is not None, "--time-retained": time_retained is not None}
    check_only("tag", action, ["create"], of_create)
    check_only("tag", action, ["list"], {"--format json": format == "json"})
    table = Table.open(path)
    if action == "create":
        table.create_tag(name or "", snapshot, millis_of(time_retained, "--time-retained"))
        return DONE
    if action == "delete":
        table.delete_tag(name or "")
        return DONE
    found = [
        {"name": each, "snapshot": kept.id, "time": time_text(kept.time_millis)}
        for each, kept in table.tags().items()
    ]
    if format == "json":
        write_json({"tags": found})
        return DONE
    for row in found:
        write_line(f"{row['name']}  snapshot {row['snapshot']}  {row['time']}")
    return DONE


def consumer(action: str, path: str, name: str | None, format: str) -> int:
    """To list prints each consumer with the snapshot that it reads next."""
    check_name_given("consumer", action, name)
    check_only("consumer", action, ["list"], {"--format json": format == "json"})
    table = Table.open(path)
    if action == "delete":
        if not table.delete_consumer(name or ""):
            raise NotFoundError(
                f"consumer {name!r}",
                found="no such consumer",
                expected=f"one of {', '.join(table.consumers()) or 'none'}",
                action="Check the name.",
            )
        return DONE
    if format == "json":
        write_json({"consumers": table.consumers()})
        return DONE
    for each, snapshot_id in table.consumers().items():
        write_line(f"{each}  snapshot {snapshot_id}")
    return DONE


def check_only(
    command: str, action: str, actions: Sequence[str], given: Mapping[str, bool]
) -> None:
    """Options of which some are given stand with these actions alone. Raises InvalidError."""
    found = [option for option, is_given in given.items() if is_given]
    if found and action not in actions:
        raise InvalidError(
            f"widetable {command} {action}",
            found=found[0],
            expected=f"it with {' and '.join(actions)} only",
            action="Leave it out.",
        )


def check_name_given(command: str, action: str, name: str | None) -> None:
    """A NAME stands with every action but list. Raises InvalidError."""
    if (name is None) != (action == "list"):
        raise InvalidError(
            f"widetable {command} {action}",
            found="no NAME" if name is None else f"the NAME {name!r}",
            expected="none" if action == "list" else "a NAME",
            action="Add it." if name is None else "Leave it out.",
        )
