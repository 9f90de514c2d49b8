"""What the pods of each workload demand of a node, and where those that wait may run."""

from collections import Counter
from collections.abc import Iterable

from diagnostics.picture.workloads import DemandLine, ReachLine
from diagnostics.placement import (
    POD_RULES,
    NodeRooms,
    affinity_words,
    pod_rule_words,
    selector_words,
    toleration_words,
)
from diagnostics.snapshot import Pod, Snapshot, Toleration
from diagnostics.text import printable

MOST_DEMANDS = 3
"""Of one workload that are kept."""
MOST_CHARACTERS = 400
"""Of each."""

_Demand = tuple[tuple[tuple[str, str], ...], str, tuple[Toleration, ...]]
"""Equal for pods that demand the same: selector, affinity, tolerations."""


class Demanding:
    """Asked for all workloads of one snapshot: alike pods are looked at once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._nodes = NodeRooms(snapshot)
        self._reaches: dict[tuple[_Demand, tuple[str, ...]], ReachLine] = {}
        self._last: tuple[Pod, _Demand] | None = None

    def lines_of(self, pods: Iterable[Pod]) -> tuple[DemandLine, ...]:
        """What the unfinished among `pods` demand, the commonest first."""
        counted: Counter[_Demand] = Counter()
        example: dict[_Demand, Pod] = {}
        for pod in pods:
            if not pod.is_finished:
                demand = self._demand(pod)
                counted[demand] += 1
                example.setdefault(demand, pod)
        return tuple(_line(example[demand], number) for demand, number in counted.most_common(MOST_DEMANDS))

    def reach_of(self, pod: Pod) -> ReachLine | None:
        """None for a pod that does not wait for GPUs by resource, and where nodes could not be read."""
        is_waiting = pod.phase == "Pending" and pod.node is None and pod.deletion_at is None
        if not is_waiting or not pod.gpus or pod.resource_claims or not self._nodes.rooms:
            return None
        most = max(pod.gpus, key=lambda resource: pod.gpus[resource])
        key = (self._demand(pod), (most, *sorted(pod.gpus)))
        if key not in self._reaches:
            reach = self._nodes.reach(pod)
            self._reaches[key] = ReachLine(
                reach.resource,
                len(reach.offering),
                len(reach.admitting),
                int(sum(reach.shares)),
                int(max(reach.shares, default=0)),
            )
        return self._reaches[key]

    def _demand(self, pod: Pod) -> _Demand:
        # Pods of one workload stand one after the other, and to compare is cheaper than to spell.
        if self._last is not None:
            before, demand = self._last
            if (
                pod.node_selector == before.node_selector
                and pod.affinity == before.affinity
                and pod.tolerations == before.tolerations
            ):
                return demand
        affinity = repr(pod.affinity) if pod.affinity else ""
        demand = (tuple(sorted(pod.node_selector.items())), affinity, pod.tolerations)
        self._last = pod, demand
        return demand


def _line(pod: Pod, pods: int) -> DemandLine:
    beside = "; ".join(f"{POD_RULES[field]}: {words}" for field, words in pod_rule_words(pod))
    return DemandLine(
        pods,
        printable(selector_words(pod), MOST_CHARACTERS),
        printable(affinity_words(pod), MOST_CHARACTERS),
        printable(beside, MOST_CHARACTERS),
        printable(toleration_words(pod), MOST_CHARACTERS),
    )
