"""Google Cloud Storage's dialect, spoken by moto's S3 server: a translator of ours on loopback.

    x-goog-if-generation-match: 0       If-None-Match: *
    x-goog-if-generation-match: N       If-Match: the ETag of generation N
    x-goog-copy-source                  x-amz-copy-source
    ETag                                x-goog-generation, a number that stands for it

Requests with a condition go one at a time: moto looks and then writes, and between the two it may serve another.

It shows that what we ask of the client becomes requests that Google documents, and that answers to these are
understood; not what Google's server does. It needs no other server than S3's, and takes uploads in parts, which
`gcs_servers` do not.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from tests.object_stores.translator import Answered, Asked, ask, translator

# moto looks whether there is one.
_ANYBODY = (
    "AWS4-HMAC-SHA256 Credential=a/20260101/r/s3/aws4_request, SignedHeaders=host, Signature=0"
)


@contextlib.contextmanager
def gcs_stand_in(server_port: int) -> Iterator[int]:
    """The port, while it runs."""
    etag_of: dict[str, str] = {}
    one_at_a_time = threading.Lock()

    def translate(asked: Asked) -> Answered:
        headers = {**asked.headers, "authorization": _ANYBODY}
        generation = headers.pop("x-goog-if-generation-match", None)
        if generation == "0":
            headers["if-none-match"] = "*"
        elif generation is not None:
            headers["if-match"] = etag_of.get(generation, '"none"')
        source = headers.pop("x-goog-copy-source", None)
        if source is not None:
            headers["x-amz-copy-source"] = source.replace("%2F", "/")
        path, sign, query = asked.path.partition("?")
        path = path.replace("%2F", "/") + sign + query
        with contextlib.nullcontext() if generation is None else one_at_a_time:
            answer = ask(server_port, asked._replace(path=path, headers=headers))
        etag = answer.headers.get("etag")
        if etag is not None:
            number = str(int(etag.strip('"').partition("-")[0][:15], 16))
            etag_of[number] = etag
            answer.headers["x-goog-generation"] = number
        return answer

    with translator(translate) as port:
        yield port
