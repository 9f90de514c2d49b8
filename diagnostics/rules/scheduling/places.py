"""Why no node takes a pod, computed node by node: GPUs offered, labels, size, taints, cordons, then what is free."""

from collections.abc import Sequence

import msgspec

from diagnostics.findings import Evidence
from diagnostics.placement import (
    CONDITION_TAINTS,
    Reach,
    Room,
    is_cordoned_for,
    untolerated,
    wanted_labels,
)
from diagnostics.rules.scheduling.board import Board, Reading, Trouble
from diagnostics.rules.scheduling.demands import toleration_fact
from diagnostics.rules.scheduling.node_trouble import trouble_behind
from diagnostics.rules.scheduling.refusals import Refusal
from diagnostics.rules.scheduling.shortages import short_of
from diagnostics.rules.scheduling.shut_out import ShutOut, shut_out, spelled
from diagnostics.snapshot import Pod, Taint, gpu_resources
from diagnostics.text import counted, listed, printable

TROUBLE_SOURCE = "conditions of the node, health and Xids of its GPUs"


def read_nodes(pod: Pod, board: Board, words: Refusal | None) -> Reading:
    """The dominant reason as the nodes show it, with the free GPUs that its own demands or taints keep from it."""
    reach = board.reach(pod)
    if not reach.offering:
        return _no_such_resource(pod, board)
    return _beside(pod, _among(pod, board, words, reach), shut_out(pod, reach.offering), board)


def _beside(pod: Pod, reading: Reading, closed: ShutOut, board: Board) -> Reading:
    """Names the closed nodes: in the words where all that is left is full, beside them elsewhere."""
    is_taint = reading.cause == "untolerated-taint"
    reading = reading.with_facts(*closed.label_facts, *(() if is_taint else closed.taint_facts))
    is_told = is_taint or reading.cause in {"selector-matches-no-node", "fits-now"}
    if is_told or not closed.nodes:
        return reading
    words = closed.others if reading.cause == "no-capacity" else reading.words
    troubled = reading.troubled or _troubled(pod, closed.nodes, board)
    return msgspec.structs.replace(reading, words=words, shut_out=closed, troubled=troubled)


def _among(pod: Pod, board: Board, words: Refusal | None, reach: Reach) -> Reading:
    """The dominant reason among the nodes that have such GPUs."""
    if not reach.selected:
        return no_label_matches(pod, reach.offering)
    big = [room for room in reach.selected if _is_big_enough(pod, room, board)]
    if not big:
        return _larger(pod, reach.selected, board)
    open_rooms = [room for room in big if not hurdle(pod, room)]
    if not open_rooms:
        return kept_out(pod, big, board)
    return short_of(pod, board, open_rooms, reach, words)


def _is_big_enough(pod: Pod, room: Room, board: Board) -> bool:
    found = {name: board.fitted(room.node, name) for name in pod.gpus}
    return all(amount is None or amount >= pod.gpus[name] for name, amount in found.items())


def hurdle(pod: Pod, room: Room) -> str:
    """What keeps the pod off this node whatever is free there: `cordon`, `down`, `taint` or nothing."""
    if is_cordoned_for(pod, room.node):
        return "cordon"
    taints = untolerated(pod, room.node)
    if room.node.is_ready is False or any(taint.key in CONDITION_TAINTS for taint in taints):
        return "down"
    return "taint" if taints else ""


def _no_such_resource(pod: Pod, board: Board) -> Reading:
    wanted = listed(sorted(pod.gpus))
    offered = sorted({name for room in board.rooms.values() for name in gpu_resources(room.node.capacity)})
    return Reading(
        "no-such-resource",
        f"no node offers {wanted}",
        is_shortage=True,
        facts=(
            Evidence("asks for", wanted, source=f"spec.containers of pod {pod.key}"),
            Evidence(
                "GPU resources that nodes offer", listed(offered, 12), source="status.capacity of all nodes"
            ),
        ),
        names=tuple(offered),
    )


def no_label_matches(pod: Pod, offering: Sequence[Room]) -> Reading:
    facts, keys = [], []
    for key, operator, values in wanted_labels(pod):
        have = sorted({room.node.labels[key] for room in offering if key in room.node.labels})
        wanted = f"{operator} {listed([printable(v, 80) for v in values])}" if values else operator
        facts.append(Evidence(f"wants label {printable(key, 120)}", wanted, source=f"spec of pod {pod.key}"))
        shown = listed([printable(v, 80) for v in have], 8)
        facts.append(
            Evidence(f"values of {printable(key, 120)} on nodes with these GPUs", shown, source="node labels")
        )
        keys.append(key)
    return Reading(
        "selector-matches-no-node",
        f"none of the {counted(len(offering), 'node')} with these GPUs matches its node selector or affinity",
        facts=tuple(facts),
        places=tuple(room.node.name for room in offering),
        names=tuple(dict.fromkeys(keys)),
    )


