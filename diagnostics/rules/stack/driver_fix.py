"""Guided fix for an image and a driver that do not go together: what to read, and who of the two can move."""

from diagnostics.fixes import Fix, Risk, Step, StepKind, in_order, kubectl, steps
from diagnostics.rules.stack.container_patch import set_env
from diagnostics.rules.stack.cuda_compat import FLOOR, can_use_compat, written
from diagnostics.rules.stack.cuda_facts import Facts, nodes_that_would_do, written_cuda
from diagnostics.snapshot import Snapshot
from diagnostics.text import listed

_LABELS = "nvidia.com/cuda.driver-version.full,nvidia.com/cuda.runtime-version.full,nvidia.com/gpu.product"


def driver_fix(snapshot: Snapshot, facts: Facts, cause: str) -> Fix:
    """`cause`: a cause of GPU203."""
    pod, container = facts.pod, facts.container
    looks = [steps.describe_pod(pod)]
    if container.state != "waiting" or container.last_terminated is not None:
        looks.append(
            steps.read_log(
                pod,
                container.name,
                previous=container.terminated is None and container.last_terminated is not None,
                expect="The first CUDA error, and the versions that it names.",
            )
        )
    looks.append(
        steps.look(
            title="Compare the drivers of the GPU nodes",
            why="The CUDA number of a node is the newest that its driver serves; the node needs no toolkit of its own.",
            command=kubectl.kubectl("get", "nodes", "-L", _LABELS),
            expect="The driver of the evidence, and whether other nodes have a newer one.",
        )
    )
    repairs = _shadow(facts) if cause == "compat-library-shadows-driver" else []
    if cause == "forward-compat-on-unsupported-gpu":
        repairs += _without_compat(facts)
    repairs += _choose(snapshot, facts, cause)
    return Fix(
        summary=repairs[0].title,
        steps=in_order(
            *looks,
            *repairs,
            _upgrade(facts),
            steps.verify_finding_gone(f"Container {container.name} passes its first CUDA call and stays."),
            steps.escalate(
                "the owner of the image and the platform team",
                why="One of the two has to move: the image to an older CUDA, or the nodes to a newer driver.",
                expect="A pair from NVIDIA's table of toolkits and drivers.",
            ),
        ),
    )


def _shadow(facts: Facts) -> list[Step]:
    path = facts.compat_path
    if path is None:
        return [
            Step(
                kind=StepKind.FIX,
                title="Take foreign CUDA driver libraries out of the container's library path",
                why="libcuda must be the one that the container runtime hands in from the node. A copy in the image, "
                "in LD_LIBRARY_PATH, or under /usr/local/cuda/compat wins over it. The pods start anew with the image.",
                risk=Risk.DISRUPTIVE,
                expect="No libcuda.so.1 but the node's is found first.",
            )
        ]
    kept = [p for p in facts.container.env["LD_LIBRARY_PATH"].split(":") if p and p != path]
    return [
        set_env(
            facts.pod,
            facts.container,
            "LD_LIBRARY_PATH",
            ":".join(kept),
            title="Take the compatibility libraries out of LD_LIBRARY_PATH",
            why=f"{path} stands before the driver's own libcuda.",
            expect="CUDA starts with the node's own driver library.",
        )
    ]


def _without_compat(facts: Facts) -> list[Step]:
    return _shadow(facts) if facts.compat_path else []


def _choose(snapshot: Snapshot, facts: Facts, cause: str) -> list[Step]:
    verdict, found = facts.judged, []
    nodes = nodes_that_would_do(snapshot, verdict.needed) if verdict and facts.is_too_new else []
    if nodes:
        found.append(
            Step(
                kind=StepKind.FIX,
                title="Or run it on nodes whose driver is new enough",
                why=f"A node affinity on nvidia.com/cuda.driver-version.major sends it there: {listed(nodes, 8)}.",
                risk=Risk.DISRUPTIVE,
                expect="The pods are placed on these nodes.",
            )
        )
    if verdict and facts.is_too_new and can_use_compat(facts.product) and facts.toolkit:
        package = f"cuda-compat-{facts.toolkit[0]}-{facts.toolkit[1]}"
        found.append(
            Step(
                kind=StepKind.FIX,
                title=f"Or add the package {package} to the image",
                why="On data-center GPUs NVIDIA's forward compatibility package lets a newer CUDA run on drivers of "
                "the supported branches; its page lists them.",
                risk=Risk.DISRUPTIVE,
                expect="The container starts; nvidia-smi inside it shows the newer CUDA number.",
            )
        )
    older = _older(facts, cause)
    return [older, *found]


def _older(facts: Facts, cause: str) -> Step:
    which = "an older CUDA"
    if facts.newest is not None:
        major = facts.newest[0]
        serves_all = cause != "ptx-newer-than-driver" and major in FLOOR and _is_past(facts, major)
        which = f"CUDA {major}.x" if serves_all else f"CUDA {written_cuda(facts.newest)} or older"
    return Step(
        kind=StepKind.FIX,
        title=f"Build the image on {which}",
        why="The driver stays as it is, and no other workload is touched. The pods of this one start anew.",
        risk=Risk.DISRUPTIVE,
        expect="The container starts on the same node.",
    )


def _is_past(facts: Facts, major: int) -> bool:
    return facts.driver is not None and facts.driver >= FLOOR[major]


def _upgrade(facts: Facts) -> Step:
    where = f"node {facts.node.name}" if facts.node else "the node"
    verdict = facts.judged
    which = f"{written(verdict.needed)} or newer" if verdict and facts.is_too_new else "a newer branch"
    return Step(
        kind=StepKind.FIX,
        title=f"Or upgrade the driver of {where} to {which}",
        why="A newer driver runs every older image too. The GPU pods of a node have to leave while its driver is "
        "replaced and lose what they have not saved; with the GPU Operator the version is one for all its nodes.",
        risk=Risk.DESTRUCTIVE,
        expect="The node's label nvidia.com/cuda.driver-version.full shows the new driver.",
    )
