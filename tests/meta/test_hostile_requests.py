"""Requests that nobody means: each is answered by an error of the one form, none is a fault, and it goes on."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import requests

from tests.meta.service_process import Service, serving
from tests.support.faults.patience import PATIENCE_SECONDS
from tests.support.models.hostile_values import TEXTS
from tests.widetable.cli.test_meta import fill
from widetable_meta.request_body import MAX_BYTES

USUAL: dict[str, dict[str, Any]] = {
    "/v1/jobs": {"job": "new", "sources": ["db.x"], "sinks": {"db.y": ["v"]}},
    "/v1/sessions": {"tables": ["db.x"], "consistency": "RepeatableRead", "as_of": 10},
    "/v1/revisions": {"table": "db.y", "to": 10, "dry_run": True},
    "/v1/writers/leave": {"table": "db.x", "writer": "nobody", "dry_run": True},
}
WRONG: tuple[Any, ...] = (
    None,
    True,
    1.5,
    -1,
    2**70,
    [],
    {},
    [[]],
    {"a": {"b": 1}},
    ["x"] * 2000,
    "x" * 2000,
)
BROKEN = (
    b"",
    b"{",
    b"[]",
    b'"a"',
    b"null",
    b"\xff\xfe",
    b"NaN",
    b"[" * 100_000,
    b'{"to":' + b"9" * 10_000 + b"}",
    b'{"tables": NaN}',
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(fill(tmp_path_factory.mktemp("warehouse"))) as (one,):
        yield one
        assert one.got("/v1/health")["status"] == "ok"
        assert {job["name"] for job in one.got("/v1/jobs")} == {"clicks", "q"}


def refused(answer: requests.Response, said: object) -> None:
    """It is a 4xx in the one form."""
    assert 400 <= answer.status_code < 500, (said, answer.text[:300])
    body = answer.json()
    assert set(body) == {"kind", "message", "subject", "found", "expected", "action", "code"}, said
    assert "Traceback" not in answer.text
    assert len(answer.content) < 20_000


def post(service: Service, path: str, data: bytes, kind: str = "application/json") -> Any:
    headers = {"Content-Type": kind}
    return requests.post(service.url + path, data=data, headers=headers, timeout=PATIENCE_SECONDS)


def test_hostile_texts_in_bodies_are_refused(service: Service) -> None:
    for path, usual in USUAL.items():
        for name, value in usual.items():
            if not isinstance(value, str | list | dict):
                continue
            for text in TEXTS:
                given: Any = text
                if isinstance(value, list):
                    given = [text]
                elif isinstance(value, dict):
                    given = {text: ["v"]}
                if (path, name) == ("/v1/jobs", "job"):
                    body = {**usual, name: given, "sinks": {"db.none": None}}
                else:
                    body = {**usual, name: given}
                refused(post(service, path, json.dumps(body).encode()), (path, name, ascii(text)))


def test_values_of_other_types_are_refused(service: Service) -> None:
    for path, usual in USUAL.items():
        for name in (*usual, "unknown"):
            for value in WRONG:
                is_meant = value is None and name in ("as_of", "to", "tables")
                if is_meant or (name, value) in (("dry_run", True), ("sources", [])):
                    continue
                body = json.dumps({**usual, name: value}).encode()
                refused(post(service, path, body), (path, name, str(value)[:50]))


def test_bodies_that_are_no_json_are_refused(service: Service) -> None:
    for path in USUAL:
        for body in BROKEN:
            refused(post(service, path, body), (path, body[:20]))
        sent = json.dumps(USUAL[path]).encode()
        refused(post(service, path, sent, "text/plain"), path)  # a form of a page elsewhere


def test_a_body_that_is_too_long_is_refused(service: Service) -> None:
    answer = post(service, "/v1/sessions", b" " * (MAX_BYTES + 1))
    assert answer.status_code == 413
    refused(answer, "too long")
    chunked = requests.post(
        f"{service.url}/v1/sessions",
        data=(b" " * 100_000 for _ in range(12)),
        headers={"Content-Type": "application/json"},
        timeout=PATIENCE_SECONDS,
    )
    assert chunked.status_code == 413


PATHS = (
    ("GET", "/v1/tables/{}/barriers"),
    ("POST", "/v1/jobs/{}/running"),
    ("POST", "/v1/jobs/{}/renew"),
    ("DELETE", "/v1/jobs/{}"),
    ("PUT", "/v1/sessions/{}"),
    ("DELETE", "/v1/sessions/{}"),
    ("GET", "/v1/revisions/{}"),
    ("GET", "/v1/delays?barrier={}"),
    ("GET", "/v1/delays?limit={}"),
    ("GET", "/v1/tables/db.x/barriers?limit={}"),
    ("DELETE", "/v1/jobs/nobody?force={}"),
    ("GET", "/{}"),
    ("PATCH", "/v1/jobs/{}"),
)
ESCAPED = ("%00", "%2e%2e", "..%2f..%2fetc", "%ed%a0%80", "%ff", "9" * 30, "%", "%zz", "x" * 8000)


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_hostile_paths_are_refused(service: Service, method: str, path: str) -> None:
    texts = [text.encode("utf-8", "surrogatepass") for text in TEXTS]
    for text in (*map(quote, texts), *ESCAPED):
        if (path.endswith("limit={}") and text in ("", "1")) or (
            path == "/{}" and text in ("", ".", "..", "%2e%2e")
        ):
            continue
        answer = requests.request(
            method, service.url + path.format(text.replace("/", "%2F")), timeout=PATIENCE_SECONDS
        )
        refused(answer, (method, path, text[:50]))


@pytest.mark.parametrize(
    "line",
    [
        b"GET http://[::1]:1/v1/jobs HTTP/1.1",
        b"POST @127.0.0.1:1/v1/jobs HTTP/1.1",
        b"POST //127.0.0.1:1/v1/jobs HTTP/1.1",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1",
        b"NONSENSE",
        b"\x16\x03\x01\x00\xff",
    ],
)
def test_what_is_hardly_http_is_refused(service: Service, line: bytes) -> None:
    parts = urlsplit(service.url)
    assert parts.port is not None
    with socket.create_connection((parts.hostname, parts.port), PATIENCE_SECONDS) as connection:
        connection.sendall(
            line + b"\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
        )
        found = b""
        while part := connection.recv(65_536):
            found += part
    assert found.startswith(b"HTTP/1.1 4"), found[:200]
    assert b"Traceback" not in found
