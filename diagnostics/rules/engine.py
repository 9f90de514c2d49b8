"""One pass of the rules over one snapshot: what runs, what is skipped, what a failing rule costs (itself alone)."""

import logging
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import msgspec

from diagnostics.findings import (
    Blind,
    Coverage,
    Diagnosis,
    Exempted,
    FailedRule,
    Finding,
    Hit,
    Severity,
    SkippedRule,
    Subject,
    Unjudged,
    UnjudgedSubject,
    fingerprint,
)
from diagnostics.fixes.diffs import with_diffs
from diagnostics.limits import Limits, Thresholds
from diagnostics.rules.base import Rule
from diagnostics.rules.causes import linked
from diagnostics.rules.documentation import shown
from diagnostics.snapshot import Pod, Snapshot, Source, SourceState

log = logging.getLogger(__name__)


def run(rules: Iterable[Rule], snapshot: Snapshot, limits: Limits) -> Diagnosis:
    """Every rule whose needed sources are usable, over `snapshot`; an exception in one is reported as `failed`."""
    bound = msgspec.structs.replace(
        limits, cluster=snapshot.cluster, now=snapshot.taken_at, annotations_of=_Annotations(snapshot)
    )
    outcome = _Outcome(snapshot)
    rules = tuple(rules)
    for rule in rules:
        unusable = [s for s in sorted(rule.needs) if not snapshot.source(s).state.is_usable]
        if unusable:
            outcome.skipped.append(SkippedRule(rule.code, _why(snapshot, unusable)))
            continue
        noted: set[str] = set()
        own = msgspec.structs.replace(bound, rule=rule.slug, noted=noted)
        try:
            yielded = [_complete(item, snapshot) for item in rule.check(snapshot, own)]
        except Exception as error:
            log.exception("rule %s failed", rule.code)
            outcome.failed.append(FailedRule(rule.code, f"{type(error).__name__}: {error}"[:300]))
            continue
        read = rule.needs | ({Source.WORKLOADS} if Source.PODS in rule.needs else set())
        incomplete = [s for s in sorted(read) if snapshot.source(s).state is not SourceState.OK]
        if incomplete:
            outcome.partial.append(SkippedRule(rule.code, _why(snapshot, incomplete)))
        for item in yielded:
            outcome.take(rule, item, own, frozenset(noted))
    return outcome.diagnosis({rule.slug: rule for rule in rules})


def _complete(item: Hit | Unjudged | Blind, snapshot: Snapshot) -> Hit | Unjudged | Blind:
    """A hit whose fix says what its manifests change of the workloads' own."""
    if not isinstance(item, Hit):
        return item
    return msgspec.structs.replace(item, fix=with_diffs(item.fix, item.subject, snapshot))


def _why(snapshot: Snapshot, sources: list[Source]) -> str:
    """`needs metrics: absent, no exporter is configured`."""
    parts = []
    for source in sources:
        status = snapshot.source(source)
        parts.append(f"{source} {status.state}" + (f" ({status.detail})" if status.detail else ""))
    return "needs " + "; ".join(parts)


