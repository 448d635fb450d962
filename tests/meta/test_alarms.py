"""What stands on top of the page of a service."""

from __future__ import annotations

from widetable import NotedRevision, TableProgress, WaitedWriter
from widetable_meta.alarms import Alarm, alarms_of

MINUTE = 60_000


def table(*writers: WaitedWriter) -> TableProgress:
    return TableProgress("db.x", 0, "Root", 10_000, 10_000, 10_000, 99 * MINUTE, writers)


def writer(name: str, silent_millis: int | None) -> WaitedWriter:
    return WaitedWriter(name, "root", 10_000, silent_millis is None, True, silent_millis)


def alarms(*tables: TableProgress) -> list[Alarm]:
    return alarms_of("/shop", tables, (), True)


def test_a_writer_that_is_not_heard_of_for_long_is_one_with_the_command_that_helps() -> None:
    assert alarms(table(writer("a", None), writer("b c", 15 * MINUTE))) == [
        Alarm(
            "db.x waits for b c, last seen 15 min ago",
            "Start it again, or, if it does not come back:",
            "widetable meta leave /shop db.x 'b c'",
        )
    ]


def test_a_restart_is_none() -> None:
    assert alarms(table(writer("a", 10 * MINUTE))) == []


def test_a_table_that_is_only_behind_is_none() -> None:
    assert alarms(table(writer("a", None))) == []


def test_a_revision_that_was_broken_off_is_one() -> None:
    def revision(number: int, to: int | None, is_active: bool) -> NotedRevision:
        return NotedRevision(number, "db.x", to, ("db.x",), is_active)

    found = alarms_of("/shop", (), [revision(1, 10_000, True), revision(2, 20_000, False)], True)
    assert [one.found for one in found] == ["Revision 2 of db.x has not ended"]
    assert found[0].command == "widetable meta revise /shop db.x --to 20000"
    (whole,) = alarms_of("/shop", (), [revision(3, None, False)], True)
    assert whole.command == "widetable meta revise /shop db.x --full"


def test_a_service_that_nobody_leads_is_one() -> None:
    (found,) = alarms_of("/shop", (), (), False)
    assert found.found.startswith("No instance leads")
    assert found.command == ""
