"""The clusters and limits that a site declares, read strictly: a slip of the pen is named, never ignored."""

import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from diagnostics.limits import Limits, Override, Thresholds, parsed
from diagnostics.retention import Retention, RetentionError, retention

Slug = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$")]
"""Names a cluster in URLs: at most 40 lower-case letters, digits and dashes."""
Seconds = Annotated[float, Meta(gt=0, le=3600)]
Count = Annotated[int, Meta(gt=0)]

_SERVICE = re.compile(r"service:[a-z0-9-]+/[a-z0-9-]+(:\d{1,5})?")


class DeclarationError(ValueError):
    """What a site declared cannot be used; the message says where and why, without any secret."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An unknown field is an error."""


class DeclaredPrometheus(_Strict, frozen=True, kw_only=True):
    """Fields and meaning of `collect.target.PrometheusTarget`."""

    url: str
    bearer_token_file: str | None = None
    username: str = ""
    password_file: str | None = None
    ca_file: str | None = None
    extra_matchers: str = ""

    def __repr__(self) -> str:
        """Without the URL, which may hold a password."""
        return f"{type(self).__name__}(…)"


class DeclaredCluster(_Strict, frozen=True, kw_only=True):
    """Fields and meaning of `collect.target.Target`; paths are text here."""

    name: str = ""
    """What people call it; empty: its slug."""
    kubeconfig: str | None = None
    context: str = ""
    in_cluster: bool = False
    prometheus: DeclaredPrometheus | None = None
    exporters: tuple[str, ...] = ()
    rack_label: str = ""
    request_timeout_s: Seconds = 20.0
    poll_timeout_s: Seconds = 120.0
    page_size: Count = 500
    max_page_bytes: Count = 64 * 2**20
    log_lines: Count = 400
    log_bytes: Count = 256 * 1024
    log_pods: Annotated[int, Meta(ge=0)] = 50


class _Override(_Strict, frozen=True, kw_only=True):
    rule: str = ""
    namespace: str = ""
    cluster: str = ""
    values: dict[str, Any] = {}
    severity: Literal["", "critical", "warning", "info"] = ""
    exempt: bool = False
    reason: str = ""
    expires_at: datetime | None = None


class _Document(_Strict, frozen=True, kw_only=True):
    limits: dict[str, Any] = {}
    overrides: tuple[_Override, ...] = ()
    retention: dict[str, Any] = {}
    clusters: dict[Slug, DeclaredCluster] = {}


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """All that a site says about its clusters."""

    clusters: dict[str, DeclaredCluster] = {}
    """Slug -> cluster, each with a name."""
    limits: Limits = Limits()
    retention: Retention = Retention()


def declaration(document: Mapping[str, Any], origin: str) -> Declaration:
    """Read `{"clusters": {slug: …}, "limits": {…}, "overrides": […], "retention": {…}}`; `origin` names it in messages.

    Durations are text with units: `45m`, `1h 30m`. Raises DeclarationError.
    """
    try:
        read = msgspec.convert(document, _Document, strict=True)
    except msgspec.ValidationError as error:
        msg = f"{origin}: {error}"
        raise DeclarationError(msg) from None
    for slug, cluster in read.clusters.items():
        _check(cluster, f"{origin}: cluster {slug!r}")
    clusters = {
        slug: cluster if cluster.name else msgspec.structs.replace(cluster, name=slug)
        for slug, cluster in read.clusters.items()
    }
    site = Thresholds(**_values(read.limits, f"{origin}: limits"))
    overrides = tuple(
        _override(override, set(read.clusters), f"{origin}: override {number}")
        for number, override in enumerate(read.overrides, start=1)
    )
    try:
        kept = retention(read.retention)
    except RetentionError as error:
        msg = f"{origin}: retention: {error}"
        raise DeclarationError(msg) from None
    return Declaration(clusters=clusters, limits=Limits(site=site, overrides=overrides), retention=kept)


def _check(cluster: DeclaredCluster, where: str) -> None:
    if cluster.in_cluster and (cluster.kubeconfig or cluster.context):
        msg = f"{where}: in_cluster and kubeconfig or context exclude each other"
        raise DeclarationError(msg)
    if cluster.prometheus:
        _check_url(cluster.prometheus.url, f"{where}: prometheus.url")
        if bool(cluster.prometheus.username) != bool(cluster.prometheus.password_file):
            msg = f"{where}: prometheus.username and prometheus.password_file go together"
            raise DeclarationError(msg)
    for number, exporter in enumerate(cluster.exporters, start=1):
        if not _SERVICE.fullmatch(exporter):
            _check_url(exporter, f"{where}: exporter {number}")


def _check_url(url: str, where: str) -> None:
    """The URL itself is not repeated: it may hold a password."""
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        msg = f"{where}: not an http or https address"
        raise DeclarationError(msg)


def _override(override: _Override, slugs: set[str], where: str) -> Override:
    if override.cluster and override.cluster not in slugs:
        msg = f"{where}: there is no cluster {override.cluster!r}"
        raise DeclarationError(msg)
    if override.expires_at is not None and override.expires_at.tzinfo is None:
        msg = f"{where}: expires_at needs a time zone, for example 2030-01-31T00:00:00Z"
        raise DeclarationError(msg)
    if not (override.values or override.exempt or override.severity):
        msg = f"{where}: changes nothing; give values, severity or exempt"
        raise DeclarationError(msg)
    fields = {name: getattr(override, name) for name in _Override.__struct_fields__}
    return Override(**{**fields, "values": _values(override.values, where)})


def _values(raw: Mapping[str, Any], where: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in raw.items():
        if name not in Thresholds.__struct_fields__:
            msg = f"{where}: there is no limit {name!r}"
            raise DeclarationError(msg)
        try:
            values[name] = limit_value(name, value)
        except ValueError as error:
            msg = f"{where}: {name}: {error}"
            raise DeclarationError(msg) from None
    return values


def limit_value(name: str, value: Any) -> Any:
    """The value of the limit `name` as a site writes it. Raises ValueError, saying what is wrong with it."""
    if name not in Thresholds.__struct_fields__:
        msg = f"there is no limit {name!r}"
        raise ValueError(msg)
    is_duration = isinstance(getattr(Thresholds(), name), timedelta)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        msg = "neither a number nor text"
        raise ValueError(msg)
    if is_duration and not isinstance(value, str):
        msg = 'a duration needs its unit, for example "45m"'
        raise ValueError(msg)
    read = parsed(name, value if isinstance(value, str) else str(value))
    most = 1.0 if name.endswith("_ratio") else math.inf
    if not is_duration and not (0 <= read <= most and math.isfinite(read)):
        msg = f"{value} is not from 0 to {most:g}" if most == 1 else f"{value} is negative or not a number"
        raise ValueError(msg)
    return read
