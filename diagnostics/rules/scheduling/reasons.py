"""Why one GPU pod is not placed: the dominant reason, from its scheduler's words and from nodes and pods.

The words alone do not do: they name no taint since Kubernetes 1.35, they count nodes without any GPU as
"Insufficient nvidia.com/gpu", and a node's checks end at the first filter that refuses. So each reason is computed
from the nodes, and the words decide only what nodes cannot show (volumes, affinity to pods, claims, gates).
"""

from diagnostics.findings import Evidence
from diagnostics.rules.scheduling.board import Board, Reading
from diagnostics.rules.scheduling.claim_readings import claims_reading
from diagnostics.rules.scheduling.demands import pod_rule_facts
from diagnostics.rules.scheduling.kueue import GATES, is_admitted, standing, workload_of
from diagnostics.rules.scheduling.places import read_nodes
from diagnostics.rules.scheduling.pod_groups import (
    fragmented_by_quota,
    group_of,
    is_known_missing,
    missing_group,
    too_few,
    whole_gang,
    yunikorn_quota,
)
from diagnostics.rules.scheduling.refusals import Refusal, Word, refusal_of
from diagnostics.rules.scheduling.volcano import kept_back
from diagnostics.rules.scheduling.volumes import has_unanswered_claim, volume_reading
from diagnostics.snapshot import Pod, Source
from diagnostics.text import counted, listed, printable

NOT_A_SHORTAGE = {
    Word.VOLUME: ("volume", "its volume is not ready or is bound to another place"),
    Word.SPREAD: ("topology-spread", "its topology spread constraints leave no node"),
    Word.AFFINITY: (
        "affinity-excludes-gpu-node",
        "it must sit beside pods that are not on any suitable node",
    ),
    Word.ANTI_AFFINITY: ("anti-affinity", "its anti-affinity rules out the nodes that have room"),
    Word.CLAIM: ("claim-not-allocatable", "its device claim cannot be allocated"),
    Word.PORTS: ("host-ports", "the host ports it asks for are taken"),
    Word.TAINT: ("untolerated-taint", "it does not tolerate the nodes' taints"),
    Word.SELECTOR: ("selector-matches-no-node", "no node matches its selector or node affinity"),
    Word.CORDON: ("node-cordoned", "the nodes that suit it are cordoned"),
    Word.RESOURCE: ("cpu-or-memory-stranded", "the nodes lack CPU or memory for it"),
}
"""What the words say where nodes could not be read: (cause, in words)."""


def reading_of(pod: Pod, board: Board) -> Reading:
    """The dominant reason for which this pending pod has no node."""
    words = refusal_of(pod, board.snapshot)
    reading = (
        _by_queue(pod, board, words)
        or _by_claims(pod, board, words)
        or _without_words(pod, board, words)
        or _from_words(pod, board, words)
    )
    if reading is None:
        reading = read_nodes(pod, board, words) if board.rooms and pod.gpus else _words_only(words)
        reading = whole_gang(pod, board, reading)
        if reading.cause == "fragmented":
            is_let_in = is_admitted(pod, board.snapshot)
            reading = fragmented_by_quota(pod, reading, is_admitted=is_let_in)
    if words is None:
        return reading
    said = Evidence("scheduler says", words.text, source=words.source)
    return reading.with_facts(said, first=True)


def _by_queue(pod: Pod, board: Board, words: Refusal | None) -> Reading | None:
    """What a queue or a pod group holds back, whatever is free on the nodes."""
    snapshot = board.snapshot
    if pod.scheduling_gates:
        # A gate of somebody else stays when Kueue's is lifted.
        if not all(gate.startswith(GATES) for gate in pod.scheduling_gates):
            return None
        workload = workload_of(pod, snapshot)
        return standing(workload, snapshot) if workload is not None else None
    if is_known_missing(pod, snapshot):
        return missing_group(pod)
    group = group_of(pod, snapshot)
    if group is not None and group.system == "volcano":
        reading = kept_back(group, snapshot)
        if reading is not None:
            return reading
    return too_few(pod, snapshot, words) or yunikorn_quota(pod, snapshot)


def _by_claims(pod: Pod, board: Board, words: Refusal | None) -> Reading | None:
    """What its device claims wait for, unless something holds it back before them."""
    if pod.scheduling_gates or pod.nominated_node:
        return None
    return claims_reading(pod, board, words)


