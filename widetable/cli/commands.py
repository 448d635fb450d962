"""The table of commands. A command `name` is the function `name` of its module, called with one keyword for each
argument; it returns the exit code. The modules, and with them the engine, are imported only when a command is called,
so help is fast. The modules imported here (audit_report, inspected_names) must not import the engine.

The table has three parts, to keep files short: `table_commands`, `meta_command` and this one. The texts are the help;
the function of a command describes the rest.
"""

from __future__ import annotations

from typing import Final

from widetable.cli.cdc_command import CDC_COMMAND
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
        "Show the state of a table: snapshots, files, pending work, warnings.",
        (
            PATH,
            argument(
                "--what",
                f"Instead of the state, list one of {', '.join(NAMES)}.",
                metavar="NAME",
                choices=NAMES,
            ),
            number("--snapshot", f"{', '.join(OF_A_SNAPSHOT)}: those of this snapshot.", "ID"),
            argument("--tag", f"{', '.join(OF_A_SNAPSHOT)}: those of this tag.", metavar="NAME"),
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
        "Explain the values of a key: the record of each, and why others do not count.",
        (
            PATH,
            argument(
                "key",
                "column=value for each column of the primary key; for a key of one column the value alone.",
                metavar="KEY",
                nargs="+",
            ),
            number("--snapshot", "Explain the key as of this snapshot.", "ID"),
            argument("--tag", "Explain the key as of this tag.", metavar="NAME"),
            argument(
                "--columns", "Explain only these columns, separated by commas.", metavar="NAMES"
            ),
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
        "Check the laws of the format and of the changelog, or what lookup sessions served.",
        (
            argument(
                "--from",
                "Fold the changelog onto the rows of this snapshot id or tag (tag:NAME if the name is a number); 0 is "
                "the empty table. By default it is the oldest snapshot.",
                dest="start",
                metavar="SNAPSHOT",
            ),
            number(
                "--findings",
                "Print at most this many findings of each law (default: %(default)s).",
                "NUMBER",
                default=FINDINGS_PER_LAW,
            ),
            argument(
                "--served",
                "Check no law, but compare what sessions have logged into this table (its directory, or db.name in the "
                "same warehouse) with what the table gives for these requests.",
                metavar="LOG",
            ),
            PATH,
            *FORMATS,
        ),
        (
            f"widetable audit {EXAMPLE}",
            f"widetable audit --from 120 --findings 3 {EXAMPLE}",
            f"widetable audit {EXAMPLE} --served shop.served",
        ),
        "Exit codes: 0 all laws hold; 1 there are findings; 2 the audit failed. With --served: 0 all values are equal; "
        "1 some differ, or snapshots that answered are gone; 2 the audit failed.",
    ),
    Command(
        "doctor",
        "mending",
        "List everything that is wrong with tables, and what to do.",
        (
            flag("--deep", "Read every file, instead of checking its size only."),
            argument("path", "The directory of a table, warehouse or database.", metavar="PATH"),
            *FORMATS,
        ),
        (
            f"widetable doctor {EXAMPLE}",
            f"widetable doctor --deep {EXAMPLE}",
            "widetable doctor /warehouse",
        ),
        "Exit codes: 0 nothing is wrong; 1 there are findings; 2 the check failed.",
    ),
    Command(
        "changes",
        "reports",
        "Print the changes of a range of snapshots, with their kind in the column _row_kind.",
        (
            PATH,
            argument(
                "start",
                "A snapshot id or tag (tag:NAME if the name is a number), exclusive; 0 is before the first snapshot.",
                metavar="START",
            ),
            argument("end", "A snapshot id or tag, inclusive.", metavar="END"),
            argument(
                "--mode",
                "auto: the changelog, or the appended records of a table without one. delta: always the appended "
                "records. changelog: always the changelog. diff: the rows in which START and END differ. barrier: "
                "START and END are barriers (default: %(default)s).",
                choices=("auto", "delta", "changelog", "diff", "barrier"),
                default="auto",
            ),
            flag("--commits", "Add _snapshot_id and _commit_time of each change."),
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
        "Compact a table, produce its changelog and expire snapshots: until SIGTERM, or once.",
        (
            PATH,
            flag(
                "--once",
                "Work until nothing is due, derived tables and their changelogs included, then end.",
            ),
            time(
                "--interval",
                "The time between two rounds (default: %(default)s).",
                default="1 s",
            ),
            time(
                "--full-compaction-interval",
                "Compact new data fully at this interval; by default only with "
                "changelog-producer=full-compaction, every minute.",
            ),
            on_or_off("--expire", "Expire old snapshots"),
            time(
                "--orphans-older-than",
                "Once a day, remove files that nothing names and that are older than this.",
            ),
            flag("--quiet", "Log only warnings and errors."),
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
        "Create a table that holds the join of two others, and keep it up to date.",
        (
            argument(
                "action",
                "add creates the table; run keeps it up to date, until SIGTERM or once.",
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
                "add: the columns to join on, separated by commas: left=right, or one name that both tables have.",
                metavar="COLUMNS",
            ),
            argument("--how", "add: inner (the default) or left.", choices=("inner", "left")),
            number("--max-matches", "add: the highest number of rows of a join key.", "NUMBER"),
            many("--set", "add: set an option of the table. May be repeated.", "KEY=VALUE"),
            flag("--once", "run: do one round, then end."),
            time("--interval", "run: the time between two rounds; by default 1 s."),
            flag("--quiet", "run: log only warnings and errors."),
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
        "Expire old snapshots, by the table's options or the options given here.",
        (
            PATH,
            number("--retain-min", "Keep at least this many snapshots.", "NUMBER"),
            number("--retain-max", "Keep at most this many snapshots.", "NUMBER"),
            time("--time-retained", "Keep a snapshot this long after the next one was committed."),
            flag(
                "--partitions",
                "Expire old partitions (partition.expiration-time), instead of snapshots.",
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
        "Change the number of buckets of a table, while others read and write it.",
        (
            PATH,
            number("buckets", "The number of buckets per partition.", "BUCKETS"),
            many(
                "--partition",
                "Rescale only this partition; repeat it for each partition column.",
                "COLUMN=VALUE",
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
                "Remove only files that were last written longer ago than this (default: %(default)s).",
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
        "Change options and columns of a table, in one step. It rewrites no data files.",
        (
            PATH,
            many("--set", "Set an option.", "KEY=VALUE"),
            many("--unset", "Set an option back to its default.", "KEY"),
            many("--add", "Add a column as the last one.", "'NAME TYPE'"),
            many("--drop", "Drop a column and its values.", "NAME"),
            many("--rename", "Rename a column; it keeps its values.", "OLD=NEW"),
            many("--type", "Change a column to a wider type.", "'NAME TYPE'"),
            many("--nullable", "Allow nulls in a column.", "NAME"),
            many("--not-null", "Forbid nulls in a column.", "NAME"),
            many(
                "--comment", "Set the comment of a column; an empty TEXT removes it.", "NAME=TEXT"
            ),
            many(
                "--move",
                "Move a column to PLACE: first, last, 'after NAME' or 'before NAME'.",
                "NAME=PLACE",
            ),
            *FORMATS,
        ),
        (
            f'widetable alter {EXAMPLE} --set write-only=true --set "target-file-size=64 mb"',
            f"widetable alter {EXAMPLE} --add 'country STRING' --move country='after city'",
        ),
        "Each option may be repeated. NAME may be a path to a field: v.f, v.element.f, v.value.f.",
    ),
)

_MEND: Final = (
    Command(
        "repair",
        "mending",
        "Remove damaged files from a table, keep the readable rows, and list what is lost.",
        (
            PATH,
            YES,
            DRY_RUN,
            on_or_off("--deep", "Read every live file to find the damaged ones"),
            *FORMATS,
        ),
        (f"widetable repair {EXAMPLE}", f"widetable repair --yes {EXAMPLE}"),
        "It changes nothing without --yes.",
    ),
    Command(
        "rollback",
        "mending",
        "Restore the rows of an older snapshot, in a new snapshot.",
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
        "It prints what the rollback undoes, and changes nothing without --yes.",
    ),
)

_PREPARE: Final = (
    Command(
        "completion",
        "completion_script",
        "Print a script that completes command lines in a shell.",
        (
            argument(
                "shell",
                "The shell: bash, zsh or fish.",
                metavar="SHELL",
                choices=("bash", "zsh", "fish"),
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
        "Compile all kernels into their cache, for example during an image build.",
        FORMATS,
        ("widetable warmup", "NUMBA_CACHE_DIR=/opt/kernels widetable warmup"),
        "Later processes with the same cache, package version and processor type compile nothing.\n"
        "Set NUMBA_CPU_NAME=generic, now and later, to compile for every processor.",
    ),
)

GROUPS: Final = {
    "create and fill a table": MAKE,
    "inspect a table": (*LOOK, *_LOOK),
    "maintain a table": (*KEEP, *_KEEP),
    "manage partitions, tags, branches and consumers": PAST,
    "repair a table": _MEND,
    "manage tables under barriers": (META_COMMAND,),
    "bring in a database": (CDC_COMMAND,),
    "prepare an installation": _PREPARE,
}
COMMANDS: Final = {command.name: command for group in GROUPS.values() for command in group}
