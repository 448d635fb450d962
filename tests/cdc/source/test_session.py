"""Sessions: their settings win, whatever the server, the role and the dsn say, and no secret is in an error."""

from __future__ import annotations

import datetime
import traceback

import psycopg
import pytest

from tests.cdc.source.conftest import Database
from widetable import InvalidError, StorageError, WidetableError
from widetable_cdc.source.server_address import address_text, without_secrets
from widetable_cdc.source.session import open_arrow_session, open_session, session

# One expression whose text depends on each setting.
_TEXTS = (
    "('2026-01-02 03:04:05+00'::timestamptz)::text, ('2026-01-02'::date)::text, "
    "(interval '1 day 2 hours')::text, (0.1::float8 + 0.2::float8)::text, ('\\x00ff'::bytea)::text"
)
_EXPECTED = ("2026-01-02 03:04:05+00", "2026-01-02", "P1DT2H", "0.30000000000000004", "\\x00ff")


@pytest.fixture
def hostile(database: Database) -> Database:
    """Its role and database ask for other texts."""
    for setting in (
        "timezone = 'Asia/Tokyo'",
        "datestyle = 'SQL, DMY'",
        "intervalstyle = postgres_verbose",
        "extra_float_digits = -5",
        "bytea_output = escape",
        "statement_timeout = '1s'",
        "client_encoding = LATIN1",
    ):
        database.execute(f"ALTER DATABASE {database.name} SET {setting}")
    return database


def test_texts_do_not_depend_on_the_settings_of_the_database(hostile: Database) -> None:
    with psycopg.connect(hostile.dsn) as plain:
        assert plain.execute(f"SELECT {_TEXTS}").fetchone() != _EXPECTED
    with session(hostile.dsn, "shop") as connection:
        assert connection.execute(f"SELECT {_TEXTS}").fetchone() == _EXPECTED
        assert connection.execute("SHOW statement_timeout").fetchone() == ("0",)
        assert connection.execute("SHOW datestyle").fetchone() == ("ISO, YMD",)
        assert connection.execute("SHOW client_encoding").fetchone() == ("UTF8",)


def test_arrow_sessions_have_the_same_settings(hostile: Database) -> None:
    connection = open_arrow_session(hostile.dsn, "shop")
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_TEXTS}")
        assert tuple(column[0].as_py() for column in cursor.table().columns) == _EXPECTED
        cursor.execute("SELECT '2026-01-02 03:04:05+09'::timestamptz AS at")
        moment = datetime.datetime(2026, 1, 1, 18, 4, 5, tzinfo=datetime.timezone.utc)
        assert cursor.table()["at"].to_pylist() == [moment]
    connection.close()


def test_options_of_the_dsn_stay_unless_texts_depend_on_them(database: Database) -> None:
    dsn = f"{database.dsn} options='-c work_mem=7MB -c timezone=Asia/Tokyo'"
    with session(dsn, "shop") as connection:
        assert connection.execute("SHOW work_mem").fetchone() == ("7MB",)
        assert connection.execute("SHOW timezone").fetchone() == ("UTC",)


def test_the_server_knows_the_job_by_its_name(database: Database) -> None:
    port = database.server.port
    with session(f"postgresql://postgres@127.0.0.1:{port}/{database.name}", "a b'c") as connection:
        assert connection.execute("SHOW application_name").fetchone() == ("widetable cdc/a b'c",)


def _texts_of(error: WidetableError) -> str:
    return "".join(traceback.format_exception(error)) + repr(error)


@pytest.mark.parametrize("opens", [open_session, open_arrow_session])
@pytest.mark.parametrize(
    "dsn",
    ["password=hush hush", "postgresql://etl:hu%sh@db/shop", "host=db passwort=hush", "hush"],
)
def test_a_dsn_that_cannot_be_read_is_not_repeated(opens: object, dsn: str) -> None:
    assert callable(opens)
    with pytest.raises(InvalidError) as raised:
        opens(dsn, "shop")
    assert "hu" not in _texts_of(raised.value)


@pytest.mark.parametrize("opens", [open_session, open_arrow_session])
def test_a_server_that_does_not_answer_is_a_storage_error(opens: object) -> None:
    assert callable(opens)
    secret = "hu" + "sh"
    with pytest.raises(StorageError, match=r"127\.0\.0\.1:1 as etl") as raised:
        opens(f"postgresql://etl:{secret}@127.0.0.1:1/shop", "shop")
    assert secret not in _texts_of(raised.value)


@pytest.mark.parametrize("opens", [open_session, open_arrow_session])
def test_a_database_that_is_not_there_is_the_users_to_correct(
    opens: object, database: Database
) -> None:
    assert callable(opens)
    with pytest.raises(InvalidError, match='database "nowhere" does not exist'):
        opens(database.server.dsn_of("nowhere"), "shop")


def test_secrets_are_taken_out_of_texts() -> None:
    dsn = "host=db user=etl password='hush hush' dbname=shop"
    assert without_secrets(f"{dsn}: hush hush was wrong", dsn) == "***: *** was wrong"
    assert address_text(dsn) == "database shop on db as etl"
