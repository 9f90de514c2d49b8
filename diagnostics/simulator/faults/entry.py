"""One entry of the catalogue."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from diagnostics.simulator.world import World

Apply = Callable[[World], None]


@dataclass(frozen=True)
class Fault:
    slug: str
    rule: str
    """Slug of the rule that is to find it."""
    twin: str
    """Slug of its healthy twin in `TWINS`."""
    kind: str
    """With namespace and name: the subject of the finding in a cluster with this fault alone. A GPU's name is
    `node/pci address in lower case`. Where several faults share a cluster `World.expected` has the subjects."""
    name: str
    cause: str
    """In words."""
    apply: Apply
    namespace: str = ""
    also: tuple[str, ...] = ()
    """Rules that rightly find its consequences besides."""
    needs_prometheus: bool = False
    """Nothing but a Prometheus tells of it: exporters of GPU metrics do not."""
    looks: tuple[timedelta, ...] = ()
    """How long before its epoch polls have to have seen the cluster, the oldest first: only what was stored of them
    tells of it."""


def waiting(
    slug: str,
    twin: str,
    kind: str,
    path: str,
    cause: str,
    apply: Apply,
    rule: str = "pending-gpu-pod",
    also: tuple[str, ...] = (),
) -> Fault:
    """A fault that keeps pods waiting; its subject goes by `namespace/name`."""
    namespace, name = path.split("/")
    return Fault(slug, rule, twin, kind, name, cause, apply, namespace=namespace, also=also)


@dataclass(frozen=True)
class Twin:
    slug: str
    decisive: str
    """The one fact in which it differs from its fault."""
    apply: Apply
    also: tuple[str, ...] = ()
    """Rules that rightly find something, though not what its fault's rule looks for."""
    needs_prometheus: bool = False
    looks: tuple[timedelta, ...] = ()
