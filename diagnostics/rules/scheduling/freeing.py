"""How the GPUs of a full node could come free: which node is the nearest to it, and which holders do not use theirs."""

from collections.abc import Iterator, Sequence
from math import inf

from diagnostics.findings import Evidence
from diagnostics.placement import Room
from diagnostics.quantities import percent, span
from diagnostics.rules.scheduling.board import Board, Unused
from diagnostics.snapshot import Pod, State
from diagnostics.states import effective_activity, usable_window
from diagnostics.text import counted, listed, printable

MOST_NODES = 4
"""Nodes whose holders are spelled out; the rest is named."""
MOST_HOLDERS = 16
_UNUSED = {State.IDLE_EMPTY, State.IDLE_HELD, State.INEFFECTIVE}


def easiest_first(pod: Pod, given: Sequence[Room]) -> list[Room]:
    """By what has to come free for one such pod: fewest GPUs, then fewest holders, then the name."""
    return sorted(given, key=lambda room: (*to_free(pod, room), room.node.name))


def to_free(pod: Pod, room: Room) -> tuple[float, int]:
    """Fewest GPUs that holders must give up for the pod's GPUs to fit, and how many holders that takes.

    Pods of its own owner do not count: it is to run beside them. (inf, 0) where the others do not have enough.
    """
    freed, leaving = 0.0, 0
    for name, amount in pod.gpus.items():
        short = amount - room.free.get(name, 0.0)
        if short <= 0:
            continue
        fewest: dict[float, int] = {0.0: 0}
        for holder in room.holders:
            held = holder.effective_requests.get(name, 0.0)
            is_own = pod.root is not None and holder.root == pod.root
            for total, number in tuple(fewest.items()) if held and not is_own else ():
                fewest[total + held] = min(number + 1, fewest.get(total + held, number + 1))
        enough = min((total for total in fewest if total >= short), default=None)
        if enough is None:
            return inf, 0
        freed, leaving = freed + enough, leaving + fewest[enough]
    return freed, leaving


def holder_facts(pod: Pod, given: Sequence[Room], board: Board) -> Iterator[Evidence]:
    """Who holds the GPUs of these nodes, in their order, and what would have to leave for one such pod."""
    for room in given[:MOST_NODES]:
        held = [_holder(holder, board) for holder in room.holders if holder.gpus]
        if held:
            freed, leaving = to_free(pod, room)
            least = f"; one such pod needs {pod.gpu_count}: {counted(leaving, 'holder')} with {freed:.0f} must end"
            least = least if 0 < freed < inf else ""
            label = f"GPUs held on {printable(room.node.name, 80)}"
            yield Evidence(
                label,
                f"{listed(held, MOST_HOLDERS)}{least}",
                source="spec and measured activity of bound pods",
            )
    more = [printable(room.node.name, 80) for room in given[MOST_NODES:]]
    if more:
        label = "held on further nodes that admit it"
        yield Evidence(label, f"{counted(len(more), 'node')}: {listed(more, 8)}", source="spec of bound pods")


def _holder(holder: Pod, board: Board) -> str:
    unused = unused_words(holder, board)
    shown = f"{printable(holder.key, 160)} {holder.gpu_count} (priority {holder.priority or 0}"
    return f"{shown}, {unused})" if unused else f"{shown})"


def own_gpus(pod: Pod, given: Sequence[Room]) -> int:
    """GPUs that other pods of its owner hold on these nodes."""
    if pod.root is None or pod.root.kind == "Pod":
        return 0
    return sum(holder.gpu_count for room in given for holder in room.holders if holder.root == pod.root)


def candidates(given: Sequence[Room], board: Board) -> tuple[Unused, ...]:
    """Holders on these nodes that hardly use their GPUs, the idle ones first; stuck ones have a rule of their own."""
    found = [
        (
            words,
            Unused(
                holder,
                f"{printable(holder.key, 160)} ({counted(holder.gpu_count, 'GPU')} on {printable(node, 80)}, {words})",
            ),
        )
        for room in given
        for holder in room.holders
        if (node := room.node.name) and (words := unused_words(holder, board))
    ]
    return tuple(said for words, said in sorted(found, key=lambda pair: not pair[0].startswith("idle")))


def unused_words(holder: Pod, board: Board) -> str:
    """`idle, last active 3 d ago`, `hardly at work: 2 % …`; empty where it works, or where nothing says."""
    snapshot = board.snapshot
    gpus = snapshot.gpus_by_pod.get(holder.key, [])
    if not gpus or any(gpu.state not in _UNUSED for gpu in gpus):
        return ""
    if all(gpu.state is not State.INEFFECTIVE for gpu in gpus):
        seen = [moment for gpu in gpus if (moment := snapshot.past.last_active.get(gpu.slot)) is not None]
        since = max(
            (moment for moment in seen if holder.started_at and moment >= holder.started_at), default=None
        )
        return f"idle, last active {span(snapshot.age(since))} ago" if since else "idle"
    thresholds = board.limits.of(holder).values
    windows = [window for gpu in gpus if (window := usable_window(gpu, snapshot, thresholds)) is not None]
    most = max(
        (activity for window in windows if (activity := effective_activity(window)) is not None), default=None
    )
    return "" if most is None else f"hardly at work: {percent(most)} over {span(windows[0].span)}"
