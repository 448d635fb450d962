"""Which bucket a URL is of, and how obstore opens it.

    s3://bucket/key  s3a://bucket/key                                      S3, and what speaks its protocol
    gs://bucket/key                                                        Google Cloud Storage
    abfs[s]://container@account.dfs.core.windows.net/key  wasb[s]://..     Azure Blob

A name that could hold credentials (`s3://key:secret@bucket`) is refused, and not said again. Raises InvalidError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from widetable.errors import InvalidError
from widetable.storage.remote.storage_options import AZURE, GCS, S3, StorageOptions

_STORES: Final = {
    "s3": S3,
    "s3a": S3,
    "gs": GCS,
    "abfs": AZURE,
    "abfss": AZURE,
    "wasb": AZURE,
    "wasbs": AZURE,
}
SCHEMES: Final = tuple(_STORES)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_AZURE_NAME: Final = re.compile(
    r"([A-Za-z0-9$][A-Za-z0-9-]*)@([a-z0-9]+)\.(?:blob|dfs)\.([a-z0-9.-]+)"
)
_AZURE: Final = "core.windows.net"
# What is put on condition is tried again by us, who must know whether the first try was carried out.
_NO_RETRIES: Final = {"max_retries": 0, "retry_timeout": timedelta(seconds=180)}


@dataclass(frozen=True)
class StoreBucket:
    """root: its URL, and the beginning of each path. account, host: on Azure. The same by whichever scheme is equal."""

    root: str = field(compare=False)
    store: str
    name: str
    account: str = ""
    host: str = ""


def bucket_of(url: str) -> tuple[StoreBucket, str]:
    """Of a URL of one of SCHEMES, and the path: the URL itself, as Paimon has it, where nothing is encoded.

        s3://b//w/                                 bucket b on s3; s3://b/w
        S3://b/w                                   the same: the scheme in small letters
        abfss://c@acc.dfs.core.windows.net/w       container c of the account acc on core.windows.net
        abfss://c@Acc.dfs.core.Windows.net/w       the same, as hosts have no case

    The scheme is a part of the root: paths below s3://b and s3a://b are two, of one bucket.
    """
    scheme, _, rest = url.partition("://")
    authority, _, key = rest.partition("/")
    names = [name for name in key.split("/") if name]
    store = _STORES[scheme.lower()]
    authority = with_plain_host(authority)
    root = f"{scheme.lower()}://{authority}"
    if store == AZURE:
        parts = _AZURE_NAME.fullmatch(authority)
        bucket = None if parts is None else StoreBucket(root, store, *parts.groups())
    else:
        bucket = StoreBucket(root, store, authority) if _NAME.fullmatch(authority) else None
    if bucket is None or {".", ".."} & {*names}:
        shown = repr(url) if "@" not in url else f"one that begins with {scheme}://, and has an @"
        raise InvalidError(
            "path",
            found=shown,
            expected="a URL with a bucket and no credentials, such as s3://bucket/warehouse, gs://bucket/warehouse or "
            "abfss://container@account.dfs.core.windows.net/warehouse",
            action="Correct the argument.",
        )
    return bucket, "/".join([root, *names])


def with_plain_host(authority: str) -> str:
    """Of a URL: the host in small letters, where it has one besides the bucket. Names of buckets stay as they are."""
    bucket, at, host = authority.partition("@")
    return f"{bucket}{at}{host.lower()}"


def open_store(module: Any, bucket: StoreBucket, options: StorageOptions, *, retries: bool) -> Any:
    """A store of `obstore.store`. What no option says is said by the environment, as the store's own tools take it.

    module: obstore.store. retries: the store tries again by itself. Makes no request. Plain http
    is allowed where the endpoint says so, as a choice of the user's.
    """
    given = options.of_store(bucket.store, bucket.account)
    more: dict[str, Any] = {} if retries else {"retry_config": dict(_NO_RETRIES)}
    config = _CONFIGS[bucket.store](bucket, given)
    if str(config.get("endpoint") or config.get("base_url")).startswith("http:"):
        more["client_options"] = {"allow_http": True}
    if bucket.store == S3:
        if "access-key" in given:
            more["credential_provider"] = _s3_credentials(given)
        return module.S3Store(bucket.name, config=config, **more)
    if bucket.store == GCS:
        return module.GCSStore(bucket.name, config=config, **more)
    return module.AzureStore(bucket.name, config=config, **more)


def _s3_credentials(given: dict[str, str]) -> Callable[[], dict[str, Any]]:
    """All of them: a session token of the environment is of another key."""
    found = {
        "access_key_id": given["access-key"],
        "secret_access_key": given["secret-key"],
        "token": given.get("session.token"),
        "expires_at": None,
    }
    return lambda: found


def _s3(bucket: StoreBucket, given: dict[str, str]) -> dict[str, Any]:
    """Keys are not here but in `_s3_credentials`. Without an endpoint it is Amazon's. Paths have
    the bucket by default, as servers of one's own take them; `path.style.access` false puts
    it in front of the host: http://b.store:9000.
    """
    found: dict[str, Any] = {}
    region = given.get("region", given.get("endpoint.region"))
    if region is not None:
        found["region"] = region
    plain = given.get("connection.ssl.enabled", "true").lower() == "false"
    endpoint = _address(given.get("endpoint"), "http" if plain else "https")
    is_virtual = given.get("path.style.access", "true").lower() == "false"
    if is_virtual:
        found["virtual_hosted_style_request"] = "true"
    if endpoint is not None:
        scheme, _, host = endpoint.partition("://")
        found["endpoint"] = f"{scheme}://{bucket.name}.{host}" if is_virtual else endpoint
    return found


def _gcs(bucket: StoreBucket, given: dict[str, str]) -> dict[str, Any]:
    found = {
        "service_account": given.get("auth.service.account.json.keyfile"),
        "base_url": _address(given.get("storage.root.url"), "https"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _azure(bucket: StoreBucket, given: dict[str, str]) -> dict[str, Any]:
    """An account outside of the public cloud (`*.blob.core.chinacloudapi.cn`) is asked at the
    host of its URL. What is not given is left to the environment.
    """
    endpoint = given.get("endpoint")
    if endpoint is None and bucket.host != _AZURE:
        endpoint = f"{bucket.account}.blob.{bucket.host}"
    found = {
        "account_name": bucket.account,
        "account_key": given.get("account.key"),
        "sas_key": given.get("sas.fixed.token", "").removeprefix("?") or None,
        "client_id": given.get("account.oauth2.client.id"),
        "client_secret": given.get("account.oauth2.client.secret"),
        "endpoint": _address(endpoint, "https"),
    }
    authority = given.get("account.oauth2.client.endpoint")
    if authority is not None:  # https://login.microsoftonline.com/<tenant>/oauth2/token
        scheme, _, rest = authority.partition("://")
        host, tenant, *_ = [*rest.split("/"), ""]
        found |= {"authority_host": f"{scheme}://{host}", "tenant_id": tenant}
    return {name: value for name, value in found.items() if value is not None}


_CONFIGS: Final[dict[str, Callable[[StoreBucket, dict[str, str]], dict[str, Any]]]] = {
    S3: _s3,
    GCS: _gcs,
    AZURE: _azure,
}


def _address(given: str | None, scheme: str) -> str | None:
    """Without a slash at the end; with `scheme` where it names none."""
    if given is None:
        return None
    return (given if "://" in given else f"{scheme}://{given}").rstrip("/")
