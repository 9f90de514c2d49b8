"""A collective job lies on more hosts, racks or NVLink domains than it needs, or its pods keep its GPUs apart.

## Meaning
Pods that exchange gradients or activations at every step were placed apart although fewer hosts would hold them. Their
traffic passes the network where it could pass NVLink, or a rack's switch. Or ranks stand side by side on a host, each
in a pod of one GPU: containers that see one GPU each can use neither NVLink nor shared memory between them.

## Impact
The job works, and runs slower: every step waits for the slowest link. Scattering alone breaks nothing; a failing job
has another cause. How much slower is not known from placement.

## Evidence
Nodes of the job's bound pods; GPUs, CPU and memory of the hosts of that kind; labels for rack, zone and NVLink domain;
affinity and spread constraints of the pods. Scatter = (hosts used - hosts needed) / (most hosts possible - needed).
Ranks in pods of one GPU count from `isolated_ranks_min` on a host, or when they fill it; NCCL's lines in the logs of
failing members say how many ranks there are and what they talk over.

## Not reported
Independent servers and shards, whatever owns them; pods that only a pod group ties; a job on as few hosts as it
needs, in one rack or not; jobs of one GPU pod; members that have finished. Pods of one GPU of jobs without
collectives; a few of them on a large host; those on boards without NVLink, in an NVLink domain over hosts, with a share
or a slice of a GPU, with a claim, or that reach all GPUs of the host; NCCL's line that libnccl-net.so is missing.

## References
https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from diagnostics.findings import Confidence, Evidence, Hit, Severity, Subject, Unjudged
from diagnostics.gangs import launch_of
from diagnostics.limits import Limits
from diagnostics.placement import Room, Scatter, Span, possible_placement, rooms, scatter_of
from diagnostics.rules.base import rule
from diagnostics.rules.scheduling.isolated_ranks import alone_facts, isolated_hit, isolated_ranks
from diagnostics.rules.scheduling.links import slowest_link
from diagnostics.rules.scheduling.scatter_fix import scatter_fix
from diagnostics.rules.scheduling.spreading import idle_spread_rules, spread_rules
from diagnostics.snapshot import Gang, Pod, Snapshot, Source, SourceState
from diagnostics.text import counted, listed, printable


@rule(
    code="GPU301",
    slug="scattered-job",
    severity=Severity.WARNING,
    needs={Source.PODS, Source.NODES},
    uses={Source.WORKLOADS, Source.LOGS},
)
def check(snapshot: Snapshot, limits: Limits) -> Iterator[Hit | Unjudged]:
    given = rooms(snapshot)
    all_seen = snapshot.source(Source.PODS).state is SourceState.OK
    for gang in snapshot.gangs:
        if gang.only_starts_together:
            continue
        members = [snapshot.pod_by_key[key] for key in gang.members if key in snapshot.pod_by_key]
        placed = [pod for pod in members if pod.holds_gpus]
        subject = Subject(gang.kind, gang.name, gang.namespace, gang.uid, gang.api_version)
        unknown = sorted({pod.node for pod in placed if pod.node and pod.node not in given})
        if unknown:
            yield Unjudged(subject, f"node {listed([printable(n, 80) for n in unknown])} could not be read")
            continue
        if not all_seen and gang.size is not None and len(members) < gang.size:
            yield Unjudged(subject, "not all pods could be read, and members of it may be among the rest")
            continue
        scatter = scatter_of(placed, given)
        values = limits.of(subject).values
        limit = values.scatter_min_ratio
        if scatter is not None and _is_scattered(scatter, limit):
            yield _hit(gang, subject, placed, scatter, given, limit)
        elif found := isolated_ranks(placed, given, snapshot, values.isolated_ranks_min):
            yield isolated_hit(gang, subject, placed, found)


def _is_scattered(scatter: Scatter, limit: float) -> bool:
    return scatter.hosts.is_wide and (scatter.hosts.ratio >= limit or scatter.crosses_without_need)


def _hit(
    gang: Gang,
    subject: Subject,
    placed: list[Pod],
    scatter: Scatter,
    given: Mapping[str, Room],
    limit: float,
) -> Hit:
    possible = possible_placement(placed, given)
    on_purpose = spread_rules(placed)
    hosts, racks = scatter.hosts, scatter.racks
    where = f"{hosts.used} hosts" + (f" in {racks.used} racks" if racks and racks.used > 1 else "")
    by_itself = " by its own manifest" if on_purpose else ""
    needed = counted(hosts.least, "host")
    link = slowest_link(scatter.nodes, placed)
    return Hit(
        subject=subject,
        cause="spread-by-manifest" if on_purpose else "scheduler-spread",
        title=f"{printable(str(subject), 160)} is spread{by_itself}: {len(placed)} pods on {where}, {needed} "
        f"would hold them{'' if possible and len(possible) <= hosts.least else ' if empty'}",
        summary=f"The pods of this job talk to each other at every step, and their traffic passes {link}. It works, "
        f"and runs slower than it could on {needed}. {_possible_words(possible, scatter, given)}",
        evidence=(
            Evidence(
                "collective", gang.collective, source="kind, labels, command and environment of its pods"
            ),
            Evidence("pods per host", _shares(placed), source="spec.nodeName of its pods"),
            Evidence("hosts", _span_words(hosts), source=f"{scatter.per_host} of its pods fit an empty host"),
            Evidence(
                "scatter",
                f"{hosts.ratio:.2f} (limit {limit:g})",
                source="(used - needed) / (at most - needed) hosts",
            ),
            *_place_facts(scatter),
            *alone_facts(placed),
            Evidence("slowest link on the path", link, source="node labels and resources of its pods"),
            Evidence(
                "possible now, pods per host",
                _placement_words(possible),
                source="free GPUs, CPU and memory with the job's own counted as free",
            ),
            *(Evidence("spreads on purpose", words, source="spec of its pods") for words in on_purpose),
            *(
                Evidence("has no effect", words, source="spec of its pods")
                for words in idle_spread_rules(placed)
            ),
        ),
        fix=scatter_fix(gang, placed, scatter, possible, spreads_itself=bool(on_purpose)),
        confidence=Confidence.MEDIUM if launch_of(placed[0]).is_weak else Confidence.HIGH,
        gpus=sum(pod.gpu_count for pod in placed),
        nodes=tuple(node.name for node in scatter.nodes),
        pods=tuple(pod.key for pod in placed),
    )


def _shares(placed: list[Pod]) -> str:
    counts = Counter(printable(pod.node or "", 80) for pod in placed)
    return listed([f"{name} {number}" for name, number in sorted(counts.items())], 8)


def _span_words(span: Span) -> str:
    return f"{span.used} used, {span.least} needed, {span.most} at most"


def _place_facts(scatter: Scatter) -> tuple[Evidence, ...]:
    found = []
    if scatter.racks is not None:
        names = listed(sorted({printable(node.rack or "", 80) for node in scatter.nodes}), 6)
        found.append(Evidence("racks", f"{_span_words(scatter.racks)} ({names})", source="node labels"))
    else:
        found.append(Evidence("racks", "unknown: some nodes carry no rack label", source="node labels"))
    if scatter.domains is not None:
        found.append(Evidence("NVLink domains", _span_words(scatter.domains), source="node labels"))
    zones = sorted({printable(node.zone, 80) for node in scatter.nodes if node.zone})
    if len(zones) > 1:
        found.append(Evidence("zones", listed(zones), source="label topology.kubernetes.io/zone"))
    return tuple(found)


def _placement_words(possible: Mapping[str, int] | None) -> str:
    if possible is None:
        return "none: no nodes have room for all of its pods"
    return listed([f"{printable(name, 80)} {number}" for name, number in sorted(possible.items())], 8)


def _possible_words(possible: Mapping[str, int] | None, scatter: Scatter, given: Mapping[str, Room]) -> str:
    """The counterfactual in one sentence."""
    if possible is None:
        return "As the cluster is now, no placement is free for it."
    racks = {given[name].node.rack or name for name in possible}
    used_racks = {node.rack or node.name for node in scatter.nodes}
    if len(possible) >= scatter.hosts.used and len(racks) >= len(used_racks):
        return "As the cluster is now, it could not lie closer: others hold what it would need."
    inside = f" in {counted(len(racks), 'rack')}" if scatter.racks is not None else ""
    found = f"{counted(len(possible), 'host')}{inside} would hold them"
    if len(possible) > scatter.hosts.least:
        return f"As the cluster is now, {found}: on fewer, others hold the room."
    return f"As the cluster is now, {found}."
