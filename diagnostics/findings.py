"""What diagnose() returns: findings with evidence and a guided fix, and what could not be judged."""

import hashlib
from datetime import datetime
from enum import StrEnum

import msgspec

from diagnostics.fixes import Fix
from diagnostics.quantities import rfc3339
from diagnostics.snapshot import Node, OwnerKey, Pod, Source


class Severity(StrEnum):
    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 is worst: sort ascending."""
        return list(Severity).index(self)


class Confidence(StrEnum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def rank(self) -> int:
        return list(Confidence).index(self)


class Subject(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a finding is about; its kind, namespace and name identify it across polls (the UID does not)."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = ""

    @classmethod
    def of_node(cls, node: Node) -> "Subject":
        return cls(kind="Node", name=node.name, uid=node.uid, api_version="v1")

    @classmethod
    def of_owner(cls, owner: OwnerKey) -> "Subject":
        return cls(owner.kind, owner.name, owner.namespace, owner.uid, owner.api_version)

    @classmethod
    def of_pod(cls, pod: Pod) -> "Subject":
        """The pod's root owner: pods of one owner merge into one finding. A bare pod is its own."""
        return cls.of_owner(pod.root or OwnerKey("Pod", pod.namespace, pod.name, "v1", pod.uid))

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """One fact: what, its value, the unit, and where it was read (object field, query or log line)."""

    label: str
    value: str
    unit: str = ""
    source: str = ""
    at: datetime | None = None
    """The moment that `value` spells, alone or among other words, as `quantities.rfc3339` does: pages show it in
    their own way."""

    @classmethod
    def of_moment(cls, label: str, at: datetime | None, source: str = "") -> "Evidence":
        """A fact whose value is a moment; None is unknown."""
        return cls(label, "unknown" if at is None else rfc3339(at), source=source, at=at)


class Hit(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rule yields: a finding without its id, code, slug and severity."""

    subject: Subject
    cause: str
    """Slug of the cause."""
    title: str
    summary: str
    """What is wrong and what it means, in plain words, two or three sentences."""
    evidence: tuple[Evidence, ...]
    fix: Fix
    confidence: Confidence = Confidence.HIGH
    severity: Severity | None = None
    """Overrides the rule's own severity for this hit."""
    gpus: int = 0
    """GPUs that the finding concerns."""
    waste_gpus: float | None = None
    """GPUs wasted for as long as it lasts; None where it wastes none or nothing is known."""
    nodes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    """Nodes and pods (`namespace/name`) that it touches: how causes find their symptoms."""


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A hit with its identity, its rule's metadata and the findings that explain it."""

    id: str
    """Fingerprint: equal for the same trouble at every poll."""
    code: str
    slug: str
    severity: Severity
    confidence: Confidence
    cause: str
    subject: Subject
    title: str
    summary: str
    evidence: tuple[Evidence, ...]
    fix: Fix
    gpus: int = 0
    waste_gpus: float | None = None
    caused_by: tuple[str, ...] = ()
    """Ids of the findings that explain this one; empty for a root."""
    held: bool = False
    """Past its holding time; a one-shot run cannot know and says False."""
    nodes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    """Overrides and annotations that touched it, in words."""


class Unjudged(msgspec.Struct, frozen=True):
    """A rule could look, but not at this subject: neither opens nor resolves anything for it."""

    subject: Subject
    reason: str


class Blind(msgspec.Struct, frozen=True, kw_only=True):
    """A blind spot: what cannot be seen, and the line that cures it."""

    what: str
    cure: str
    source: Source | None = None


class Coverage(msgspec.Struct, frozen=True):
    code: str
    what: str
    cure: str


class SkippedRule(msgspec.Struct, frozen=True):
    code: str
    reason: str


class FailedRule(msgspec.Struct, frozen=True):
    code: str
    error: str


class Exempted(msgspec.Struct, frozen=True):
    """A hit that an override or annotation silenced."""

    code: str
    subject: Subject
    reason: str


class UnjudgedSubject(msgspec.Struct, frozen=True):
    code: str
    finding_id: str
    subject: Subject
    reason: str


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """All that one pass of the rules over one snapshot says."""

    findings: tuple[Finding, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    skipped: tuple[SkippedRule, ...] = ()
    """Rules that could not look at all."""
    partial: tuple[SkippedRule, ...] = ()
    """Rules that looked at incomplete data: what they find counts, what they do not find proves nothing."""
    failed: tuple[FailedRule, ...] = ()
    exempted: tuple[Exempted, ...] = ()
    unjudged: tuple[UnjudgedSubject, ...] = ()


def fingerprint(cluster_id: str, code: str, subject: Subject) -> str:
    """16 hex digits from cluster, code and the subject's kind, namespace and name (the cause is no part)."""
    parts = "\x00".join((cluster_id, code, subject.kind, subject.namespace, subject.name))
    return hashlib.sha256(parts.encode()).hexdigest()[:16]
