"""Something could not be read from the Kubernetes API.

## Meaning
The API refused a list (missing rights, bad credentials), does not serve it, or did not answer.

## Impact
Rules that need it are not evaluated; nothing is reported as healthy because of it.

## Evidence
Status of each Kubernetes source, with the server's own words; objects that were skipped because they are malformed.

## Not reported
Sources that answered in full; kinds of queues and jobs, and claims on devices, that the cluster does not
serve.

## References
https://kubernetes.io/docs/reference/access-authn-authz/rbac/
"""

from collections.abc import Iterator

from diagnostics.findings import Blind, Severity
from diagnostics.limits import Limits
from diagnostics.rules.base import rule
from diagnostics.snapshot import Snapshot, Source, SourceState, SourceStatus

SEEN_THROUGH: dict[Source, str] = {
    Source.NODES: "Nodes, their GPUs, taints and conditions",
    Source.PODS: "Pods, and with them who holds or waits for GPUs",
    Source.EVENTS: "Events: what the scheduler and the kubelet said",
    Source.NAMESPACES: "Namespaces, and the identity of the cluster",
    Source.WORKLOADS: "Deployments, Jobs and their like: who owns the pods",
    Source.SERVICES: "Services",
    Source.STORAGE: "Volume claims, volumes and storage classes: why a volume is not there",
    Source.POLICY: "Quotas, limits, traffic rules, priority and runtime classes, disruption budgets",
    Source.CUSTOM: "Queues, pod groups, the jobs of operators and the GPU Operator's own state",
    Source.CLAIMS: "Devices that are given out by claims (dynamic resource allocation), and who holds them",
    Source.LOGS: "Logs of failing GPU pods: CUDA out of memory and its causes",
}
_CURE = {
    SourceState.FORBIDDEN: "Give the account the ClusterRole of deploy/rbac.yaml: kubectl apply -f deploy/rbac.yaml",
    SourceState.FAILED: "Check that the API server can be reached and that the credentials are valid.",
    SourceState.ABSENT: "The cluster does not serve this API, or it was not asked.",
    SourceState.PARTIAL: "See the detail on the status page.",
    SourceState.STALE: "See the detail on the status page.",
}


@rule(code="GPU903", slug="missing-rights", severity=Severity.INFO, needs=set())
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Blind]:
    """One blind spot for each way in which Kubernetes sources are not whole: one dead server is said once."""
    alike: dict[tuple[str, SourceState], list[Source]] = {}
    for source in SEEN_THROUGH:
        status = snapshot.source(source)
        if status.state is SourceState.ABSENT and source in {Source.CUSTOM, Source.CLAIMS}:
            continue
        if status.state is not SourceState.OK:
            alike.setdefault((_said(status), status.state), []).append(source)
    for (said, state), sources in alike.items():
        seen = "; ".join(SEEN_THROUGH[source] for source in sources)
        yield Blind(source=sources[0], what=f"{seen}: {said}.", cure=_CURE[state])


def _said(status: SourceStatus) -> str:
    skipped = sum(s.count for s in status.skipped)
    parts = [str(status.state)]
    if status.detail:
        parts.append(status.detail.rstrip("."))
    if skipped:
        parts.append(f"{skipped} unreadable objects skipped")
    return ", ".join(parts)
