"""The table of commands. A command `name` is the function `name` of its module, called with one keyword for each
argument; it returns the exit code. The modules, and with them the engine, are imported when a command is called: help
comes without them. What is imported here (audit_report, inspected_names) must itself import no engine.

In three parts, for the length of files: `table_commands`, `meta_command` and this one. Texts here are the help; what a
command does otherwise stands in its function.
"""

from __future__ import annotations

from typing import Final

from widetable.cli.command import (
    DRY_RUN,
    EXAMPLE,
    FORMATS,
    PATH,
    SOURCE,
    YES,
    Command,
    argument,
    flag,
    many,
    moment,
    number,
    on_or_off,
    time,
)
from widetable.cli.meta_command import META_COMMAND
from widetable.cli.table_commands import KEEP, LOOK, MAKE, PAST
from widetable.operations.health.audit_report import FINDINGS_PER_LAW
from widetable.operations.inspection.inspected_names import NAMES, OF_A_SNAPSHOT

_LOOK: Final = (
    Command(
        "inspect",
        "reports",
        "Say what state a table is in: snapshots, files, what waits, warnings.",
        (
            PATH,
            argument(
                "--what",
                f"In place of the state one of {', '.join(NAMES)}, row by row.",
                metavar="NAME",
                choices=NAMES,
            ),
            number("--snapshot", f"{', '.join(OF_A_SNAPSHOT)}: of this snapshot.", "ID"),
            argument("--tag", "The same, of this tag.", metavar="NAME"),
            *FORMATS,
        ),
        (
            f"widetable inspect {EXAMPLE}",
            f"widetable inspect --json {EXAMPLE}",
            f"widetable inspect {EXAMPLE} --what files --tag january",
        ),
    ),
    Command(
        "explain",
        "reports",
        "Say why a key has its values: which record each is from, what became of the others.",
        (
            PATH,
            argument(
                "key",
                "column=value for each column of the primary key, or the value of its only one.",
                metavar="KEY",
                nargs="+",
            ),
            number("--snapshot", "As of this snapshot.", "ID"),
            argument("--tag", "As of this tag.", metavar="NAME"),
            argument("--columns", "Comma-separated columns; by default all.", metavar="NAMES"),
            *FORMATS,
        ),
        (
            f"widetable explain {EXAMPLE} 7",
            f"widetable explain {EXAMPLE} user=7 day=2026-01-31 --snapshot 120",
        ),
    ),
    Command(
        "audit",
        "reports",
        "Check the laws of the format and of the changelog.",
        (
            argument(
                "--from",
                "Snapshot id or tag (tag:NAME where it is a number) onto whose rows the changelog is folded; 0: the "
                "empty table. By default the oldest snapshot.",
                dest="start",
                metavar="SNAPSHOT",
            ),
            number(
                "--findings",
                "How many findings of each law to print (default: %(default)s).",
                "NUMBER",
                default=FINDINGS_PER_LAW,
            ),
            PATH,
            *FORMATS,
        ),
        (f"widetable audit {EXAMPLE}", f"widetable audit --from 120 --findings 3 {EXAMPLE}"),
        "Exit code 0: all hold; 1: findings; 2: no audit.",
    ),
    Command(
        "doctor",
        "mending",
        "List all that is wrong with tables, and what to do.",
        (
            flag("--deep", "Read every file, instead of looking at its size."),
            argument("path", "A table's directory, a warehouse's or a database's.", metavar="PATH"),
            *FORMATS,
        ),
        (
            f"widetable doctor {EXAMPLE}",
            f"widetable doctor --deep {EXAMPLE}",
            "widetable doctor /warehouse",
        ),
        "Exit code 0: nothing is wrong; 1: findings; 2: no look.",
    ),
    Command(
        "changes",
        "reports",
        "Write the changes of a range of snapshots, with their kind in the column _row_kind.",
        (
            PATH,
            argument(
                "start",
                "Snapshot id or tag (tag:NAME where it is a number), exclusive; 0: before the first.",
                metavar="START",
            ),
            argument("end", "The same, inclusive.", metavar="END"),
            argument(
                "--mode",
                "The changelog, else what was appended (auto); always these, or that; in which rows both ends differ; "
                "or all that belongs to barriers, which START and END are then (default: %(default)s).",
                choices=("auto", "delta", "changelog", "diff", "barrier"),
                default="auto",
            ),
            flag("--commits", "With _snapshot_id and _commit_time of each change."),
            *SOURCE,
        ),
        (
            f"widetable changes {EXAMPLE} 0 12 --columns id,city",
            f"widetable changes {EXAMPLE} monday tuesday --mode diff",
            f"widetable changes {EXAMPLE} 11 12 --format parquet --output changes.parquet",
        ),
    ),
)

