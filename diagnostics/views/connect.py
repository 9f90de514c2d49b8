"""Connect: the first steps with a cluster of one's own, and for each declared one what its sources answer."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, Subquery
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from diagnostics.clusters import DeclaredCluster
from diagnostics.models import Cluster, Observation
from diagnostics.snapshot import Source, SourceState
from diagnostics.views.page import HtmxRequest, Page, bare_frame, render_page
from diagnostics.views.sending import NotSent, send
from diagnostics.views.source_cures import SEEN_THROUGH, Cure, cures, manifest

ORDER = (
    Source.NODES, Source.PODS, Source.EVENTS, Source.WORKLOADS, Source.LOGS, Source.METRICS, Source.WINDOW,
    Source.USAGE, Source.NAMESPACES, Source.SERVICES, Source.STORAGE, Source.POLICY, Source.CUSTOM, Source.CLAIMS,
)  # fmt: skip
TEST_AGAIN_AFTER_S = 15
"""So often one user may ask for a poll of one cluster. Two polls of a cluster never run at once anyway (leases)."""

KUBECONFIG = """\
umask 077
view() { kubectl config view --minify --raw --flatten -o jsonpath="$1"; }
new() { kubectl --kubeconfig gpuhealth.kubeconfig config "$@"; }
view '{.clusters[0].cluster.certificate-authority-data}' | base64 -d >ca.crt
new set-cluster prod --server="$(view '{.clusters[0].cluster.server}')" \\
  --certificate-authority=ca.crt --embed-certs
new set-context prod --cluster=prod --user=gpuhealth
new use-context prod
new set-credentials gpuhealth --token="$(kubectl -n gpuhealth create token gpuhealth --duration=720h)\""""
METRICS = """\
PROMETHEUS=http://127.0.0.1:9090
kubectl -n monitoring port-forward service/prometheus-operated 9090 &
sleep 3
curl --silent "$PROMETHEUS/api/v1/query" --data-urlencode 'query=count(DCGM_FI_DEV_FB_USED)'"""
UP = "gpuhealth up --kubeconfig gpuhealth.kubeconfig --context prod --prometheus http://127.0.0.1:9090"
DECLARATION = """\
[clusters.prod]
name = "Production"
kubeconfig = "/etc/gpuhealth/prod.kubeconfig"
context = "prod"

[clusters.prod.prometheus]
url = "http://prometheus.monitoring:9090\""""
INLINE = (
    '{"prod": {"name": "Production", "kubeconfig": "/etc/gpuhealth/prod.kubeconfig", "context": "prod",\n'
    ' "prometheus": {"url": "http://prometheus.monitoring:9090"}}}'
)


@dataclass(frozen=True, kw_only=True)
class SourceTest:
    name: str
    seen_through: str
    status: str
    """Empty: not asked yet."""
    detail: str
    items: int | None
    cures: tuple[Cure, ...]

    @property
    def is_needless(self) -> bool:
        """A cluster without dynamic resource allocation, or without queues, lacks nothing."""
        return self.name in {Source.CLAIMS, Source.CUSTOM} and self.status == SourceState.ABSENT


@dataclass(frozen=True, kw_only=True)
class ClusterTest:
    """One declared cluster, or one that was declared once, as its last poll found it."""

    slug: str
    name: str
    url: str
    """Of its status page; empty before its first poll."""
    is_declared: bool
    tested_at: datetime | None
    error: str
    sources: tuple[SourceTest, ...]

    @property
    def well(self) -> tuple[SourceTest, ...]:
        """Those that answer in full."""
        return tuple(source for source in self.sources if source.status == SourceState.OK)

    @property
    def unwell(self) -> tuple[SourceTest, ...]:
        return tuple(s for s in self.sources if s.status != SourceState.OK and not s.is_needless)


@dataclass(frozen=True, kw_only=True)
class ConnectPage(Page):
    manifest: str
    kubeconfig_commands: str
    metrics_commands: str
    up_command: str
    declaration: str
    inline_declaration: str
    clusters: tuple[ClusterTest, ...]
    may_test: bool
    address: str