def _without_words(pod: Pod, board: Board, words: Refusal | None) -> Reading | None:
    """Gates, a nomination, and schedulers that say nothing."""
    if pod.scheduling_gates:
        gates = listed([printable(gate, 80) for gate in pod.scheduling_gates])
        return Reading(
            "scheduling-gate",
            f"held back by the scheduling gate {gates}; no scheduler looks at it yet",
            facts=(Evidence("scheduling gates", gates, source=f"spec.schedulingGates of pod {pod.key}"),),
        )
    unbound = has_unanswered_claim(pod, board)
    if pod.nominated_node and not (words is None and unbound):
        node = printable(pod.nominated_node, 80)
        return Reading(
            "waiting-for-preemption",
            f"node {node} is promised to it once the pods that it preempts are gone",
            is_shortage=True,
            facts=(Evidence("nominated node", node, source=f"status.nominatedNodeName of pod {pod.key}"),),
        )
    if words is not None:
        return None
    if unbound:
        return volume_reading(pod, board, words)
    if pod.resource_claims:
        return _claim_missing(pod)
    if pod.pod_group and group_of(pod, board.snapshot) is None:
        return missing_group(pod, is_sure=False)
    return _silent_scheduler(pod, board)


def _silent_scheduler(pod: Pod, board: Board) -> Reading:
    name = printable(pod.scheduler or "default-scheduler", 80)
    placed = sum(
        other.scheduler == pod.scheduler and other.condition("PodScheduled") is not None
        for other in board.snapshot.pods
    )
    return Reading(
        "no-scheduler",
        f"the scheduler {name} has said nothing about it",
        is_sure=not placed and board.snapshot.source(Source.EVENTS).state.is_usable,
        facts=(
            Evidence("scheduler", name, source=f"spec.schedulerName of pod {pod.key}"),
            Evidence(
                "other pods that it has judged", str(placed), "pods", "condition PodScheduled of all pods"
            ),
        ),
    )


def _claim_missing(pod: Pod) -> Reading:
    claims = listed([printable(claim, 80) for claim in pod.resource_claims])
    return Reading(
        "claim-missing",
        f"a resource claim that it names does not exist: {claims}",
        facts=(Evidence("resource claims", claims, source=f"spec.resourceClaims of pod {pod.key}"),),
    )


def _from_words(pod: Pod, board: Board, words: Refusal | None) -> Reading | None:
    """Reasons that only the words can show."""
    if words is None:
        return None
    if words.mentions(Word.CLAIM):
        missing = "not found" in words.text or "waiting for dynamic resource controller" in words.text
        if missing:
            return _claim_missing(pod)
        return Reading(*NOT_A_SHORTAGE[Word.CLAIM], is_shortage=None)
    late = words.past_resources
    if late is Word.VOLUME:
        return volume_reading(pod, board, words)
    if late is not None:
        return _by_a_rule(pod, board, words, late)
    if words.mentions(Word.PORTS) and not words.mentions(Word.GPU):
        return Reading(*NOT_A_SHORTAGE[Word.PORTS])
    return None


def _by_a_rule(pod: Pod, board: Board, words: Refusal, late: Word) -> Reading:
    """Spread constraints, affinity or anti-affinity to pods; nodes that have no such GPU are told apart."""
    cause, why = NOT_A_SHORTAGE[late]
    offering = sum(board.capacity_left(pod, room) is not False for room in board.rooms.values())
    if late is not Word.SPREAD and 0 < offering <= words.nodes_refused_for(late):
        rule = "pod affinity" if late is Word.AFFINITY else "anti-affinity"
        why = (
            f"{rule} excludes {'the only node' if offering == 1 else f'all {offering} nodes'} with such GPUs"
        )
    facts = [*pod_rule_facts(pod)]
    if offering:
        value = f"{offering} of {counted(len(board.rooms), 'node')}"
        facts.append(
            Evidence("nodes with such GPUs", value, source="status.capacity and labels of all nodes")
        )
    return Reading(cause, why, facts=tuple(facts))


def _words_only(words: Refusal | None) -> Reading:
    """Without nodes: the commonest reason in the words, and less sure."""
    counted = sorted(words.items, key=lambda item: -item[0]) if words is not None else []
    for _, about, _ in counted:
        if about in NOT_A_SHORTAGE:
            unknown = None if about is Word.CLAIM else False
            return Reading(*NOT_A_SHORTAGE[about], is_shortage=unknown, is_sure=False)
        if about is Word.GPU:
            return Reading(
                "no-capacity",
                "its scheduler finds no node with enough free GPUs",
                is_shortage=True,
                is_sure=False,
            )
    return Reading("unexplained", "its scheduler gives a reason that is not known here", None, False)
