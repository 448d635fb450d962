"""Commands of tables and their rows: init, copy, ls, schema, write, read, tag, branch, consumer, compact.

Data only: `commands` says what becomes of it. A group's commands stand in the help in the order of this
file, then of that one.
"""

from __future__ import annotations

from typing import Final

from widetable.cli.command import (
    EXAMPLE,
    FORMATS,
    PATH,
    SOURCE,
    Command,
    argument,
    flag,
    many,
    moment,
    number,
    time,
)

MAKE: Final = (
    Command(
        "init",
        "tables",
        "Make a table.",
        (
            argument("path", "<warehouse>/<db>.db/<table>, a new directory.", metavar="PATH"),
            argument(
                "column",
                "Name and type, such as 'id BIGINT', in order.",
                metavar="COLUMN",
                nargs="+",
            ),
            argument(
                "--key", "Columns of the primary key, after commas.", metavar="NAMES", required=True
            ),
            argument("--partition", "Columns of the partition, after commas.", metavar="NAMES"),
            many("--set", "An option of the table. May be repeated.", "KEY=VALUE"),
            flag("--if-not-exists", "A table that is there stays as it is."),
            *FORMATS,
        ),
        (
            f"widetable init {EXAMPLE} 'id BIGINT' 'city STRING' --key id --set bucket=2",
            f"widetable init {EXAMPLE} 'id INT' 'day DATE' 'tags ARRAY<STRING>' --key day,id --partition day",
        ),
    ),
    Command(
        "write",
        "rows",
        "Write the rows of files in one commit: Parquet, CSV, or JSON lines.",
        (
            PATH,
            argument(
                "file",
                "Files or their file: URLs, of the table's columns or some of them; -: standard input.",
                metavar="FILE",
                nargs="+",
            ),
            argument(
                "--format",
                "Of the files; by default by their names.",
                choices=("json", "csv", "parquet"),
            ),
            flag(
                "--overwrite",
                "Replace the partitions that the rows have, or all rows of a table without.",
            ),
            argument(
                "--row-kind",
                "A column of +I, -U, +U, -D in the files; by default _row_kind where they have it.",
                metavar="NAME",
            ),
            argument(
                "--user", "With --identifier: a commit that comes again is in once.", metavar="NAME"
            ),
            number("--identifier", "Of the user's commits; they grow.", "NUMBER"),
            argument(
                "--json",
                "Say what was committed as one JSON object.",
                action="store_true",
                dest="is_json",
            ),
        ),
        (
            f"widetable write {EXAMPLE} new.parquet more.parquet",
            f"widetable write {EXAMPLE} - --format json",
        ),
        "JSON and CSV have values as widetable read prints them: dates and times as text, a TIMESTAMP_LTZ with its\n"
        "time zone, bytes as hex digits, a map as a list of [key, value]. In CSV an empty field without quotes is\n"
        "null. A column that is anywhere in the files is one of all rows: what a row lacks is null in it, which in a\n"
        "partial-update table leaves the value that is there. A row that lacks columns of a sequence group is\n"
        "refused where other rows have them.",
    ),
    Command(
        "delete",
        "rows",
        "Delete the rows that match a condition, in one commit.",
        (
            PATH,
            argument("condition", "In SQL.", metavar="CONDITION"),
            flag(
                "--rewrite",
                "Take the rows out of the data files, instead of writing -D records: it works with every merge engine, "
                "but readers of changes do not see it.",
            ),
            flag("--dry-run", "Only say how many would go."),
            *FORMATS,
        ),
        (f"widetable delete {EXAMPLE} \"city = 'Oslo'\" --dry-run",),
    ),
    Command(
        "copy",
        "tables",
        "Make a table of one snapshot of another: the same files, at another place.",
        (
            argument("source", "The table's directory or URL.", metavar="SOURCE"),
            argument(
                "target", "<warehouse>/<db>.db/<table>: a name that nothing has.", metavar="TARGET"
            ),
            number("--snapshot", "Of this snapshot; by default of the newest.", "ID"),
            argument("--tag", "Of this tag.", metavar="NAME"),
            moment("--timestamp", "Of this time"),
            *FORMATS,
        ),
        (
            f"widetable copy {EXAMPLE} /backup/shop.db/users",
            f"widetable copy {EXAMPLE} /warehouse/test.db/users --tag january",
        ),
        "The new table is there whole or not at all; in an object store also empty, right before it is whole. "
        "It has no other snapshots, tags, branches or consumers.",
    ),
)

