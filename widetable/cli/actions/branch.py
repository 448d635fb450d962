"""The command of branches: branch. An option that belongs to another action is refused, never passed over."""

from __future__ import annotations

from widetable.cli.actions.past import check_name_given, check_only, write_gone
from widetable.cli.command import DONE
from widetable.cli.output.console import write_result
from widetable.operations.history.fast_forward import FastForwardResult
from widetable.table import Table


def branch(
    action: str,
    path: str,
    name: str | None,
    tag: str | None,
    replace: bool,
    dry_run: bool,
    format: str,
) -> int:
    """Prints what was made or went; to list, each branch but main with its newest snapshot.

    name is there for all actions but list, as `check_name_given` has seen; `or ""` is for the types.
    """
    check_name_given("branch", action, name)
    check_only("branch", action, ["create"], {"--tag": tag is not None})
    check_only("branch", action, ["fast-forward"], {"--replace": replace})
    check_only("branch", action, ["drop", "fast-forward"], {"--dry-run": dry_run})
    table = Table.open(path)
    if action == "create":
        table.create_branch(name or "", tag=tag)
        holds = "empty; --tag starts it from a tag" if tag is None else f"of tag {tag}"
        made = {"branch": name, "tag": tag, "is_empty": tag is None}
        write_result(format, made, [f"branch {name} made, {holds}"])
    elif action == "drop":
        table.drop_branch(name or "", dry_run=dry_run)
        write_gone("branch", name or "", format, is_dry=dry_run)
    elif action == "fast-forward":
        done = table.fast_forward(name or "", replace=replace, dry_run=dry_run)
        write_result(format, done.to_dict(), _lines(done, "would come or go: " if dry_run else ""))
    else:
        _list(table, format)
    return DONE


def _list(table: Table, format: str) -> None:
    """As `inspect --what branches` has them, in fewer words."""
    rows = table.inspect.branches().to_pylist()
    found = [{"name": row["branch"], "snapshot": row["snapshot_id"]} for row in rows]
    write_result(format, {"branches": found}, [_listed(**row) for row in found])


def _listed(name: str, snapshot: int | None) -> str:
    return f"{name}  {'no snapshot' if snapshot is None else f'snapshot {snapshot}'}"


def _lines(done: FastForwardResult, said: str) -> list[str]:
    """One for each kind of things that come or go: fields of the result that are tuples, by their names."""
    kinds = {kind: found for kind, found in done.to_dict().items() if isinstance(found, tuple)}
    lines = [
        f"{said}{kind.replace('_', ' ')}: {', '.join(map(str, found))}"
        for kind, found in kinds.items()
        if found
    ]
    return lines or ["nothing comes or goes"]