@require_http_methods(["GET", "HEAD", "POST"])
def connect(request: HtmxRequest) -> HttpResponse:
    """POST asks for a poll of the cluster `slug` now; the page shows its outcome once it has one."""
    is_staff = bool(getattr(request.user, "is_staff", False))
    if request.method == "POST":
        if not is_staff:
            msg = "Only staff may test the connection."
            raise PermissionDenied(msg)
        messages.info(request, _test(request, request.POST.get("slug", "")))
        return redirect("connect")
    page = ConnectPage(
        frame=bare_frame("connect"),
        now=timezone.now(),
        manifest=manifest(),
        kubeconfig_commands=KUBECONFIG,
        metrics_commands=METRICS,
        up_command=UP,
        declaration=DECLARATION,
        inline_declaration=INLINE,
        clusters=_clusters(),
        may_test=is_staff,
        address=request.get_full_path(),
    )
    return render_page(request, "pages/connect.html", page, partial="live")


def _clusters() -> tuple[ClusterTest, ...]:
    """Two queries, however many there are."""
    last = Observation.objects.filter(cluster=OuterRef("pk")).order_by("-pk").values("pk")[:1]
    known = {c.slug: c for c in Cluster.objects.annotate(last_observation=Subquery(last))}
    polls = Observation.objects.in_bulk([c.last_observation for c in known.values() if c.last_observation])
    found = []
    for slug in sorted({*settings.CLUSTERS, *known}):
        row = known.get(slug)
        poll = polls.get(row.last_observation) if row else None
        found.append(_cluster(slug, settings.CLUSTERS.get(slug), row, poll))
    return tuple(found)


def _cluster(
    slug: str, declared: DeclaredCluster | None, row: Cluster | None, poll: Observation | None
) -> ClusterTest:
    raw = {one["name"]: one for one in poll.sources} if poll else {}
    return ClusterTest(
        slug=slug,
        name=str(row) if row else declared.name if declared else slug,
        url=reverse("status", args=[slug]) if row else "",
        is_declared=declared is not None,
        tested_at=poll.finished_at if poll else None,
        error=poll.error if poll else "",
        sources=tuple(_source(source, raw.get(source.value), slug, declared) for source in ORDER)
        if poll
        else (),
    )


def _source(
    source: Source, raw: dict[str, Any] | None, slug: str, declared: DeclaredCluster | None
) -> SourceTest:
    """`raw` as `observations` stores it; None: the poll came to nothing before it asked."""
    status = raw["status"] if raw else ""
    detail = raw.get("detail", "") if raw else ""
    found: tuple[Cure, ...] = ()
    if status in set(SourceState):
        found = cures(source, SourceState(status), detail, slug, declared)
    return SourceTest(
        name=source.value,
        seen_through=SEEN_THROUGH[source],
        status=status,
        detail=detail,
        items=raw.get("items") if raw else None,
        cures=tuple(
            replace(cure, key=f"{slug}-{source}-{number}") for number, cure in enumerate(found, start=1)
        ),
    )


def _test(request: HtmxRequest, slug: str) -> str:
    """Ask for a poll; a sentence that says what came of it."""
    if slug not in settings.CLUSTERS:
        return "There is no declared cluster of that name."
    now = timezone.now().timestamp()
    asked: dict[str, float] = request.session.get("connection_tests", {})
    if 0 <= now - asked.get(slug, 0.0) < TEST_AGAIN_AFTER_S:
        return f"A test of {slug} was asked for just now: look again in {TEST_AGAIN_AFTER_S} seconds."
    try:
        send("diagnostics.tasks.observe", slug, expires=settings.POLL_INTERVAL)
    except NotSent as error:
        return (
            f"The test could not be asked for: {error}. Polls do not run either then; see whether it runs, and "
            "GPUHEALTH_BROKER_URL."
        )
    request.session["connection_tests"] = {**asked, slug: now}
    return f"A test of {slug} has been asked for. Its outcome shows here by itself within seconds."
