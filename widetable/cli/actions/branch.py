"""The command branch. An option that belongs to another action is refused, never ignored."""

from __future__ import annotations

from widetable.cli.actions.past import check_name_given, check_only, write_deleted
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
    """Print what was created, dropped or changed; for list, each branch except main with its newest snapshot.

    `check_name_given` ensures a name for all actions except list; `or ""` only satisfies the type checker.
    """
    check_name_given("branch", action, name)
    check_only("branch", action, ["create"], {"--tag": tag is not None})
    check_only("branch", action, ["fast-forward"], {"--replace": replace})
    check_only("branch", action, ["drop", "fast-forward"], {"--dry-run": dry_run})
    table = Table.open(path)
    if action == "create":
        table.create_branch(name or "", tag=tag)
        content = (
            "empty (--tag starts it from a tag)" if tag is None else f"with the rows of tag {tag}"
        )
        created = {"branch": name, "tag": tag, "is_empty": tag is None}
        write_result(format, created, [f"branch {name} created, {content}"])
    elif action == "drop":
        table.drop_branch(name or "", dry_run=dry_run)
        write_deleted("branch", name or "", format, is_dry=dry_run)
    elif action == "fast-forward":
        done = table.fast_forward(name or "", replace=replace, dry_run=dry_run)
        write_result(format, done.to_dict(), _lines(done, "would be: " if dry_run else ""))
    else:
        _list(table, format)
    return DONE


def _list(table: Table, format: str) -> None:
    """Print the branches of `inspect --what branches`, with fewer columns."""
    rows = table.inspect.branches().to_pylist()
    branches = [{"name": row["branch"], "snapshot": row["snapshot_id"]} for row in rows]
    write_result(format, {"branches": branches}, [_listed(**row) for row in branches])


def _listed(name: str, snapshot: int | None) -> str:
    return f"{name}  {'no snapshot' if snapshot is None else f'snapshot {snapshot}'}"


def _lines(done: FastForwardResult, prefix: str) -> list[str]:
    """Return a line for each kind of change: the fields of the result that are tuples, by their names."""
    kinds = {kind: names for kind, names in done.to_dict().items() if isinstance(names, tuple)}
    lines = [
        f"{prefix}{kind.replace('_', ' ')}: {', '.join(map(str, names))}"
        for kind, names in kinds.items()
        if names
    ]
    return lines or ["nothing changes"]
