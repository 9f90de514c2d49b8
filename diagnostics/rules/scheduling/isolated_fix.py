"""Guided fix for ranks in pods of one GPU: look at what NCCL uses, then put the ranks of a host into one pod."""

import re
from collections.abc import Iterator, Sequence

from diagnostics.fixes import Fix, Risk, Step, StepKind, kubectl, steps
from diagnostics.quantities import gib
from diagnostics.rules.scheduling.owner_patch import owner_kind
from diagnostics.snapshot import Gang, Pod
from diagnostics.text import counted, listed, printable

GPU = "nvidia.com/gpu"
MOST_LINES = 16
_PODS = {
    "Job": "spec.parallelism and spec.completions to {pods}",
    "StatefulSet": "spec.replicas to {pods}",
    "Deployment": "spec.replicas to {pods}",
}
"""Where a kind says how many pods it has."""
_COUNTS = ("WORLD_SIZE", "NNODES", "PET_NNODES", "NPROC_PER_NODE", "PET_NPROC_PER_NODE", "LOCAL_WORLD_SIZE")
"""Environment variables by which launchers and scripts count nodes and ranks."""


def gpus_per_pod(ranks: int, fitted: int) -> int:
    """The most GPUs per pod with which pods of equal size hold `ranks` ranks on hosts of `fitted` GPUs.

    Where no such size is above 1, a whole host's: the job then has a few ranks more.
    """
    size = max((size for size in range(2, fitted + 1) if ranks % size == 0), default=1)
    return size if size > 1 else max(1, min(fitted, ranks))


def isolated_fix(gang: Gang, placed: Sequence[Pod], fitted: int) -> Fix:
    ranks = max(gang.size or 0, len(placed))
    size = gpus_per_pod(ranks, fitted)
    return Fix(
        "Run the ranks of a host in one pod",
        (
            steps.look(
                title="See where the job's pods are, and what each asks for",
                why="Placement may have changed since: a restarted pod can land elsewhere.",
                command=kubectl.kubectl(
                    "get", "pods", "-n", gang.namespace, "-o", "wide", "--", *(p.name for p in placed[:16])
                ),
                expect="The pods and hosts named in the evidence.",
            ),
            steps.read_log(
                placed[0],
                expect="With NCCL_DEBUG=INFO, lines of channels to ranks on the same host: via NET means the network, "
                "via P2P that they reach each other after all. A line about libnccl-net.so that cannot be opened is no "
                "fault: NCCL then uses its own network code.",
            ),
            _one_pod(placed, ranks, size),
            steps.verify_finding_gone("The job's pods have as many GPUs as ranks on a host."),
        ),
    )


def _one_pod(placed: Sequence[Pod], ranks: int, size: int) -> Step:
    """Lines only: what must change together lies in several places, and a part of it asks for too many GPUs."""
    pods = -(-ranks // size)
    kind = owner_kind(placed[0])
    lines = listed(list(_lines(placed[0], kind, pods, size)), MOST_LINES)
    return Step(
        kind=StepKind.FIX,
        title=f"Ask for {size} GPUs per pod, with {counted(pods, 'pod')} instead of {ranks}",
        why="Ranks in one container see each other's GPUs and its /dev/shm. There is nothing to copy here: edit these "
        f"lines of the manifest, all of them together: {lines}. With the GPUs alone, each of the {ranks} pods would "
        f"ask for {size}. A size limit of /dev/shm is now that of {size} ranks too. Such a pod needs {size} free GPUs "
        "on one host. Starting again loses everything since the last checkpoint, so do it at the next start."
        + (" A Job's pod template cannot be changed: delete it and make it anew." if kind == "Job" else ""),
        risk=Risk.DISRUPTIVE,
        expect="Channel lines via P2P between the ranks of a pod, and shorter steps.",
    )


def _lines(pod: Pod, kind: str, pods: int, size: int) -> Iterator[str]:
    """What changes together, each with the value that it gets."""
    box = next((c for c in pod.containers if c.gpus and not c.is_init), pod.containers[0])
    yield _PODS.get(kind, "the number of pods to {pods}").format(pods=pods)
    yield f"{GPU} of container {printable(box.name, 60)} to {size} (limits, and requests where they are named)"
    for name, shown in (("cpu", "{:g}".format), ("memory", gib)):
        for where, amounts in (("requests", box.requests), ("limits", box.limits)):
            if name in amounts:
                yield f"{where}.{name} from {shown(amounts[name])} to {shown(amounts[name] * size)}"
    words = " ".join((*box.command, *box.args))
    for option, number in (("--nnodes", pods), ("--nproc-per-node", size)):
        found = re.search(
            option.replace("per-node", "per[-_]node").replace("nproc-", "nproc[-_]") + r"[= ]\S+", words
        )
        if found:
            yield f"{printable(found[0], 60)} to {number}"
    if not re.search(r"--nproc[-_]per[-_]node", words):
        yield f"the ranks per pod to {size} (--nproc-per-node of torchrun, slotsPerWorker of an MPIJob)"
    named = [name for name in _COUNTS if name in box.env]
    if named:
        yield f"what {listed(named)} count"
