"""Options of object stores: by whom they are known, who gets them, and that no value of them is ever told."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st

import widetable as wt
from tests.object_stores.conftest import ROOT
from tests.object_stores.faulty_proxy import Fault, FaultyProxy
from tests.object_stores.s3_server import environment
from widetable.cli.app import main
from widetable.connector import JoinArguments
from widetable.derive.lookups.joined_tables import new_lookup_join
from widetable.storage.local import LocalFileIO
from widetable.storage.remote.storage_options import (
    FILE_VARIABLE,
    KNOWN,
    checked_storage_options,
    split_storage_options,
)

SECRET = "secret+of/nobody=else"
COLUMNS = {"k": "BIGINT", "v": "INT"}


@pytest.fixture
def given(proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """All that is needed, while the environment says nothing that helps."""
    for name in environment(0):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-of-another-key")
    return {
        "s3.endpoint": f"http://127.0.0.1:{proxy.server_port}",
        "s3.access-key": "key-of-nobody",
        "s3.secret-key": SECRET,
        "s3.region": "eu-west-1",
        "s3.path.style.access": "true",
    }


def test_a_catalog_and_its_tables_take_options(
    given: dict[str, str], proxy: FaultyProxy, place: str
) -> None:
    catalog = wt.Catalog(place, storage_options=given)
    table = catalog.create_table("db.t", COLUMNS, primary_key=["k"])
    table.write({"k": [1], "v": [2]})
    assert catalog.list_tables() == ["db.t"]
    assert wt.Table.open(table.path, storage_options=given).lookup([1]).to_pylist() == [
        {"k": 1, "v": 2}
    ]
    assert pickle.loads(pickle.dumps(catalog)).table("db.t").scan().count() == 1
    assert pickle.loads(pickle.dumps(table)).scan().count() == 1
    heads = [each.headers for each in proxy.heard]
    assert all("Credential=key-of-nobody/" in one["authorization"] for one in heads)
    assert all("/eu-west-1/s3/" in one["authorization"] for one in heads)
    assert not any("x-amz-security-token" in one for one in heads)


def test_a_file_that_the_environment_names_stands_for_options(
    given: dict[str, str],
    place: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Such as for the command line, whose arguments all users of a machine see."""
    file = tmp_path / "options.json"
    file.write_text(json.dumps(given))
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    wt.Catalog(place).create_table("db.t", COLUMNS, primary_key=["k"])
    assert main(["ls", place]) == 0
    assert capsys.readouterr().out == "db.t\n"
    file.write_text(f'{{"s3.secret-key": {SECRET}')
    assert main(["ls", place]) != 0
    told = capsys.readouterr().err
    assert FILE_VARIABLE in told
    assert SECRET not in told


def test_tables_that_a_join_opens_in_the_same_bucket_are_asked_by_its_options(
    given: dict[str, str], place: str
) -> None:
    catalog = wt.Catalog(place, storage_options=given)
    dim = catalog.create_table("db.dim", COLUMNS, primary_key=["k"])
    dim.write({"k": [1], "v": [7]})
    left = pa.schema([("id", pa.int64()), ("k", pa.int64())])
    arguments = JoinArguments(
        on=["k"], columns=["v"], retry_batches=1, pending=f"{place}/late", pending_key="id"
    )
    join = pickle.loads(pickle.dumps(new_lookup_join(left, dim, arguments)))
    assert join.late is not None
    assert join.late.table.schema.primary_keys[1] == "id"
    assert wt.Table.open(f"{place}/late", storage_options=given).scan().count() == 0


