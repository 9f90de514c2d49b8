"""Free GPUs out of a waiting pod's reach: its selector or affinity rules their nodes out, or a taint does."""

from collections.abc import Iterable, Sequence

import msgspec

from diagnostics.findings import Evidence
from diagnostics.placement import Room, selects, untolerated
from diagnostics.rules.scheduling.demands import demand, label_facts, toleration_fact
from diagnostics.snapshot import Pod, Taint
from diagnostics.text import counted, listed, printable

FREE_SOURCE = "status.allocatable of the nodes minus the requests of bound, unfinished pods"
MOST_NODES = 8
"""Nodes that are named; the rest is counted."""


class ShutOut(msgspec.Struct, frozen=True):
    """Nodes that are up and have such GPUs free, and that the pod's own spec or their taints close to it.

    Those that both of them close are evidence alone: no single change leads there.
    """

    demand: str
    """What of the pod rules nodes out by their labels; empty where it has nothing of the kind."""
    by_labels: tuple[str, ...]
    by_taints: tuple[str, ...]
    free: int
    fitting: tuple[str, ...]
    """Those on which one such pod would fit as it is."""
    is_full: bool
    """Nothing at all is free on the nodes that are left."""
    label_facts: tuple[Evidence, ...]
    taint_facts: tuple[Evidence, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        return (*self.by_labels, *self.by_taints)

    @property
    def others(self) -> str:
        """`every node that its selector admits is full; 28 GPUs are free on 9 others`."""
        parts = [f"that its {self.demand} admits"] if self.by_labels else []
        parts += ["whose taints it tolerates"] if self.by_taints else []
        left = "is full" if self.is_full else "has too few free GPUs"
        return f"every node {' and '.join(parts)} {left}; {self.elsewhere}"

    @property
    def elsewhere(self) -> str:
        verb = "is" if self.free == 1 else "are"
        number = len(self.nodes)
        return f"{counted(self.free, 'GPU')} {verb} free on {number} other{'s' if number > 1 else ''}"

    @property
    def by_what(self) -> str:
        """What closes those nodes: `its selector and their taints`."""
        parts = [f"its {self.demand}"] if self.by_labels else []
        return " and ".join([*parts, *(["their taints"] if self.by_taints else [])])


def shut_out(pod: Pod, offering: Sequence[Room]) -> ShutOut:
    """What the pod's demands and the taints of nodes keep from it; `offering`: nodes with such GPUs.

    Nodes that are cordoned or not ready give nobody anything and are left out.
    """
    name = max(pod.gpus, key=lambda resource: pod.gpus[resource])
    up = [room for room in offering if room.node.is_ready is not False and not room.node.unschedulable]
    spare = sorted(
        (room for room in up if room.free.get(name, 0.0) >= 1), key=lambda r: (-r.free[name], r.node.name)
    )
    unselected = [room for room in spare if not selects(pod, room.node)]
    by_labels = [room for room in unselected if not untolerated(pod, room.node)]
    by_both = [room for room in unselected if untolerated(pod, room.node)]
    by_taints = [room for room in spare if selects(pod, room.node) and untolerated(pod, room.node)]
    closed = (*by_labels, *by_taints)
    return ShutOut(
        demand=demand(pod),
        by_labels=_names(by_labels),
        by_taints=_names(by_taints),
        free=int(sum(room.free[name] for room in closed)),
        fitting=_names(room for room in closed if not room.lacks(pod.effective_requests)),
        is_full=len(closed) + len(by_both) == len(spare),
        label_facts=_label_facts(pod, offering, by_labels, by_both, name),
        taint_facts=_taint_facts(pod, by_taints, name),
    )


def spelled(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return printable(f"{taint.key}{value}:{taint.effect}", 160)


def _names(given: Iterable[Room]) -> tuple[str, ...]:
    return tuple(room.node.name for room in given)


def _label_facts(
    pod: Pod, offering: Sequence[Room], closed: Sequence[Room], by_both: Sequence[Room], name: str
) -> tuple[Evidence, ...]:
    asked = label_facts(pod)
    if not asked:
        return ()
    admitted = sum(selects(pod, room.node) for room in offering)
    words = f"{admitted} of {counted(len(offering), 'node')}"
    both = "free on nodes that it rules out and that are tainted, too"
    return (
        *asked,
        Evidence(f"{demand(pod)} admits", words, f"with {name}", "node labels"),
        _free_fact("free on nodes that it rules out", closed, name),
        *((_free_fact(both, by_both, name),) if by_both else ()),
    )


def _taint_facts(pod: Pod, closed: Sequence[Room], name: str) -> tuple[Evidence, ...]:
    if not closed:
        return ()
    taints = sorted({spelled(taint) for room in closed for taint in untolerated(pod, room.node)})
    where = listed([printable(room.node.name, 80) for room in closed], 3)
    return (
        Evidence("taints that it does not tolerate", listed(taints), source=f"spec.taints of {where}"),
        toleration_fact(pod),
        _free_fact("free on nodes with these taints", closed, name),
    )


def _free_fact(label: str, closed: Sequence[Room], name: str) -> Evidence:
    shares = listed([f"{printable(r.node.name, 80)} {r.free[name]:.0f}" for r in closed], MOST_NODES)
    total = sum(room.free[name] for room in closed)
    return Evidence(label, f"{total:.0f} ({shares})" if closed else "0", name, FREE_SOURCE)
