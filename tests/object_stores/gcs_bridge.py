"""In front of an emulator of Google's store: what obstore asks in XML and the emulator takes only in Google's JSON.

Who has a key, and of which generation it is, the emulator says; nothing is kept or decided here.

    GET, HEAD of an object      as they are; ETag and Last-Modified (the time of the look) where there are none; a range
                                that begins before the object is said to begin with it
    PUT of an object            as it is with `takes_xml_puts`, else uploadType=media, and x-goog-if-generation-match as
                                ifGenerationMatch; ETag and generation of the answer are read from the object
    PUT, x-goog-copy-source     copyTo
    DELETE, list-type=2         the same in JSON
    uploads in parts            501: no emulator has them
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode
from xml.sax.saxutils import escape

from tests.object_stores.translator import Answered, Asked, ask, translator

_OF_A_LIST = {
    "prefix": "prefix",
    "delimiter": "delimiter",
    "max-keys": "maxResults",
    "continuation-token": "pageToken",
}


@contextlib.contextmanager
def gcs_bridge(server_port: int, *, takes_xml_puts: bool) -> Iterator[int]:
    """The port, while it runs."""
    with translator(GcsBridge(server_port, takes_xml_puts).translate) as port:
        yield port


class GcsBridge:
    def __init__(self, server_port: int, takes_xml_puts: bool) -> None:
        self._port = server_port
        self._takes_xml_puts = takes_xml_puts

    def translate(self, asked: Asked) -> Answered:
        path, _, query = asked.path.partition("?")
        bucket, _, key = path.lstrip("/").partition("/")
        fields = {name: values[0] for name, values in parse_qs(query, True).items()}
        if {"uploads", "uploadId"} & {*fields}:
            return Answered(501, {})
        if not key:
            return self._list(bucket, fields)
        if asked.method == "DELETE":
            gone = self._ask("DELETE", _place(bucket, key))
            return gone if gone.status != 200 else Answered(204, {})
        if asked.method == "PUT":
            return self._put(asked, bucket, key)
        found = ask(self._port, asked)
        generation = found.headers.get("x-goog-generation")
        more = {"etag": f'"{generation}"', "last-modified": formatdate(usegmt=True)}
        headers = {**more, **found.headers}
        if "content-range" in headers:
            headers["content-range"] = _BEFORE_ALL.sub("bytes 0-", headers["content-range"])
        return found._replace(headers=headers)

    def _put(self, asked: Asked, bucket: str, key: str) -> Answered:
        source = asked.headers.get("x-goog-copy-source")
        if source is not None:
            source_bucket, _, source_key = unquote(source).lstrip("/").partition("/")
            target = _place(source_bucket, quote(source_key)) + "/copyTo" + _place(bucket, key)[11:]
            answer = self._ask("POST", target)
        elif self._takes_xml_puts:
            answer = ask(self._port, asked)
        else:
            fields = {"uploadType": "media", "name": unquote(key)}
            if "x-goog-if-generation-match" in asked.headers:
                fields["ifGenerationMatch"] = asked.headers["x-goog-if-generation-match"]
            upload = f"/upload/storage/v1/b/{bucket}/o?{urlencode(fields)}"
            answer = self._ask("POST", upload, asked.body)
        if answer.status != 200:
            return answer
        told = json.loads(answer.body or self._ask("GET", _place(bucket, key)).body)
        generation = str(told.get("generation", ""))  # none: somebody has deleted it since
        headers = {"etag": f'"{generation}"', "x-goog-generation": generation}
        return Answered(200, headers, _COPIED if source is not None else b"")

    def _list(self, bucket: str, fields: dict[str, str]) -> Answered:
        chosen = {_OF_A_LIST[name]: fields[name] for name in fields if name in _OF_A_LIST}
        answer = self._ask("GET", f"/storage/v1/b/{bucket}/o?{urlencode(chosen)}")
        if answer.status != 200:
            return answer
        found: dict[str, Any] = json.loads(answer.body)
        parts = [
            f"<Contents><Key>{escape(one['name'])}</Key><LastModified>{one['updated']}</LastModified>"
            f'<ETag>"{one["generation"]}"</ETag><Size>{one.get("size", 0)}</Size></Contents>'
            for one in found.get("items", ())
        ]
        for prefix in found.get("prefixes", ()):
            parts.append(f"<CommonPrefixes><Prefix>{escape(prefix)}</Prefix></CommonPrefixes>")
        token = found.get("nextPageToken")
        if token:
            parts.append(f"<NextContinuationToken>{escape(token)}</NextContinuationToken>")
        body = f"<ListBucketResult>{''.join(parts)}</ListBucketResult>"
        return Answered(200, {"content-type": "application/xml"}, body.encode())

    def _ask(self, method: str, path: str, body: bytes = b"") -> Answered:
        return ask(self._port, Asked(method, path, {}, body))


_COPIED = b"<CopyObjectResult/>"
_BEFORE_ALL = re.compile(r"bytes -\d+-(?=\d)")


def _place(bucket: str, key: str) -> str:
    """In JSON's paths. key: as it stands in XML's."""
    return f"/storage/v1/b/{bucket}/o/{quote(unquote(key), safe='')}"