_KEEP: Final = (
    Command(
        "maintain",
        "upkeep",
        "Keep a table compacted, with its changelog, and expired: until SIGTERM, or once.",
        (
            PATH,
            flag(
                "--once",
                "Do all that is due, then end: until nothing is, derived tables and their changelog included.",
            ),
            time(
                "--interval",
                "Time between two looks at the table (default: %(default)s).",
                default="1 s",
            ),
            time(
                "--full-compaction-interval",
                "How often to compact everything when something is new; by default only with "
                "changelog-producer=full-compaction, every minute.",
            ),
            on_or_off("--expire", "Let old snapshots go"),
            time(
                "--orphans-older-than",
                "Remove files that nothing names and that are so old, once a day.",
            ),
            flag("--quiet", "Log warnings and errors only."),
            *FORMATS,
        ),
        (
            f"widetable maintain {EXAMPLE}",
            f"widetable maintain --once {EXAMPLE}",
            f'widetable maintain --interval "5 s" --orphans-older-than "2 d" {EXAMPLE}',
        ),
    ),
    Command(
        "join",
        "joins",
        "Make a table that holds the join of two others, and keep it so: until SIGTERM or once.",
        (
            argument(
                "action",
                "add or run: make the table, or keep it.",
                metavar="ACTION",
                choices=("add", "run"),
            ),
            PATH,
            argument(
                "--left", "add: the left table, db.name in PATH's warehouse.", metavar="TABLE"
            ),
            argument("--right", "add: the right table.", metavar="TABLE"),
            argument(
                "--on",
                "add: columns that are equal, left=right, or a name that both have; more after commas.",
                metavar="COLUMNS",
            ),
            argument("--how", "add: inner (the default) or left.", choices=("inner", "left")),
            number("--max-matches", "add: rows that a join key may have at most.", "NUMBER"),
            many("--set", "add: an option of the table. May be repeated.", "KEY=VALUE"),
            flag("--once", "run: one round, then end."),
            time("--interval", "run: time between two looks at the tables; by default 1 s."),
            flag("--quiet", "run: log warnings and errors only."),
            *FORMATS,
        ),
        (
            f"widetable join add {EXAMPLE}_named --left shop.users --right shop.names --on name_id=id",
            f"widetable join run {EXAMPLE}_named",
        ),
    ),
    Command(
        "expire",
        "upkeep",
        "Let old snapshots go, as the table's options say, or as given here.",
        (
            PATH,
            number("--retain-min", "Snapshots that stay at least.", "NUMBER"),
            number("--retain-max", "Snapshots that stay at most.", "NUMBER"),
            time("--time-retained", "How long a snapshot stays after the next one came."),
            flag(
                "--partitions", "Old partitions, in place of snapshots (partition.expiration-time)."
            ),
            DRY_RUN,
            *FORMATS,
        ),
        (
            f"widetable expire --dry-run {EXAMPLE}",
            f'widetable expire --time-retained "1 h" {EXAMPLE}',
        ),
    ),
    Command(
        "rescale",
        "upkeep",
        "Give a table another number of buckets, while others read and write.",
        (
            PATH,
            number("buckets", "Buckets per partition.", "BUCKETS"),
            many(
                "--partition", "Only this one: each column of the partition once.", "COLUMN=VALUE"
            ),
            *FORMATS,
        ),
        (f"widetable rescale {EXAMPLE} 16",),
    ),
    Command(
        "orphans",
        "upkeep",
        "Remove files that no snapshot, tag or branch names.",
        (
            PATH,
            time(
                "--older-than",
                "Only files that were last written so long ago (default: %(default)s).",
                default="1 d",
            ),
            DRY_RUN,
            *FORMATS,
        ),
        (
            f"widetable orphans --dry-run {EXAMPLE}",
            f'widetable orphans --older-than "7 d" {EXAMPLE}',
        ),
    ),
    Command(
        "alter",
        "alteration",
        "Change options and columns of a table, in one step. Data files are not touched.",
        (
            PATH,
            many("--set", "An option.", "KEY=VALUE"),
            many("--unset", "Back to its default.", "KEY"),
            many("--add", "A new column, last.", "'NAME TYPE'"),
            many("--drop", "A column, and its values.", "NAME"),
            many("--rename", "A column; its values stay.", "OLD=NEW"),
            many("--type", "To a wider type.", "'NAME TYPE'"),
            many("--nullable", "Allow nulls.", "NAME"),
            many("--not-null", "Forbid them.", "NAME"),
            many("--comment", "Without a text there is none.", "NAME=TEXT"),
            many("--move", "To first, last, 'after NAME' or 'before NAME'.", "NAME=PLACE"),
            *FORMATS,
        ),
        (
            f'widetable alter {EXAMPLE} --set write-only=true --set "target-file-size=64 mb"',
            f"widetable alter {EXAMPLE} --add 'country STRING' --move country='after city'",
        ),
        "Each may be repeated. NAME may be a path to a field: v.f, v.element.f, v.value.f.",
    ),
)

