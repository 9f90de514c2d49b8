"""Nodes whose hardware failed again and again, far more often than that of the others, by the stored history."""

import statistics
from collections.abc import Iterator
from typing import NamedTuple

from diagnostics.findings import Subject
from diagnostics.limits import Limits
from diagnostics.snapshot import Node, Snapshot

TIMES_THE_MEDIAN = 3
"""Fewer may be chance, or trouble that all nodes have (ours)."""


class Offender(NamedTuple):
    node: Node
    times: int
    """Occasions in the last 30 days."""
    usual: float
    """On the median of the other nodes with GPUs."""
    others: int
    """How many those are."""


def offenders(snapshot: Snapshot, limits: Limits) -> Iterator[Offender]:
    """Nodes with GPUs that failed on `lemon_incidents_min` occasions or more; none without a history."""
    nodes = [node for node in snapshot.nodes if snapshot.gpus_by_node.get(node.name)]
    counts = {node.name: snapshot.past.incidents.get(node.name, 0) for node in nodes}
    for node in nodes:
        count = counts[node.name]
        if count < limits.of(Subject.of_node(node)).values.lemon_incidents_min:
            continue
        others = [c for name, c in counts.items() if name != node.name]
        usual = statistics.median(others) if others else 0.0
        if count >= TIMES_THE_MEDIAN * usual:
            yield Offender(node, count, usual, len(others))
