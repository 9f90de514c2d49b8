"""Some node would take the pod but for what is free there: which shortage it is, and what would end it."""

from collections.abc import Iterable, Sequence

import msgspec

from diagnostics.findings import Evidence
from diagnostics.placement import Reach, Room, give_back, is_fragmented
from diagnostics.quantities import gib
from diagnostics.rules.scheduling.board import Board, Reading
from diagnostics.rules.scheduling.freeing import candidates, easiest_first, holder_facts, own_gpus
from diagnostics.rules.scheduling.refusals import Refusal, Word
from diagnostics.rules.scheduling.shut_out import FREE_SOURCE
from diagnostics.snapshot import Pod
from diagnostics.text import counted, listed, printable


def short_of(
    pod: Pod,
    board: Board,
    open_rooms: Sequence[Room],
    reach: Reach,
    words: Refusal | None,
) -> Reading:
    """Some node would take it but for what is free there."""
    open_rooms = easiest_first(pod, open_rooms)
    lacking = {room.node.name: room.lacks(pod.effective_requests) for room in open_rooms}
    facts = (*_free_facts(pod, reach),)
    where = tuple(lacking)
    fits = [name for name, missing in lacking.items() if not missing]
    if fits:
        gang = board.snapshot.gang_by_pod.get(pod.key)
        waits = (words is not None and words.is_gang) or (gang is not None and gang.gang_scheduler != "")
        return _fits_now(fits, waits, facts)
    free_gpu = {name: missing for name, missing in lacking.items() if not any(n in pod.gpus for n in missing)}
    if free_gpu:
        return stranded(free_gpu, facts)
    held = _held_or_gone(pod, board, open_rooms, lacking, facts)
    if held is not None:
        return held
    is_said = words is None or words.mentions(Word.RESOURCE)
    if is_said and all(_after_gpus(pod, room) for room in open_rooms):
        return stranded({room.node.name: _after_gpus(pod, room) for room in open_rooms}, facts)
    pieces = _fragmented(pod, reach.admitting, facts)
    if pieces is not None:
        return pieces
    facts = (*facts, *holder_facts(pod, open_rooms, board))
    reading = _by_priority(pod, open_rooms, facts) or Reading(
        "no-capacity", "every GPU that it could use is held", is_shortage=True, facts=facts, places=where
    )
    return msgspec.structs.replace(
        reading, unused=candidates(open_rooms, board), own_gpus=own_gpus(pod, open_rooms)
    )


def _fits_now(fits: list[str], waits_for_gang: bool, facts: tuple[Evidence, ...]) -> Reading:
    if waits_for_gang:
        return Reading(
            "gang-waiting",
            "its gang scheduler waits until all members fit together",
            is_shortage=None,
            facts=facts,
            places=tuple(fits),
        )
    return Reading(
        "fits-now",
        f"there is room for it now on {listed([printable(f, 80) for f in fits], 3)}; its scheduler has not tried "
        "again, or refuses for a reason of its own",
        is_sure=False,
        facts=facts,
        places=tuple(fits),
    )


def stranded(lacking: dict[str, dict[str, float]], facts: tuple[Evidence, ...]) -> Reading:
    scarce = sorted({name for missing in lacking.values() for name in missing})
    rows = tuple(
        Evidence(
            f"missing on {printable(node, 80)}",
            listed([f"{_amount(name, amount)} {name}" for name, amount in sorted(missing.items())]),
            source=FREE_SOURCE,
        )
        for node, missing in list(lacking.items())[:5]
    )
    return Reading(
        "cpu-or-memory-stranded",
        f"the nodes with GPUs for it lack {listed(scarce)}",
        facts=(*facts, *rows),
        places=tuple(lacking),
        names=tuple(scarce),
    )


def _amount(name: str, amount: float) -> str:
    return gib(amount) if name in {"memory", "ephemeral-storage"} else f"{amount:g}"


def _held_or_gone(
    pod: Pod,
    board: Board,
    open_rooms: Sequence[Room],
    lacking: dict[str, dict[str, float]],
    facts: tuple[Evidence, ...],
) -> Reading | None:
    """GPUs that are held by pods that cannot work, or fitted and not allocatable, would be enough."""
    freed: dict[str, list[str]] = {}
    gone: list[str] = []
    unknown = all(board.capacity_left(pod, room) is None for room in open_rooms)
    for room in open_rooms:
        name = room.node.name
        stuck = board.stuck_on.get(name, [])
        missing = {n: amount for n, amount in lacking[name].items() if n in pod.gpus}
        back = {n: sum(holder.gpus.get(n, 0.0) for holder, _ in stuck) for n in missing}
        lost = {n: _unavailable(pod, room, n, board, is_only_place=unknown) for n in missing}
        if stuck and all(back[n] + lost[n] >= amount for n, amount in missing.items()):
            freed[name] = [
                f"{holder.key} ({cause}, {counted(holder.gpu_count, 'GPU')})" for holder, cause in stuck
            ]
        elif any(lost.values()) and all(lost[n] >= amount for n, amount in missing.items()):
            gone.append(name)
    nodes = (*freed, *gone)
    if freed:
        causes = {cause for name in freed for _, cause in board.stuck_on.get(name, [])}
        rows = tuple(
            Evidence(
                f"held on {printable(node, 80)} by pods that cannot work",
                listed([printable(h, 160) for h in held], 6),
                source="status of these pods",
            )
            for node, held in freed.items()
        )
        words = f"GPUs on {listed(list(freed), 3)} that would be enough are held by pods that cannot work"
        if causes == {"crash-loop"}:
            words = (
                f"GPUs on {listed(list(freed), 3)} that would be enough are reserved by crash-looping pods"
            )
        slug = "crashloop-pod-reserves-gpu" if causes == {"crash-loop"} else "held-by-stuck-pods"
        return Reading(slug, words, True, True, nodes, (*facts, *rows), nodes)
    if gone:
        words = f"GPUs on {listed(gone, 3)} that would be enough are fitted but not allocatable"
        rows = tuple(_fitted_fact(pod, board, name) for name in gone[:3])
        return Reading("gpus-unavailable-on-node", words, True, True, nodes, (*facts, *rows), nodes)
    return None


