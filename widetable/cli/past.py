"""Commands of what a table keeps of its past: tag, consumer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from widetable.cli.command import DONE
from widetable.cli.console import write_json, write_line
from widetable.cli.duration import millis_of
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
    _check("tag", action, name, {"--snapshot": snapshot, "--time-retained": time_retained})
    table = Table.open(path)
    if action == "create":
        table.create_tag(name or "", snapshot, millis_of(time_retained, "--time-retained"))
        return DONE
    if action == "delete":
        table.delete_tag(name or "")
        return DONE
    found = [
        {"name": each, "snapshot": kept.id, "time": _time(kept.time_millis)}
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
    _check("consumer", action, name, {})
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


def _check(command: str, action: str, name: str | None, of_create: Mapping[str, Any]) -> None:
    check_name_given(command, action, name)
    given = [option for option, value in of_create.items() if value is not None]
    if given and action != "create":
        raise InvalidError(
            f"widetable {command} {action}",
            found=given[0],
            expected="it with create only",
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


def _time(millis: int) -> str:
    try:
        return datetime.fromtimestamp(millis / 1000, timezone.utc).isoformat(" ", "seconds")
    except (OverflowError, ValueError, OSError):
        return f"{millis} ms"
