"""What the readings of all pending pods share: the room on each node, and which holders cannot work."""

from functools import cached_property

import msgspec

from diagnostics.findings import Evidence
from diagnostics.limits import Limits
from diagnostics.placement import NodeRooms
from diagnostics.placement.supply import Supply
from diagnostics.rules.scheduling.holders import trouble_of
from diagnostics.rules.scheduling.shut_out import ShutOut
from diagnostics.snapshot import Pod, Snapshot, Taint


class Unused(msgspec.Struct, frozen=True):
    """A holder that hardly uses its GPUs."""

    pod: Pod
    words: str
    """`research/nb-0 (2 GPUs on n1, idle, last active 3 d ago)`."""


class Trouble(msgspec.Struct, frozen=True):
    """A node that is not well."""

    words: str
    """`gpu-12: 1 GPU not healthy`."""
    room: str = ""
    """`7 of 8 GPUs healthy and free`; empty where unknown."""
    is_fit: bool = False
    """Ready, schedulable, and with healthy GPUs free for one such pod."""


class Reading(msgspec.Struct, frozen=True):
    """The reason for which a pod has no node."""

    cause: str
    words: str
    """Half a sentence: "… waits 12 min: <words>"."""
    is_shortage: bool | None = False
    """GPUs are lacking, the reason lies elsewhere, or (None) nothing here can tell."""
    is_sure: bool = True
    nodes: tuple[str, ...] = ()
    """Nodes that would take it if the GPUs that are stuck or unavailable on them were there."""
    facts: tuple[Evidence, ...] = ()
    places: tuple[str, ...] = ()
    """Nodes to look at first."""
    names: tuple[str, ...] = ()
    """What the reason is about: label keys, resources; as the cluster spells them."""
    taints: tuple[Taint, ...] = ()
    troubled: tuple[Trouble, ...] = ()
    """Of `places`, those that are in trouble of their own."""
    behind: tuple[str, ...] = ()
    """Namespaces whose GPU pods run on the tainted nodes."""
    unused: tuple[Unused, ...] = ()
    """Holders that hardly use their GPUs."""
    own_gpus: int = 0
    """GPUs that pods of its own job hold on the nodes that it could use."""
    has_working: bool = True
    """Other pods of its owner run, which a change of the template replaces too."""
    claim_api: str = ""
    """`resource.k8s.io/v1`, or what this cluster serves; set where device claims are what it waits for."""
    most: int | None = None
    """Devices that one node could give to a claim at most."""
    shut_out: ShutOut | None = None
    """Free GPUs that its own demands, or taints, keep from it; None where there are none."""

    @classmethod
    def told(
        cls,
        cause: str,
        words: str,
        *facts: Evidence,
        is_shortage: bool | None = False,
        names: tuple[str, ...] = (),
    ) -> "Reading":
        """One that rests on these facts."""
        return cls(cause, words, is_shortage, facts=facts, names=names)

    def with_facts(self, *facts: Evidence, first: bool = False) -> "Reading":
        merged = (*facts, *self.facts) if first else (*self.facts, *facts)
        return msgspec.structs.replace(self, facts=merged)


class Board(NodeRooms):
    """One snapshot, looked at for all pending pods together."""

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        super().__init__(snapshot)
        self.limits = limits

    @cached_property
    def supply(self) -> Supply:
        """What drivers publish for claims, and what is left of it."""
        return Supply(self.snapshot.dra)

    @cached_property
    def stuck_on(self) -> dict[str, list[tuple[Pod, str]]]:
        """Node -> (holder, why it cannot work)."""
        found: dict[str, list[tuple[Pod, str]]] = {}
        for pod in self.snapshot.pods:
            if pod.node is None or not pod.holds_gpus:
                continue
            trouble = trouble_of(pod, self.snapshot, self.limits.of(pod).values)
            if trouble is not None:
                found.setdefault(pod.node, []).append((pod, trouble.cause))
        return found