def _fitted_fact(pod: Pod, board: Board, node_name: str) -> Evidence:
    node = board.rooms[node_name].node
    name = max(pod.gpus, key=lambda resource: pod.gpus[resource])
    known = board.fitted(node, name)
    return Evidence(
        f"fitted and allocatable on {printable(node_name, 80)}",
        f"{'at least 1' if known is None else f'{known:.0f}'} and {node.allocatable.get(name, 0.0):.0f}",
        name,
        "status.capacity, labels and status.allocatable of the node",
    )


def _unavailable(pod: Pod, room: Room, name: str, board: Board, *, is_only_place: bool) -> float:
    """GPUs that are fitted and not allocatable.

    Where a PCI device is all that is known, one; or as many as are asked for, if no other node is left to blame.
    """
    known = board.fitted(room.node, name)
    if known is None:
        return pod.gpus[name] if is_only_place else 1.0
    return max(0.0, known - room.node.allocatable.get(name, 0.0))


def _after_gpus(pod: Pod, room: Room) -> dict[str, float]:
    """What would still be missing if the smallest holders left until the GPUs are enough."""
    free = dict(room.free)
    for holder in sorted(room.holders, key=lambda h: (h.gpu_count, h.key)):
        short = [name for name, amount in pod.gpus.items() if amount > free.get(name, 0.0)]
        if not short:
            break
        if any(name in holder.gpus for name in short):
            give_back(free, holder)
    missing = Room(room.node, free).lacks(pod.effective_requests)
    return {} if any(name in pod.gpus for name in missing) else missing


def _fragmented(pod: Pod, admitting: Sequence[Room], facts: tuple[Evidence, ...]) -> Reading | None:
    """Enough GPUs in pieces: now, or when it began to wait, before smaller pods took some of them."""
    name = max(pod.gpus, key=lambda resource: pod.gpus[resource])
    need = pod.gpus[name]
    now = [room.free.get(name, 0.0) for room in admitting]
    if sum(amount > 0 for amount in now) < 2:
        return None
    words = "enough GPUs are free, but in pieces on several nodes"
    if not is_fragmented(now, need):
        if pod.created_at is None:
            return None
        before = [room.free_before(name, pod.created_at) for room in admitting]
        if not is_fragmented(before, need):
            return None
        words = "the free GPUs are in pieces, and smaller pods have taken more of them since it began to wait"
        source = FREE_SOURCE + ", without pods scheduled since this pod was created"
        facts = (*facts, Evidence("free when it began to wait", f"{sum(before):.0f} or more", name, source))
    return Reading("fragmented", words, True, facts=facts, places=tuple(_names(admitting)))


def _by_priority(pod: Pod, open_rooms: Sequence[Room], facts: tuple[Evidence, ...]) -> Reading | None:
    """The missing GPUs are held by pods of lower priority that may not be preempted, or of higher priority."""
    mine = pod.priority or 0
    lower = [
        r for r in open_rooms if _fits_without(pod, r, [p for p in r.holders if (p.priority or 0) < mine])
    ]
    facts = (*facts, Evidence("its priority", str(mine), source=f"spec.priority of pod {pod.key}"))
    if lower and pod.preemption_policy == "Never":
        return Reading(
            "preemption-blocked",
            "pods of lower priority hold the GPUs, and its policy Never forbids to preempt them",
            is_shortage=True,
            facts=facts,
            places=tuple(_names(lower)),
        )
    equal = [
        r for r in open_rooms if _fits_without(pod, r, [p for p in r.holders if (p.priority or 0) <= mine])
    ]
    higher = [r for r in open_rooms if _fits_without(pod, r, r.holders)]
    if higher and not equal:
        return Reading(
            "lower-priority-cannot-preempt",
            "pods of higher priority hold the GPUs, and it may not preempt them",
            is_shortage=True,
            facts=facts,
            places=tuple(_names(higher)),
        )
    return None


def _fits_without(pod: Pod, room: Room, leaving: Sequence[Pod]) -> bool:
    return all(room.free_without(name, leaving) >= amount for name, amount in pod.gpus.items())


def _names(given: Iterable[Room]) -> list[str]:
    return [room.node.name for room in given]


def _free_facts(pod: Pod, reach: Reach) -> tuple[Evidence, ...]:
    name = reach.resource
    ranked = sorted(reach.admitting, key=lambda room: (-room.free.get(name, 0.0), room.node.name))
    first = [
        f"{printable(room.node.name, 80)} {max(0.0, room.free.get(name, 0.0)):.0f}" for room in ranked[:6]
    ]
    shares = listed(first, 6) + (f", {len(ranked) - 6} more nodes" if len(ranked) > 6 else "")
    total = sum(reach.shares)
    return (
        Evidence("asks for", f"{pod.gpus[name]:.0f}", name, f"spec.containers of pod {pod.key}"),
        Evidence("free on nodes that admit it", f"{total:.0f} ({shares})", name, FREE_SOURCE),
    )
