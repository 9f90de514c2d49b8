"""What the rule about pods without a node finds in a snapshot."""

from typing import Any

from diagnostics.findings import Hit
from diagnostics.limits import Limits
from diagnostics.rules.scheduling.pending_gpu_pod import check
from diagnostics.snapshot import Taint
from tests.builders import snapshot

INSUFFICIENT = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
TAINT = Taint("nvidia.com/gpu", "NoSchedule", "present")
SILENT: dict[str, Any] = {"conditions": ()}
"""Of a pod of which nothing is said."""


def hits(*parts: Any, **fields: Any) -> list[Hit]:
    found = list(check(snapshot(*parts, **fields), Limits()))
    assert all(isinstance(hit, Hit) for hit in found)
    return [hit for hit in found if isinstance(hit, Hit)]


def hit(*parts: Any, **fields: Any) -> Hit:
    (found,) = hits(*parts, **fields)
    return found