def secrets_in(text: str) -> list[str]:
    return [each for each in (SECRET, "key-of-nobody", "token-of-another-key") if each in text]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Error><Code>Slow</Code><StringToSign>%s</StringToSign></Error>",
        b"<Error><Code>Slow</Code><Message>%s</Message></Error>",
        b'{"error": "%s"}',
    ],
)
def test_no_value_is_in_what_is_written_or_said(
    given: dict[str, str],
    proxy: FaultyProxy,
    place: str,
    body: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    catalog = wt.Catalog(place, storage_options=given)
    table = catalog.create_table("db.t", COLUMNS, primary_key=["k"], options={"bucket": "1"})
    table.write({"k": [1], "v": [2]})
    told = [repr(catalog), repr(vars(catalog)), repr(table), repr(vars(table)), table._repr_html_()]
    told += [str(table.inspect()), str(table.explain(1)), str(table.doctor()), str(table.audit())]
    proxy.refusal = (403, body.replace(b"%s", f"{SECRET} key-of-nobody".encode()))
    proxy.plan = lambda method, path: Fault.REFUSED
    for call in (
        table.scan,
        lambda: table.write({"k": [1], "v": [2]}),
        lambda: catalog.table("db.u"),
    ):
        with pytest.raises(wt.StorageError) as refused:
            call()
        told += ["".join(traceback.format_exception(refused.value)), repr(refused.value)]
        told.append(repr(pickle.loads(pickle.dumps(refused.value))))
    told.append(caplog.text)
    assert secrets_in("".join(told)) == []
    written = b"".join(each.body for each in proxy.heard)
    assert b"PAR1" in written
    assert secrets_in(written.decode(errors="replace")) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"s3.acces-key": SECRET}, "'s3.access-key'"),
        ({"S3.ENDPIONT": SECRET}, "'s3.endpoint'"),
        ({"aws_access_key_id": SECRET}, "no store"),
        ({"s3.access-key": SECRET}, "s3.secret-key"),
        ({"s3.session.token": SECRET}, "s3.access-key"),
        ({"s3.path.style.access": SECRET}, "true, false"),
        ({"s3.endpoint": f"https://me:{SECRET}@store"}, "without credentials"),
        ({"s3.endpoint": 7}, "of type int"),
        ({"s3.access-key": b"x"}, "of type bytes"),
        ({"s3.secret-key": ""}, "empty"),
        ({7: SECRET}, "of type int"),
        ([("s3.secret-key", SECRET)], "of type list"),
        (SECRET, "of type str"),
        ({"s3.region": "a", "fs.s3a.region": SECRET}, "'s3.region'"),
    ],
)
def test_options_that_are_wrong_are_named_and_their_values_are_not(options: Any, said: str) -> None:
    for call in (
        lambda: wt.Catalog(ROOT, storage_options=options),
        lambda: wt.Table.open("/t", storage_options=options),
    ):
        with pytest.raises(wt.InvalidError, match="storage_options") as refused:
            call()
        assert said in str(refused.value)
        assert SECRET not in str(refused.value)


def test_credentials_in_a_url_are_refused_and_not_said() -> None:
    for url in (f"s3://key:{SECRET}@bucket/wh", "abfss://key:secret@account.dfs.core.windows.net"):
        with pytest.raises(wt.InvalidError, match="no credentials") as refused:
            wt.Catalog(url)
        assert "key" not in str(refused.value)


def test_spellings_of_hadoop_and_paimon_are_the_same() -> None:
    ours = checked_storage_options(
        {"s3.access-key": "a", "fs.s3a.secret.key": "b", "s3a.path-style-access": "true"}
    )
    assert ours is not None
    assert ours.of_store("s3") == {
        "access-key": "a",
        "secret-key": "b",
        "path.style.access": "true",
    }
    azure = checked_storage_options(
        {
            "fs.azure.account.key": "all",
            "fs.azure.account.key.Mine.blob.core.windows.net": "mine",
            "azure.account.key.other.dfs.core.windows.net": "other",
        }
    )
    assert azure is not None
    assert azure.of_store("azure", "mine") == {"account.key": "mine"}
    assert azure.of_store("azure", "third") == {"account.key": "all"}


@pytest.mark.parametrize(
    ("named", "unnamed"),
    [
        ("azure.account.key.acc", "fs.azure.account.key"),
        ("azure.account.key.acc", "azure.account.key"),
        ("fs.wasb.account.key.acc.blob.core.windows.net", "azure.account.key"),
        ("azure.sas.fixed.token.ACC", "fs.azure.sas-fixed-token"),
    ],
)
def test_what_names_an_account_goes_before_what_names_none(named: str, unnamed: str) -> None:
    for keys in ((named, unnamed), (unnamed, named)):
        options = checked_storage_options({key: f"of {key}" for key in keys})
        assert options is not None
        assert [*options.of_store("azure", "acc").values()] == [f"of {named}"]
        assert [*options.of_store("azure", "another").values()] == [f"of {unnamed}"]


