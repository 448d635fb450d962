"""Commands of what a table keeps of its past: tag, consumer. And what commands with actions check of their words:

    check_name_given("tag", "create", None)                        InvalidError: a NAME is missing
    check_only("tag", "list", ["create"], {"--snapshot": True})    InvalidError: it stands with create only

The parser takes all options of all actions; one that would have no effect is refused here, before the table is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from widetable.cli.command import DONE
from widetable.cli.input.duration import millis_of
from widetable.cli.output.console import write_result
from widetable.errors import InvalidError, NotFoundError
from widetable.format.human_units import time_text
from widetable.table import Table


def tag(
    action: str,
    path: str,
    name: str | None,
    snapshot: int | None,
    time_retained: str | None,
    dry_run: bool,
    format: str,
) -> int:
    """Prints what was made or went; to list, name, snapshot and its time of each tag.

    Automatic tags are in the list as well, and go like others. Times are UTC.
    """
    check_name_given("tag", action, name)
    of_create = {"--snapshot": snapshot is not None, "--time-retained": time_retained is not None}
    check_only("tag", action, ["create"], of_create)
    check_only("tag", action, ["delete"], {"--dry-run": dry_run})
    table = Table.open(path)
    if action == "create":
        table.create_tag(name or "", snapshot, millis_of(time_retained, "--time-retained"))
        write_result(format, {"tag": name}, [f"tag {name} made"])
        return DONE
    if action == "delete":
        table.delete_tag(name or "", dry_run=dry_run)
        write_gone("tag", name or "", format, is_dry=dry_run)
        return DONE
    found = [
        {"name": each, "snapshot": kept.id, "time": time_text(kept.time_millis)}
        for each, kept in table.tags().items()
    ]
    lines = [f"{row['name']}  snapshot {row['snapshot']}  {row['time']}" for row in found]
    write_result(format, {"tags": found}, lines)
    return DONE


def consumer(action: str, path: str, name: str | None, dry_run: bool, format: str) -> int:
    """Prints what went; to list, each consumer with the snapshot that it reads next.

    A consumer that is forgotten holds nothing from expiry any more; its reader, if it lives, makes it
    again with its next progress.
    """
    check_name_given("consumer", action, name)
    check_only("consumer", action, ["delete"], {"--dry-run": dry_run})
    table = Table.open(path)
    if action == "delete":
        if not table.delete_consumer(name or "", dry_run=dry_run):
            raise NotFoundError(
                f"consumer {name!r}",
                found="no such consumer",
                expected=f"one of {', '.join(table.consumers()) or 'none'}",
                action="Check the name.",
            )
        write_gone("consumer", name or "", format, is_dry=dry_run)
        return DONE
    found = table.consumers()
    lines = [f"{each}  snapshot {snapshot_id}" for each, snapshot_id in found.items()]
    write_result(format, {"consumers": found}, lines)
    return DONE


def write_gone(what: str, name: str, format: str, *, is_dry: bool) -> None:
    """Of what was deleted, or would be. what: its kind, which is the key in JSON: {"tag": name, "dry_run": false}."""
    said = f"{what} {name} {'would go' if is_dry else 'gone'}"
    write_result(format, {what: name, "dry_run": is_dry}, [said])


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
