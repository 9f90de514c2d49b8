"""The GPU-hour ledger: each device's time, exactly once.

record   a poll: marks -> pieces -> stays and sums, in the poll's own transaction
fill     unobserved time, replaced by what Prometheus knew
hours    the ledger's lines; `sums` by team, namespace, workload, model or state, with money
"""

from diagnostics.usage.filling import NobodyKnown, fill
from diagnostics.usage.reading import (
    Group,
    Grouping,
    Hour,
    Ledger,
    complete_through,
    gaps,
    hours,
    open_stays,
    sums,
)
from diagnostics.usage.recording import record

__all__ = [
    "Group",
    "Grouping",
    "Hour",
    "Ledger",
    "NobodyKnown",
    "complete_through",
    "fill",
    "gaps",
    "hours",
    "open_stays",
    "record",
    "sums",
]