class _Outcome:
    """Collects what the rules yield and turns hits into findings."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.findings: dict[str, Finding] = {}
        self.coverage: list[Coverage] = []
        self.skipped: list[SkippedRule] = []
        self.partial: list[SkippedRule] = []
        self.failed: list[FailedRule] = []
        self.exempted: list[Exempted] = []
        self.unjudged: list[UnjudgedSubject] = []

    def take(self, rule: Rule, item: Hit | Unjudged | Blind, limits: Limits, read: frozenset[str]) -> None:
        """`read`: names of the thresholds that the rule has read where something overrides them."""
        if isinstance(item, Blind):
            self.coverage.append(Coverage(rule.code, item.what, item.cure))
            return
        identity = fingerprint(self.snapshot.cluster_id, rule.code, item.subject)
        if isinstance(item, Unjudged):
            self.unjudged.append(UnjudgedSubject(rule.code, identity, item.subject, item.reason))
            return
        resolved = limits.of(item.subject)
        reason = resolved.exempt(rule.slug)
        if reason is not None:
            self.exempted.append(Exempted(rule.code, item.subject, reason))
            return
        severity = item.severity or rule.severity
        touched = [
            _touch(name, limits.site, resolved.values, why)
            for name, why in resolved.origins.items()
            if name in read
        ]
        override = resolved.severity(rule.slug)
        if override is not None:
            severity = Severity(override[0])
            touched.append(f"severity {override[0]}: {override[1]}")
        fields: Mapping[str, Any] = msgspec.structs.asdict(item)
        finding = Finding(
            **(dict(fields) | {"severity": severity}),
            id=identity,
            code=rule.code,
            slug=rule.slug,
            overrides=tuple(touched),
        )
        earlier = self.findings.get(identity)
        self.findings[identity] = finding if earlier is None else _merged(earlier, finding)

    def diagnosis(self, rules: Mapping[str, Rule]) -> Diagnosis:
        findings = linked(list(self.findings.values()), rules)
        findings.sort(key=lambda f: (f.severity.rank, -f.gpus, f.code, str(f.subject)))
        return Diagnosis(
            findings=tuple(findings),
            coverage=tuple(self.coverage),
            skipped=tuple(self.skipped),
            partial=tuple(self.partial),
            failed=tuple(self.failed),
            exempted=tuple(self.exempted),
            unjudged=tuple(u for u in self.unjudged if u.finding_id not in self.findings),
        )


def _touch(name: str, site: Thresholds, resolved: Thresholds, why: str) -> str:
    """`idle_after 2 h instead of 30 min: annotation gpuhealth.io/idle-after`."""
    usual, here = (shown(name, getattr(values, name)) for values in (site, resolved))
    return f"{name} {here} instead of {usual}: {why}" if here != usual else f"{name} {here}: {why}"


def _merged(one: Finding, other: Finding) -> Finding:
    """Two hits of one rule on one subject: the worse one leads, the evidence of both stays."""
    first, second = sorted((one, other), key=lambda f: (f.severity.rank, f.confidence.rank))
    more = tuple(e for e in second.evidence if e not in first.evidence)
    wastes = [w for w in (one.waste_gpus, other.waste_gpus) if w is not None]
    return msgspec.structs.replace(
        first,
        evidence=first.evidence + more,
        gpus=one.gpus + other.gpus,
        waste_gpus=sum(wastes) if wastes else None,
        nodes=tuple(dict.fromkeys(one.nodes + other.nodes)),
        pods=tuple(dict.fromkeys(one.pods + other.pods)),
    )


class _Annotations:
    """Annotations that stand for a subject: its workload's, then those of its pods (a bare pod's own)."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def __call__(self, subject: Any) -> Mapping[str, str]:
        kind = getattr(subject, "kind", "Pod")
        namespace, name = getattr(subject, "namespace", ""), getattr(subject, "name", "")
        if kind == "Node":
            node = self.snapshot.node_by_name.get(name)
            return node.annotations if node else {}
        found: dict[str, str] = {}
        if kind == "Pod":
            pod = self.snapshot.pod_by_key.get(f"{namespace}/{name}")
            found |= pod.annotations if pod else {}
            if pod is not None and pod.root is not None and pod.root.kind != "Pod":
                found |= self(Subject.of_owner(pod.root))
        else:
            found |= self._of_pods(kind, namespace, name)
            workload = self.snapshot.workload_by_key.get((kind, namespace, name))
            found |= workload.annotations if workload else {}
        return found

    def _of_pods(self, kind: str, namespace: str, name: str) -> Mapping[str, str]:
        pods = self._pods_by_owner.get((kind, namespace, name), [])
        return {k: v for pod in pods for k, v in pod.annotations.items()}

    @cached_property
    def _pods_by_owner(self) -> dict[tuple[str, str, str], list[Pod]]:
        return {(o.kind, o.namespace, o.name): pods for o, pods in self.snapshot.pods_by_root.items()}