@drawn(st.dictionaries(st.sampled_from(KNOWN) | st.text(), st.text(min_size=1)))
def test_what_an_engine_was_given_is_split_without_loss(options: dict[str, str]) -> None:
    ours, others = split_storage_options(options)
    assert {*ours} >= {key for key in options if key in KNOWN}
    assert not {*others} & {*KNOWN}
    assert {**ours, **others} == options
    assert len(ours) + len(others) == len(options)


def test_what_an_engine_was_given_is_split_whatever_its_case() -> None:
    options = {"S3.Access-Key": "a", "path": "/t", "s3.unknown": "b", "fs.gs.auth.type": "c"}
    ours, others = split_storage_options(options)
    assert others == {"path": "/t"}
    assert ours == {key: options[key] for key in options if key != "path"}


def test_what_an_engine_was_given_twice_in_two_cases_is_one_value_or_refused() -> None:
    same, _ = split_storage_options({"S3.Region": "a", "s3.region": "a"})
    options = checked_storage_options(same)
    assert options is not None
    assert options.of_store("s3") == {"region": "a"}
    contradiction, _ = split_storage_options({"S3.Region": "a", "s3.region": "b"})
    with pytest.raises(wt.InvalidError, match=r"a value that differs from that of 'S3.Region'"):
        checked_storage_options(contradiction)


def test_a_storage_and_options_are_not_given_both(tmp_path: Path) -> None:
    with pytest.raises(wt.InvalidError, match="storage_options"):
        wt.Catalog(tmp_path, file_io=LocalFileIO(), storage_options={})


def test_a_shared_access_signature_is_in_no_error(
    proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands in the URL that is asked, which the client tells."""
    options = {
        "fs.azure.sas.fixed.token": "?sv=2021-08-06&sp=rw&sig=secret%2bsignature%3d",
        "azure.endpoint": f"http://127.0.0.1:{proxy.server_port}/account",
    }
    proxy.refusal = (403, b"<Error><Code>AuthenticationFailed</Code></Error>")
    proxy.plan = lambda method, path: Fault.REFUSED
    catalog = wt.Catalog(
        "abfss://container@account.dfs.core.windows.net/wh", storage_options=options
    )
    with pytest.raises(wt.StorageError, match="AuthenticationFailed") as refused:
        catalog.create_table("db.t", COLUMNS, primary_key=["k"])
    assert any("sig=secret" in each.path for each in proxy.heard)
    told = "".join(traceback.format_exception(refused.value))
    assert "sig=" not in told
    assert "sp=rw" not in told


def test_a_user_in_the_endpoint_of_the_environment_is_in_no_error(
    proxy: FaultyProxy, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As options it is refused."""
    monkeypatch.setenv("AWS_ENDPOINT", f"http://user:hidden@127.0.0.1:{proxy.server_port}")
    proxy.refusal = (403, b"<Error><Code>AccessDenied</Code></Error>")
    proxy.plan = lambda method, path: Fault.REFUSED
    with pytest.raises(wt.StorageError, match="AccessDenied") as refused:
        wt.Catalog(place).list_tables()
    told = "".join(traceback.format_exception(refused.value))
    assert f"//127.0.0.1:{proxy.server_port}" in told
    assert "hidden@" not in told


@pytest.mark.parametrize(
    "secret", ["plain-secret-1", "with/slash+plus=secret", "<b>&secret", "%2b%2Fsecret"]
)
def test_a_secret_is_masked_however_a_store_writes_it(
    proxy: FaultyProxy, place: str, secret: str
) -> None:
    """As it is, as XML and HTML write it, and as URLs do."""
    written = [
        secret,
        escape(secret),
        escape(secret, quote=False),
        quote(secret),
        quote(secret, safe=""),
    ]
    written += [each.lower() for each in written]
    for form in written:
        said = f"<Error><Code>No</Code><Message>key {form} is not known</Message></Error>"
        proxy.refusal = (403, said.encode())
        proxy.plan = lambda method, path: Fault.REFUSED
        options = {
            "s3.endpoint": f"http://127.0.0.1:{proxy.server_port}",
            "s3.access-key": "somebody",
            "s3.secret-key": secret,
        }
        with pytest.raises(wt.StorageError) as refused:
            wt.Table.open(f"{place}/t", storage_options=options)
        told = "".join(traceback.format_exception(refused.value))
        assert "is not known" in told or "<b>" in secret
        assert form not in told
