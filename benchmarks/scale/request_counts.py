"""Requests to an object store that operations make, counted at the tests' server on loopback, behind their proxy.

Latency cannot be measured there; what is counted is what is billed, and how many come one after the other.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import widetable as wt
from benchmarks.scale.costs import RequestCosts, Requests
from benchmarks.scale.trial import TrialResult, TrialShape, batches, create, write
from tests.object_stores.faulty_proxy import Fault, FaultyProxy, Heard, faulty_proxy
from tests.object_stores.s3_server import BUCKET, environment, s3_server
from widetable.storage.remote import store_client
from widetable.storage.remote.object_store import ObjectStoreFileIO

_SNAPSHOT: Final = re.compile(r"/snapshot/snapshot-\d+$")
_STEADY_ROUNDS: Final = 2


@dataclass(frozen=True)
class RequestRound:
    """The requests of some commits, of the compaction behind them, and of the expiry of all but the newest snapshot."""

    appends: Requests
    compaction: Requests
    expiry: Requests
    expired_snapshots: int
    expired_files: int


class CountingProxy:
    """In front of the server. before: called ahead of each request with its method and path."""

    def __init__(self, proxy: FaultyProxy) -> None:
        self._proxy = proxy

    def counted(self, call: Callable[[], object]) -> Requests:
        """The requests that the call makes."""
        begun = len(self._proxy.heard)
        call()
        return _sum(self._proxy.heard[begun:])

    def deleted(self, call: Callable[[], object]) -> tuple[Requests, int]:
        """The same, and how many data files and changelog files it deleted, which the bodies name."""
        begun = len(self._proxy.heard)
        asked = self.counted(call)
        deletes = [each for each in self._proxy.heard[begun:] if each.method == "POST"]
        return asked, sum(each.body.count(b"/bucket-") for each in deletes)

    def before(self, hook: Callable[[str, str], None] | None) -> None:
        def plan(method: str, path: str) -> Fault | None:
            if hook is not None:
                hook(method, path)
            return None

        self._proxy.plan = plan


@contextmanager
def counting_store() -> Iterator[CountingProxy]:
    """An S3 server, while the block runs; `s3://bucket` is there, and clients are new."""
    with s3_server() as port, faulty_proxy(port) as proxy, _environment(proxy.server_port):
        yield CountingProxy(proxy)


@contextmanager
def _environment(port: int) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(environment(port))
    store_client._CLIENTS.clear()
    store_client._USERS.clear()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        store_client._CLIENTS.clear()
        store_client._USERS.clear()


def request_round(counter: CountingProxy, name: str, shape: TrialShape, seed: int) -> RequestRound:
    """Of one round of the trial's commits, behind a round of others: what a process asks once is left out."""
    table, result = create(f"s3://{BUCKET}/{name}", shape, seed), TrialResult()
    commits = shape.round_commits
    rows = list(batches(replace(shape, commits=commits * (_STEADY_ROUNDS + 1)), seed))

    def some(first: int) -> None:
        for number in range(first, first + commits):
            write(table, rows[number], number, result)

    for number in range(_STEADY_ROUNDS):
        some(number * commits)
        table.compact()
        table.expire_snapshots(1, 1, 0)
    appends = counter.counted(lambda: some(_STEADY_ROUNDS * commits))
    compaction = counter.counted(table.compact)
    gone: list[wt.ExpiryResult] = []

    def expire() -> None:
        gone.append(table.expire_snapshots(1, 1, 0))

    expiry, files = counter.deleted(expire)
    return RequestRound(appends, compaction, expiry, len(gone[0].ids), files)


class _WithoutQueue(ObjectStoreFileIO):
    """Commits of other machines, which take no turns with this one's."""

    def turn(self, path: str) -> contextlib.AbstractContextManager[bool]:
        return contextlib.nullcontext(False)


def serial_requests(counter: CountingProxy, name: str, seed: int) -> float:
    """What an append asks more when it loses one race: its second attempt, one request after the other."""
    shape = TrialShape(keys=200, buckets=1, rows=100, commits=8, round_commits=1)
    url = create(f"s3://{BUCKET}/{name}", shape, seed).path
    mine, other = (wt.Table.open(url, file_io=_WithoutQueue(f"s3://{BUCKET}")) for _ in range(2))
    rows, result = list(batches(shape, seed)), TrialResult()
    for number, table in enumerate((mine, other, mine, other)):
        write(table, rows[number], number, result)
    alone = counter.counted(lambda: write(mine, rows[4], 4, result))
    of_other: list[Requests] = []

    def overtake(method: str, path: str) -> None:
        if method == "PUT" and _SNAPSHOT.search(path.partition("?")[0]) and not of_other:
            of_other.append(Requests())  # once, and not for its own put
            of_other[0] = counter.counted(lambda: write(other, rows[5], 5, result))

    counter.before(overtake)
    both = counter.counted(lambda: write(mine, rows[6], 6, result))
    counter.before(None)
    return both.total - of_other[0].total - alone.total


def measured_requests(seed: int) -> RequestCosts:
    """By differences of rounds: with one bucket and more, with one commit and more."""
    with tempfile.TemporaryDirectory() as turns, counting_store() as counter:
        tempfile.tempdir, before = turns, tempfile.tempdir
        try:
            one = request_round(counter, "one", TrialShape(400, 1, 200, 1, 1), seed)
            wide = request_round(counter, "wide", TrialShape(1200, 6, 600, 1, 1), seed)
            long = request_round(counter, "long", TrialShape(400, 1, 200, 5, 5), seed)
            serial = serial_requests(counter, "raced", seed)
        finally:
            tempfile.tempdir = before
    append_file = _difference(wide.appends, one.appends, 5)
    bucket = _difference(wide.compaction, one.compaction, 5)
    file = _difference(long.compaction, one.compaction, 4)
    expired_file = _difference(wide.expiry, one.expiry, wide.expired_files - one.expired_files)
    further = long.expired_snapshots - one.expired_snapshots
    files = expired_file.times(long.expired_files - one.expired_files)
    expired_snapshot = _difference(long.expiry, one.expiry.plus(files), further)
    known = expired_snapshot.times(one.expired_snapshots).plus(
        expired_file.times(one.expired_files)
    )
    return RequestCosts(
        append=_difference(one.appends, append_file, 1),
        append_file=append_file,
        compaction=_difference(one.compaction, bucket, 1),
        compacted_bucket=bucket,
        compacted_file=file,
        expiry=_difference(one.expiry, known, 1),
        expired_snapshot=expired_snapshot,
        expired_file=expired_file,
        serial_of_attempt=serial,
    )


def _difference(more: Requests, less: Requests, count: float) -> Requests:
    """Per one of `count`; never less than none."""
    found = more.plus(less.times(-1)).times(1 / max(count, 1))
    return Requests(
        *(max(each, 0.0) for each in (found.puts, found.lists, found.gets, found.deletes))
    )


def _sum(seen: list[Heard]) -> Requests:
    found = Requests()
    for method, path, *_ in seen:
        query = path.partition("?")[2]
        if method == "GET" and "list-type" in query:
            found = found.plus(Requests(lists=1))
        elif method in ("PUT", "POST") and not ("delete" in query and method == "POST"):
            found = found.plus(Requests(puts=1))
        elif method in ("GET", "HEAD"):
            found = found.plus(Requests(gets=1))
        else:
            found = found.plus(Requests(deletes=1))
    return found
