"""The commands tag and consumer, and the checks of arguments for all commands with actions:

    check_name_given("tag", "create", None)                        InvalidError: a NAME is missing
    check_only("tag", "list", ["create"], {"--snapshot": True})    InvalidError: --snapshot requires create

The parser accepts the options of all actions. An option without effect is refused here, before the table is opened.
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
    """Print what was created or deleted; for list, the name, snapshot and its time of each tag.

    Automatic tags are listed, and can be deleted, like others. Times are UTC.
    """
    check_name_given("tag", action, name)
    for_create = {"--snapshot": snapshot is not None, "--time-retained": time_retained is not None}
    check_only("tag", action, ["create"], for_create)
    check_only("tag", action, ["delete"], {"--dry-run": dry_run})
    table = Table.open(path)
    if action == "create":
        table.create_tag(name or "", snapshot, millis_of(time_retained, "--time-retained"))
        write_result(format, {"tag": name}, [f"tag {name} created"])
        return DONE
    if action == "delete":
        table.delete_tag(name or "", dry_run=dry_run)
        write_deleted("tag", name or "", format, is_dry=dry_run)
        return DONE
    tags = [
        {"name": each, "snapshot": kept.id, "time": time_text(kept.time_millis)}
        for each, kept in table.tags().items()
    ]
    lines = [f"{row['name']}  snapshot {row['snapshot']}  {row['time']}" for row in tags]
    write_result(format, {"tags": tags}, lines)
    return DONE


def consumer(action: str, path: str, name: str | None, dry_run: bool, format: str) -> int:
    """Print what was deleted; for list, each consumer with the snapshot that it reads next.

    A deleted consumer keeps nothing from expiry any more. If its reader still runs, the reader creates it again.
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
        write_deleted("consumer", name or "", format, is_dry=dry_run)
        return DONE
    consumers = table.consumers()
    lines = [f"{each}  snapshot {snapshot_id}" for each, snapshot_id in consumers.items()]
    write_result(format, {"consumers": consumers}, lines)
    return DONE


def write_deleted(what: str, name: str, format: str, *, is_dry: bool) -> None:
    """Print what was deleted, or would be. what: its kind, the key in JSON: {"tag": name, "dry_run": false}."""
    text = f"{what} {name} {'would be deleted' if is_dry else 'deleted'}"
    write_result(format, {what: name, "dry_run": is_dry}, [text])


def check_only(
    command: str, action: str, actions: Sequence[str], given: Mapping[str, bool]
) -> None:
    """Raise InvalidError if an option is given that only these actions take. given: option to whether it is given."""
    options = [option for option, is_given in given.items() if is_given]
    if options and action not in actions:
        raise InvalidError(
            f"widetable {command} {action}",
            found=options[0],
            expected=f"this option only with {' and '.join(actions)}",
            action="Omit the option.",
        )


def check_name_given(command: str, action: str, name: str | None) -> None:
    """Raise InvalidError if a NAME is missing, or is given with list."""
    if (name is None) != (action == "list"):
        raise InvalidError(
            f"widetable {command} {action}",
            found="no NAME" if name is None else f"the NAME {name!r}",
            expected="none" if action == "list" else "a NAME",
            action="Add the NAME." if name is None else "Omit the NAME.",
        )
