"""Google Cloud Storage's dialect, spoken by moto's S3 server: a translator of ours on loopback.

    x-goog-if-generation-match: 0       If-None-Match: *
    x-goog-if-generation-match: N       If-Match: the ETag of generation N
    x-goog-copy-source                  x-amz-copy-source
    ETag                                x-goog-generation, a number that stands for it

It shows that what we ask of the client becomes requests that Google documents, and that answers to these are
understood; not what Google's server does. No emulator that was found takes these requests.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class GcsStandIn(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, server_port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server_port_behind = server_port
        self.etag_of: dict[str, str] = {}
        self.heard: list[tuple[str, dict[str, str]]] = []


@contextlib.contextmanager
def gcs_stand_in(server_port: int) -> Iterator[GcsStandIn]:
    server = GcsStandIn(server_port)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def key_file(folder: Path, port: int) -> Path:
    """Of a service account that asks for no tokens."""
    path = folder / "account.json"
    account = {"gcs_base_url": f"http://127.0.0.1:{port}", "disable_oauth": True}
    names = ("client_email", "private_key", "private_key_id")
    path.write_text(json.dumps({**account, **dict.fromkeys(names, "")}))
    return path


# moto looks whether there is one.
_ANYBODY = (
    "AWS4-HMAC-SHA256 Credential=a/20260101/r/s3/aws4_request, SignedHeaders=host, Signature=0"
)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # a body is sent behind its head: it would wait 40 ms for an answer
    )
    server: GcsStandIn

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = {name.lower(): value for name, value in self.headers.items()}
        self.server.heard.append((self.command, asked))
        generation = asked.pop("x-goog-if-generation-match", None)
        if generation is not None:
            name, value = ("If-None-Match", "*")
            if generation != "0":
                name, value = ("If-Match", self.server.etag_of.get(generation, '"none"'))
            asked[name] = value
        source = asked.pop("x-goog-copy-source", None)
        if source is not None:
            asked["x-amz-copy-source"] = source.replace("%2F", "/")
        asked["authorization"] = _ANYBODY
        path, sign, query = self.path.partition("?")
        behind = HTTPConnection("127.0.0.1", self.server.server_port_behind)
        behind.request(self.command, path.replace("%2F", "/") + sign + query, body, asked)
        answer = behind.getresponse()
        data = answer.read()
        behind.close()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "date", "server"):
                self.send_header(name, value)
        etag = answer.getheader("ETag")
        if etag is not None:
            number = str(int(etag.strip('"').partition("-")[0][:15], 16))
            self.server.etag_of[number] = etag
            self.send_header("x-goog-generation", number)
        if answer.getheader("Content-Length") is None:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _serve