LOOK: Final = (
    Command(
        "ls",
        "tables",
        "List the tables of a warehouse or database.",
        (argument("path", "A warehouse's directory, or a database's.", metavar="PATH"), *FORMATS),
        ("widetable ls /warehouse", "widetable ls --json /warehouse/shop.db"),
    ),
    Command(
        "schema",
        "tables",
        "Show the columns, keys and options of a table.",
        (PATH, *FORMATS),
        (f"widetable schema {EXAMPLE}",),
    ),
    Command(
        "read",
        "rows",
        "Write the rows of a snapshot, by default of the newest.",
        (
            PATH,
            argument("--filter", "A SQL condition.", metavar="CONDITION"),
            number("--limit", "So many rows at most.", "NUMBER"),
            number("--snapshot", "As of this snapshot.", "ID"),
            argument("--tag", "As of this tag.", metavar="NAME"),
            moment("--timestamp", "As of this time"),
            number("--barrier", "As of this barrier, of a table under barriers.", "MILLISECONDS"),
            *SOURCE,
        ),
        (
            f"widetable read {EXAMPLE} --columns id,city --limit 10",
            f"widetable read {EXAMPLE} --timestamp 2026-11-27T10:00",
            f"widetable read {EXAMPLE} --filter \"city = 'Oslo'\" --format parquet --output oslo.parquet",
        ),
    ),
)

PAST: Final = (
    Command(
        "partition",
        "partitions",
        "List the partitions of a table, let one go, or give it the rows of an older snapshot.",
        (
            argument(
                "action",
                "list, drop or restore.",
                metavar="ACTION",
                choices=("list", "drop", "restore"),
            ),
            PATH,
            many(
                "--partition",
                "drop, restore: which one, each of its columns once.",
                "COLUMN=VALUE",
            ),
            number("--snapshot", "restore: with the rows of this snapshot.", "ID"),
            argument("--tag", "restore: with the rows of this tag.", metavar="NAME"),
            moment("--timestamp", "restore: with the rows of this time"),
            flag("--dry-run", "drop, restore: only say what would change."),
            *FORMATS,
        ),
        (
            f"widetable partition list {EXAMPLE}",
            f"widetable partition restore {EXAMPLE} --partition day=2026-11-27 --tag good --dry-run",
        ),
        "Other partitions keep what was committed since.",
    ),
    Command(
        "tag",
        "past",
        "Keep a snapshot under a name, let it go, or list the tags.",
        (
            argument(
                "action",
                "list, create or delete.",
                metavar="ACTION",
                choices=("list", "create", "delete"),
            ),
            PATH,
            argument("name", "create, delete: of the tag.", metavar="NAME", nargs="?"),
            number("--snapshot", "create: which one; by default the newest.", "ID"),
            time("--time-retained", "create: after which expiry deletes the tag."),
            flag("--dry-run", "delete: only say what would go."),
            *FORMATS,
        ),
        (f"widetable tag create {EXAMPLE} january --snapshot 120", f"widetable tag list {EXAMPLE}"),
    ),
    Command(
        "branch",
        "branch",
        "Make, drop or list branches, or let the table go on as one.",
        (
            argument(
                "action",
                "list, create, drop or fast-forward.",
                metavar="ACTION",
                choices=("list", "create", "drop", "fast-forward"),
            ),
            PATH,
            argument("name", "With all but list: of the branch.", metavar="NAME", nargs="?"),
            argument(
                "--tag",
                "create: whose rows it begins with; without it the branch is empty.",
                metavar="NAME",
            ),
            flag("--replace", "fast-forward: drop what the branch does not have."),
            flag("--dry-run", "drop, fast-forward: only say what would come and go."),
            *FORMATS,
        ),
        (
            f"widetable branch create {EXAMPLE} fixes --tag january",
            f"widetable branch fast-forward {EXAMPLE} fixes --dry-run",
        ),
        notes="Other commands take the directory of a branch as PATH: PATH/branch/branch-NAME.",
    ),
    Command(
        "consumer",
        "past",
        "List the consumers of a table's changes, or forget one.",
        (
            argument("action", "list or delete.", metavar="ACTION", choices=("list", "delete")),
            PATH,
            argument("name", "delete: of the consumer.", metavar="NAME", nargs="?"),
            flag("--dry-run", "delete: only say what would go."),
            *FORMATS,
        ),
        (f"widetable consumer list {EXAMPLE}", f"widetable consumer delete {EXAMPLE} totals"),
    ),
)

KEEP: Final = (
    Command(
        "compact",
        "upkeep",
        "Merge sorted runs where that is due, and make the changelog.",
        (PATH, flag("--full", "Merge all runs of every bucket."), *FORMATS),
        (f"widetable compact {EXAMPLE}", f"widetable compact --full {EXAMPLE}"),
    ),
)