def _larger(pod: Pod, selected: Sequence[Room], board: Board) -> Reading:
    name = max(pod.gpus, key=lambda resource: pod.gpus[resource])
    most = max((board.fitted(room.node, name) or 0) for room in selected)
    facts = [
        Evidence("asks for", f"{pod.gpus[name]:.0f}", name, f"spec.containers of pod {pod.key}, added up"),
        Evidence("most on one matching node", f"{most:.0f}", name, "status.capacity of the nodes"),
    ]
    asking = [c for c in pod.containers if c.gpus]
    if len(asking) > 1:
        shares = listed([f"{printable(c.name, 60)} {sum(c.gpus.values()):.0f}" for c in asking])
        facts.append(Evidence("per container", shares, name, f"spec.containers of pod {pod.key}"))
    return Reading(
        "pod-total-gpu-request-exceeds-node" if _adds_up(pod, name, most) else "larger-than-any-node",
        f"{_asks(pod, name)}, and no matching node has more than {most:.0f}",
        is_shortage=True,
        facts=tuple(facts),
        places=tuple(room.node.name for room in selected),
    )


def _asks(pod: Pod, name: str) -> str:
    number = sum(bool(c.gpus.get(name)) for c in pod.containers)
    how = f"its {number} containers together ask" if number > 1 else "it asks"
    return f"{how} for {pod.gpus[name]:.0f} GPUs in one pod"


def _adds_up(pod: Pod, name: str, most: float) -> bool:
    """Each container alone would fit on a node; together they do not."""
    asked = [c.gpus.get(name, 0.0) for c in pod.containers if c.gpus.get(name)]
    return len(asked) > 1 and max(asked) <= most


def kept_out(pod: Pod, big: Sequence[Room], board: Board) -> Reading:
    """Every node that is large enough keeps it out: the hurdle behind which there is room comes first."""
    order = {"taint": 0, "cordon": 1, "down": 2}
    ranked = sorted(
        big, key=lambda r: (bool(r.lacks(pod.effective_requests)), order[hurdle(pod, r)], r.node.name)
    )
    first = hurdle(pod, ranked[0])
    behind = [room for room in ranked if hurdle(pod, room) == first]
    names = [room.node.name for room in behind]
    if first == "taint":
        return _tainted(pod, behind, board)
    facts = (Evidence("nodes", listed(names), source="spec.unschedulable and conditions of the nodes"),)
    if first == "cordon":
        words = f"{listed(names)} would suit it but {'is' if len(names) == 1 else 'are'} cordoned"
        return Reading("node-cordoned", words, facts=facts, places=tuple(names))
    words = f"{listed(names)} would suit it but {'is' if len(names) == 1 else 'are'} not ready"
    return Reading("node-not-ready", words, is_shortage=True, facts=facts, places=tuple(names))


def _tainted(pod: Pod, behind: Sequence[Room], board: Board) -> Reading:
    """The taints that keep it off most of the nodes that have room; off most nodes, if none has."""
    fitting = [room for room in behind if not room.lacks(pod.effective_requests)] or behind
    groups: dict[tuple[Taint, ...], list[str]] = {}
    for room in fitting:
        groups.setdefault(untolerated(pod, room.node), []).append(room.node.name)
    taints, nodes = max(groups.items(), key=lambda group: (len(group[1]), -len(group[0])))
    source = f"spec.taints of {listed([printable(name, 80) for name in nodes], 3)}"
    troubled = _troubled(pod, nodes, board)
    holders = [one for name in nodes for one in board.rooms[name].holders if one.holds_gpus]
    return Reading(
        "untolerated-taint",
        f"it does not tolerate {listed([spelled(t) for t in taints], 3)} of {counted(len(nodes), 'node')}",
        facts=(
            *(Evidence("taint", spelled(taint), source=source) for taint in taints),
            toleration_fact(pod),
            *(Evidence("trouble behind the taint", t.words, source=TROUBLE_SOURCE) for t in troubled[:5]),
        ),
        places=tuple(nodes),
        taints=taints,
        troubled=troubled,
        behind=tuple(sorted({one.namespace for one in holders})),
    )


def _troubled(pod: Pod, nodes: Sequence[str], board: Board) -> tuple[Trouble, ...]:
    found = (trouble_behind(pod, board.rooms[name], board) for name in nodes)
    return tuple(trouble for trouble in found if trouble is not None)
