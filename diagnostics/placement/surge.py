"""Whether a rolling update of a Deployment would hang: it starts new pods first, and there may be no room for one."""

from math import ceil, floor
from typing import Any

from diagnostics.placement.matching import admits
from diagnostics.placement.room import rooms
from diagnostics.snapshot import Pod, Snapshot

DEFAULT = "25%"
"""maxSurge and maxUnavailable of a Deployment that names none (Kubernetes API, RollingUpdateDeployment)."""


def update_hangs(pod: Pod, snapshot: Snapshot) -> bool:
    """A new pod comes before an old one may go, and no node has room for one more like `pod`.

    False for other owners, which replace a pod in its place, and where Deployment or nodes could not be read.
    """
    root = pod.root
    owner = snapshot.workload_by_key.get((root.kind, root.namespace, root.name)) if root else None
    if owner is None or owner.kind != "Deployment" or not owner.spec or not snapshot.nodes:
        return False
    strategy = _mapping(owner.spec.get("strategy"))
    if strategy.get("type") == "Recreate" or _may_be_down(
        _mapping(strategy.get("rollingUpdate")), owner.replicas
    ):
        return False
    return not any(
        admits(pod, room.node) and not room.lacks(pod.effective_requests) for room in rooms(snapshot).values()
    )


def _may_be_down(rolling: dict[str, Any], replicas: int | None) -> bool:
    """An old pod may go first. A share of maxUnavailable is rounded down, of maxSurge up; both 0 count as 1 down."""
    wanted = 1 if replicas is None else replicas
    down = _amount(rolling.get("maxUnavailable", DEFAULT), wanted, floor)
    up = _amount(rolling.get("maxSurge", DEFAULT), wanted, ceil)
    return down > 0 or up == 0


def _amount(value: Any, replicas: int, rounded: Any) -> int:
    if isinstance(value, str) and value.endswith("%") and value[:-1].isdigit():
        return int(rounded(replicas * int(value[:-1]) / 100))
    return value if isinstance(value, int) else 0


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
