"""The fault catalogue: what can go wrong, and for each its healthy twin.

A fault alters the state of the world, and says nothing about what should be found beyond the subject. A twin
is the same thing with one decisive fact changed, so that nothing is to be found.
"""

from collections.abc import Iterable

from diagnostics.simulator.faults import (
    boards,
    crowding,
    cuda_memory,
    cuda_stack,
    device_claims,
    gang_scheduling,
    gangs,
    hardware,
    holders,
    idle,
    lemons,
    local_storage,
    memory_use,
    node_stack,
    oom_killed,
    operator_causes,
    pending,
    preemption,
    probes,
    queues,
    quotas,
    refused,
    shared_memory,
    stranded,
    volume_use,
    volumes,
)
from diagnostics.simulator.faults.entry import Fault, Twin

# In the order in which they take their place: first those that need a certain node, last those that fill one up.
_FAMILIES = (
    node_stack,
    operator_causes,
    gangs,
    hardware,
    lemons,
    stranded,
    boards,
    preemption,
    idle,
    oom_killed,
    probes,
    cuda_memory,
    cuda_stack,
    shared_memory,
    local_storage,
    memory_use,
    holders,
    refused,
    device_claims,
    volumes,
    volume_use,
    crowding,
    pending,
    queues,
    quotas,
    gang_scheduling,
)

CATALOGUE: dict[str, Fault] = {f.slug: f for family in _FAMILIES for f in family.FAULTS}
TWINS: dict[str, Twin] = {t.slug: t for family in _FAMILIES for t in family.TWINS}


def in_order(slugs: Iterable[str]) -> list[Fault | Twin]:
    """Faults and twins by their slugs, each once. Raises ValueError for one that does not exist."""
    wanted = set(slugs)
    known: list[Fault | Twin] = [e for family in _FAMILIES for e in (*family.FAULTS, *family.TWINS)]
    if missing := wanted - {entry.slug for entry in known}:
        names = ", ".join(sorted(entry.slug for entry in known))
        raise ValueError(f"no such fault: {', '.join(sorted(missing))}; there are {names}")
    return [entry for entry in known if entry.slug in wanted]
