"""What a scheduler says about a pod that it did not place, read into parts.

Grammar (kube-scheduler 1.2x to 1.37): `0/N nodes are available: ` then `COUNT reason` items joined by commas, or
one text without a count from a pre-filter, then optionally `preemption: ` with items of its own. Counts can exceed
N: a node reports every resource that it lacks. From the pod's condition, which stays; else from the last event.
"""

import re
from enum import StrEnum

import msgspec

from diagnostics.snapshot import GPU_RESOURCE_PREFIXES, Pod, Snapshot
from diagnostics.text import printable

LONGEST = 4000
"""Characters of a message that are read; events hold 1 KiB."""
_HEAD = re.compile(r"(\d+)/(\d+) nodes are (?:un)?available: ", re.IGNORECASE)
_TAIL = re.compile(r"\.?\s*(?:no new claims to deallocate, |still not schedulable, )?preemption: ")
_ITEM = re.compile(r"(\d+) (.+?)(?=, \d+ |$)")
_GANG = (
    "pod group is not ready",
    "pod group is unschedulable",
    "sibling pods",
    "tasks in gang unschedulable",
)


class Word(StrEnum):
    """What one reason is about. The order of kube-scheduler's filters is kept: later ones passed the earlier."""

    CORDON = "cordon"
    TAINT = "taint"
    SELECTOR = "selector"
    PORTS = "ports"
    GPU = "gpu"
    RESOURCE = "resource"
    VOLUME = "volume"
    SPREAD = "topology-spread"
    AFFINITY = "pod-affinity"
    ANTI_AFFINITY = "anti-affinity"
    CLAIM = "claim"
    OTHER = "other"


PAST_RESOURCES = frozenset({Word.VOLUME, Word.SPREAD, Word.AFFINITY, Word.ANTI_AFFINITY})
"""A node that is refused for one of these had the GPUs, CPU and memory: the filters run in a fixed order."""


class Refusal(msgspec.Struct, frozen=True):
    """One message in parts."""

    text: str
    """The scheduler's own words, printable."""
    source: str
    """Where they were read."""
    items: tuple[tuple[int, Word, str], ...] = ()
    """(nodes, what it is about, reason) in the message's order; a text without a count has 0 nodes."""
    is_gang: bool = False
    """A gang scheduler that waits for the other members."""

    def nodes_refused_for(self, word: Word) -> int:
        return sum(count for count, about, _ in self.items if about is word)

    def mentions(self, word: Word) -> bool:
        return any(about is word for _, about, _ in self.items)

    @property
    def past_resources(self) -> Word | None:
        """The commonest reason of a filter that runs after the one for resources."""
        late = [(count, word) for count, word, _ in self.items if word in PAST_RESOURCES]
        return max(late, key=lambda pair: pair[0])[1] if late else None


def refusal_of(pod: Pod, snapshot: Snapshot) -> Refusal | None:
    """What its scheduler said last about this pod; None when it said nothing."""
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False" and scheduled.message:
        return parsed(scheduled.message, f"condition PodScheduled of pod {printable(pod.key, 120)}")
    events = [
        event
        for event in snapshot.events_by_object.get(("Pod", pod.namespace, pod.name), ())
        if event.reason == "FailedScheduling" and event.component in ("", pod.scheduler, "default-scheduler")
    ]
    said = [event for event in events if event.uid in ("", pod.uid)]
    if not said:
        return None
    return parsed(said[-1].message, f"event FailedScheduling of pod {printable(pod.key, 120)}")


def parsed(message: str, source: str = "") -> Refusal:
    """A message in parts; one that does not follow the grammar becomes a single item without a count."""
    text = printable(message, LONGEST)
    is_gang = any(words in text for words in _GANG)
    head = _HEAD.search(text)
    tail = _TAIL.search(text)
    body = text[head.end() if head else 0 : tail.start() if tail else len(text)].rstrip(". ")
    found = [(int(count), reason) for count, reason in _ITEM.findall(body)] if head else []
    if not found and body:
        found = [(0, body)]
    items = tuple((count, _about(reason), reason) for count, reason in found)
    return Refusal(text, source, items, is_gang)


def _about(reason: str) -> Word:
    if reason.startswith(("Insufficient ", "Too many pods")):
        is_gpu = reason.removeprefix("Insufficient ").startswith(GPU_RESOURCE_PREFIXES)
        return Word.GPU if is_gpu else Word.RESOURCE
    lower = reason.lower()
    tests: tuple[tuple[Word, tuple[str, ...]], ...] = (
        (Word.ANTI_AFFINITY, ("anti-affinity",)),
        (Word.AFFINITY, ("pod affinity",)),
        (Word.SPREAD, ("topology spread",)),
        (Word.VOLUME, ("persistentvolume", "volume", "readwriteoncepod")),
        (Word.CLAIM, ("claims", "resourceclaim", "device class", "deviceclass")),
        (Word.SELECTOR, ("node affinity", "node selector", "nodeselector")),
        (Word.TAINT, ("taint",)),
        (Word.CORDON, ("were unschedulable",)),
        (Word.PORTS, ("free ports",)),
    )
    return next((word for word, parts in tests if any(part in lower for part in parts)), Word.OTHER)