_MEND: Final = (
    Command(
        "repair",
        "mending",
        "Take damaged files out of a table, keep what can be read, list exactly what is gone.",
        (
            PATH,
            YES,
            DRY_RUN,
            on_or_off("--deep", "Read every live file to find the damaged ones"),
            *FORMATS,
        ),
        (f"widetable repair {EXAMPLE}", f"widetable repair --yes {EXAMPLE}"),
        "Changes nothing without --yes.",
    ),
    Command(
        "rollback",
        "mending",
        "Give a table the rows of an older snapshot, in a new snapshot.",
        (
            PATH,
            number("--snapshot", "Go back to this snapshot.", "ID"),
            argument("--tag", "Go back to this tag.", metavar="NAME"),
            moment("--timestamp", "Go back to this time"),
            YES,
            DRY_RUN,
            *FORMATS,
        ),
        (
            f"widetable rollback {EXAMPLE} --snapshot 120",
            f"widetable rollback {EXAMPLE} --tag good --yes",
        ),
        "Says first what that undoes; changes nothing without --yes.",
    ),
)

_PREPARE: Final = (
    Command(
        "completion",
        "completion_script",
        "Print a script that completes command lines in a shell.",
        (
            argument(
                "shell", "bash, zsh or fish.", metavar="SHELL", choices=("bash", "zsh", "fish")
            ),
        ),
        (
            'eval "$(widetable completion bash)"',
            "widetable completion fish",
        ),
    ),
    Command(
        "warmup",
        "installation",
        "Compile all kernels into their cache, as when an image is built.",
        FORMATS,
        ("widetable warmup", "NUMBA_CACHE_DIR=/opt/kernels widetable warmup"),
        "Later processes compile nothing, given the same cache, package and kind of processor;\n"
        "NUMBA_CPU_NAME=generic, then and later, makes them fit every processor.",
    ),
)

GROUPS: Final = {
    "make and fill a table": MAKE,
    "look at a table": (*LOOK, *_LOOK),
    "keep it up": (*KEEP, *_KEEP),
    "keep its past": PAST,
    "mend it": _MEND,
    "look after tables under barriers": (META_COMMAND,),
    "prepare an installation": _PREPARE,
}
COMMANDS: Final = {command.name: command for group in GROUPS.values() for command in group}
