"""What every page shares: its frame (clusters, age of the data) and how it is sent, whole or in part."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from django.conf import settings
from django.db.models import F, OuterRef, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotModified
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.cache import patch_cache_control, patch_vary_headers
from django_htmx.middleware import HtmxDetails

from diagnostics.models import Cluster, Observation
from diagnostics.views.sections import Section, reference, sections_of

STALE_AFTER_POLLS = 3
ADDRESSES_KEPT = 20_000
"""Of nodes, devices, workloads and findings, each: to make those of a page anew takes as long as all else."""


class HtmxRequest(HttpRequest):
    htmx: HtmxDetails


@dataclass(frozen=True, kw_only=True)
class ClusterLink:
    """A cluster in the navigation."""

    slug: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Freshness:
    """How old the data of a page is, and why it is not newer."""

    taken_at: datetime | None
    """Of the latest snapshot; None before the first."""
    polled_at: datetime | None
    """When the last poll ended, whatever came of it."""
    error: str
    """Why the last poll failed; empty when it did not."""
    is_stale: bool
    now: datetime = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Frame:
    """What surrounds the content: which clusters there are, which one and which section this is."""

    clusters: tuple[ClusterLink, ...]
    section: str
    cluster: ClusterLink | None = None
    freshness: Freshness | None = None

    @property
    def home(self) -> ClusterLink | None:
        """Whose sections the navigation lists: this cluster's, or the only one's."""
        return self.cluster or (self.clusters[0] if len(self.clusters) == 1 else None)

    @property
    def sections(self) -> tuple[Section, ...]:
        """Of the cluster whose sections are listed."""
        return sections_of(self.home.slug) if self.home else ()

    @property
    def reference(self) -> tuple[Section, ...]:
        """What belongs to no cluster."""
        return reference()


@dataclass(frozen=True, kw_only=True)
class Page:
    """Base of every page's context.

    The ETag is made from its `repr`, so `now` stays out of that: time alone is no change.
    """

    frame: Frame
    now: datetime = field(repr=False)


def frame_of(slug: str, section: str) -> tuple[Cluster, Frame, datetime]:
    """The cluster, its frame and now. Two queries. Raises Http404 for a cluster that there is not."""
    whole = Observation.objects.filter(cluster=OuterRef("pk")).exclude(status=Observation.Status.FAILED)
    read_at = Subquery(whole.order_by("-pk").values("finished_at")[:1])
    clusters = list(Cluster.objects.annotate(snapshot_at=F("picture__taken_at"), read_at=read_at))
    cluster = next((c for c in clusters if c.slug == slug), None)
    if cluster is None:
        msg = "There is no such cluster."
        raise Http404(msg)
    now = timezone.now()
    last = (
        Observation.objects.filter(cluster=cluster)
        .values_list("status", "error", "finished_at")
        .order_by("-pk")
        .first()
    )
    status, error, polled_at = last or ("", "", None)
    # Whether the picture is stale goes by our own clock: the cluster's may be hours away.
    age = now - cluster.read_at if cluster.read_at else None
    taken_at = cluster.snapshot_at
    freshness = Freshness(
        taken_at=taken_at,
        polled_at=polled_at,
        error=(error or "it gave no reason") if status == Observation.Status.FAILED else "",
        is_stale=age is not None and age > STALE_AFTER_POLLS * settings.POLL_INTERVAL,
        now=now,
    )
    frame = Frame(clusters=_links(clusters), section=section, cluster=_link(cluster), freshness=freshness)
    return cluster, frame, now


def bare_frame(section: str) -> Frame:
    """The frame of a page that belongs to no cluster. One query."""
    return Frame(clusters=_links(Cluster.objects.all()), section=section)


def _links(clusters: Iterable[Cluster]) -> tuple[ClusterLink, ...]:
    return tuple(_link(cluster) for cluster in clusters)


def _link(cluster: Cluster) -> ClusterLink:
    return ClusterLink(slug=cluster.slug, name=str(cluster))


@lru_cache(ADDRESSES_KEPT)
def node_url(slug: str, name: str) -> str:
    """Address of a node's page; empty for a node without a name."""
    return reverse("node_detail", args=[slug, name]) if name else ""


@lru_cache(ADDRESSES_KEPT)
def gpu_url(slug: str, slot: str) -> str:
    """Address of the page of the device in `slot`; empty for one without a name."""
    return reverse("gpu_detail", args=[slug, slot]) if slot else ""


@lru_cache(ADDRESSES_KEPT)
def workload_url(slug: str, kind: str, namespace: str, name: str) -> str:
    """Address of a workload's page; empty where a part of its name is missing."""
    return (
        reverse("workload_detail", args=[slug, kind, namespace, name]) if kind and namespace and name else ""
    )


@lru_cache(ADDRESSES_KEPT)
def finding_url(slug: str, fingerprint: str) -> str:
    return reverse("finding_detail", args=[slug, fingerprint])


def render_page(
    request: HtmxRequest, template: str, page: Page, *, partial: str | None = None
) -> HttpResponse:
    """The page, or only its `partial` for an htmx request that is neither boosted nor restores history.

    A partial carries an ETag of its data, so that a page that asks again and again is mostly told "not modified".
    """
    htmx = request.htmx
    if partial and htmx and not htmx.boosted and not htmx.history_restore_request:
        etag = f'W/"{hashlib.sha256(repr(page).encode()).hexdigest()[:32]}"'
        if request.headers.get("If-None-Match") == etag:
            response: HttpResponse = HttpResponseNotModified()
        else:
            response = render(request, f"{template}#{partial}", {"page": page})
        response.headers["ETag"] = etag
    else:
        response = render(request, template, {"page": page})
    patch_vary_headers(response, ["HX-Request"])
    patch_cache_control(response, private=True, no_store=True)
    return response
