"""Finds the bucket of a URL, and opens it with obstore.

    s3://bucket/key  s3a://bucket/key                                      S3, and stores with its protocol
    gs://bucket/key                                                        Google Cloud Storage
    abfs[s]://container@account.dfs.core.windows.net/key  wasb[s]://..     Azure Blob

A name that could contain credentials (`s3://key:secret@bucket`) is refused, and not repeated. Raises InvalidError.
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
# Conditional puts are retried by us, because we must know whether the first try was carried out.
_NO_RETRIES: Final = {"max_retries": 0, "retry_timeout": timedelta(seconds=180)}


@dataclass(frozen=True)
class StoreBucket:
    """A bucket. root: its URL, with which each path begins. account, host: on Azure. Equality ignores the scheme."""

    root: str = field(compare=False)
    store: str
    name: str
    account: str = ""
    host: str = ""


def bucket_of(url: str) -> tuple[StoreBucket, str]:
    """Return the bucket of a URL with one of SCHEMES, and the path: the URL itself, not encoded, as in Paimon.

        s3://b//w/                                 bucket b on s3; s3://b/w
        S3://b/w                                   bucket b on s3; the scheme in lower case
        abfss://c@acc.dfs.core.windows.net/w       container c of the account acc on core.windows.net
        abfss://c@Acc.dfs.core.Windows.net/w       the same container, as hosts are case-insensitive

    The scheme is a part of the root: paths below s3://b and s3a://b differ, but name the same bucket.
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
        shown = repr(url) if "@" not in url else f"a {scheme}:// URL with an @"
        raise InvalidError(
            "path",
            found=shown,
            expected="a URL with a bucket and no credentials, such as s3://bucket/warehouse, gs://bucket/warehouse or "
            "abfss://container@account.dfs.core.windows.net/warehouse",
            action="Correct the argument.",
        )
    return bucket, "/".join([root, *names])


def with_plain_host(authority: str) -> str:
    """Return a URL's authority with its host, if it has one besides the bucket, in lower case. The bucket is kept."""
    bucket, at, host = authority.partition("@")
    return f"{bucket}{at}{host.lower()}"


def open_store(module: Any, bucket: StoreBucket, options: StorageOptions, *, retries: bool) -> Any:
    """Open a store of `obstore.store`. Options that are not set come from the environment, as in the store's own tools.

    module: obstore.store. retries: the store retries by itself. Makes no request. Plain http is allowed if the endpoint
    says http: the user chose it.
    """
    values = options.of_store(bucket.store, bucket.account)
    more: dict[str, Any] = {} if retries else {"retry_config": dict(_NO_RETRIES)}
    config = _CONFIGS[bucket.store](bucket, values)
    if str(config.get("endpoint") or config.get("base_url")).startswith("http:"):
        more["client_options"] = {"allow_http": True}
    if bucket.store == S3:
        if "access-key" in values:
            more["credential_provider"] = _s3_credentials(values)
        return module.S3Store(bucket.name, config=config, **more)
    if bucket.store == GCS:
        return module.GCSStore(bucket.name, config=config, **more)
    return module.AzureStore(bucket.name, config=config, **more)


def _s3_credentials(values: dict[str, str]) -> Callable[[], dict[str, Any]]:
    """Return complete credentials, as a session token of the environment belongs to another key."""
    credentials = {
        "access_key_id": values["access-key"],
        "secret_access_key": values["secret-key"],
        "token": values.get("session.token"),
        "expires_at": None,
    }
    return lambda: credentials


def _s3(bucket: StoreBucket, values: dict[str, str]) -> dict[str, Any]:
    """Return the configuration of S3, without keys (`_s3_credentials`). The default endpoint is Amazon's. The
    bucket is in the path by default, as self-hosted servers expect it; with `path.style.access` false
    it is in front of the host: http://b.store:9000.
    """
    config: dict[str, Any] = {}
    region = values.get("region", values.get("endpoint.region"))
    if region is not None:
        config["region"] = region
    plain = values.get("connection.ssl.enabled", "true").lower() == "false"
    endpoint = _address(values.get("endpoint"), "http" if plain else "https")
    is_virtual = values.get("path.style.access", "true").lower() == "false"
    if is_virtual:
        config["virtual_hosted_style_request"] = "true"
    if endpoint is not None:
        scheme, _, host = endpoint.partition("://")
        config["endpoint"] = f"{scheme}://{bucket.name}.{host}" if is_virtual else endpoint
    return config


def _gcs(bucket: StoreBucket, values: dict[str, str]) -> dict[str, Any]:
    config = {
        "service_account": values.get("auth.service.account.json.keyfile"),
        "base_url": _address(values.get("storage.root.url"), "https"),
    }
    return {name: value for name, value in config.items() if value is not None}


def _azure(bucket: StoreBucket, values: dict[str, str]) -> dict[str, Any]:
    """Return the configuration of Azure. The endpoint of an account outside of the public cloud
    (`*.blob.core.chinacloudapi.cn`) is the host of its URL. Options that are not set come from the environment.
    """
    endpoint = values.get("endpoint")
    if endpoint is None and bucket.host != _AZURE:
        endpoint = f"{bucket.account}.blob.{bucket.host}"
    config = {
        "account_name": bucket.account,
        "account_key": values.get("account.key"),
        "sas_key": values.get("sas.fixed.token", "").removeprefix("?") or None,
        "client_id": values.get("account.oauth2.client.id"),
        "client_secret": values.get("account.oauth2.client.secret"),
        "endpoint": _address(endpoint, "https"),
    }
    authority = values.get("account.oauth2.client.endpoint")
    if authority is not None:  # https://login.microsoftonline.com/<tenant>/oauth2/token
        scheme, _, rest = authority.partition("://")
        host, tenant, *_ = [*rest.split("/"), ""]
        config |= {"authority_host": f"{scheme}://{host}", "tenant_id": tenant}
    return {name: value for name, value in config.items() if value is not None}


_CONFIGS: Final[dict[str, Callable[[StoreBucket, dict[str, str]], dict[str, Any]]]] = {
    S3: _s3,
    GCS: _gcs,
    AZURE: _azure,
}


def _address(address: str | None, scheme: str) -> str | None:
    """Return an address without a final slash, and with `scheme` if it has none."""
    if address is None:
        return None
    return (address if "://" in address else f"{scheme}://{address}").rstrip("/")
