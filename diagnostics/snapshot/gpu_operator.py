"""The GPU Operator's own resources: what it was asked to run on the nodes, and how far it says that it is."""

from datetime import datetime

from diagnostics.snapshot.kubernetes import Condition, Struct


class OperatorResource(Struct, frozen=True, kw_only=True):
    """A ClusterPolicy, or an NVIDIADriver, which stands for the driver of some nodes. Both are cluster-wide."""

    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    created_at: datetime | None = None
    state: str = ""
    """ready, notReady, ignored (of a second ClusterPolicy), disabled; empty before the operator has spoken."""
    conditions: tuple[Condition, ...] = ()
    settings: dict[str, str] = {}
    """Dotted path in the spec -> value, of the few that decide how a driver gets onto a node: `driver.version`."""

    def condition(self, type_: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type_), None)
