"""Recorded cases of Kueue: admitted though in pieces, and a job that waits its turn; also when changed."""

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.limits import Limits
from diagnostics.rules.scheduling.pending_gpu_pod import check
from diagnostics.snapshot import Condition, Node, OwnerKey, Pod, PodSet, QueuedWorkload, Snapshot
from tests.builders import ago, node, pending_pod, pod, snapshot

CASES: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parents[2] / "corpus" / "queues").glob("*.yaml"))
}
_NODE = re.compile(r"^(\S+)\s+(\d+)\s+(\d+)$", re.M)
_WORKLOAD = re.compile(
    r"^Workload (\w+?)-(\S+)\s+QuotaReserved=(\w+)\s+Admitted=(\w+)\s+\((\d+) podsets, (\S+): (\d+)\)", re.M
)
_POD = re.compile(r"^pod/(\S+)\s+(\w+)\s+(\S+)\s+limits (\S+): (\d+)$", re.M)


def picture(text: str, random: Random) -> Snapshot:
    """Nodes with allocatable and requested GPUs, Kueue's workloads, and pods."""
    parts: list[Node | Pod] = []
    for name, allocatable, requested in _NODE.findall(text):
        parts.append(node(name, gpus=int(allocatable)))
        parts += [pod(f"small-{name}-{i}", node=name) for i in range(int(requested))]
    queued = []
    for kind, name, reserved, admitted, sets, resource, amount in _WORKLOAD.findall(text):
        said = (("QuotaReserved", reserved), ("Admitted", admitted))
        each = PodSet("main", int(sets), {resource: int(amount) / int(sets)})
        queued.append(
            QueuedWorkload(
                namespace="research",
                name=f"{kind}-{name}",
                owners=(OwnerKey(kind, "research", name),),
                created_at=ago(minutes=random.randrange(6, 600)),
                queue="user-queue",
                pod_sets=(each,),
                conditions=tuple(Condition(t, s, since=ago(minutes=6)) for t, s in said),
            )
        )
    for name, phase, where, _, gpus in _POD.findall(text):
        root = next(w.owners[0] for w in queued if name.startswith(w.owners[0].name))
        owned: dict[str, Any] = {"gpus": int(gpus), "root": root, "owners": (root,)}
        nodes = sum(isinstance(part, Node) for part in parts)
        words = f"0/{nodes} nodes are available: {nodes} Insufficient nvidia.com/gpu."
        parts.append(
            pod(name, node=where, **owned) if phase == "Running" else pending_pod(name, words, **owned)
        )
    random.shuffle(parts)
    return snapshot(*parts, queued=tuple(queued))


def causes(text: str, random: Random) -> list[str]:
    return [found.cause for found in check(picture(text, random), Limits()) if hasattr(found, "cause")]


def expected(case: dict[str, Any]) -> list[str]:
    return [] if case["cause"] == "none" else [case["cause"]]


def changed(text: str, random: Random) -> str:
    """Other names, another size of the nodes, lines in another order."""
    for old in ("dist", "benchmarks", "node-"):
        text = text.replace(old, f"x{random.randrange(10_000)}-")
    size = random.choice([2, 4, 8, 16])
    text = re.sub(r"(?m)(?<=\s)8(?=\s|$)", str(size), text).replace("gpu: 16)", f"gpu: {2 * size})")
    lines = text.splitlines()
    random.shuffle(lines)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_case_gets_its_cause(name: str) -> None:
    assert causes(CASES[name]["input"], Random(1)) == expected(CASES[name])


@pytest.mark.parametrize("name", CASES)
@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(max_examples=60, deadline=None)
def test_a_changed_case_keeps_its_cause(name: str, seed: int) -> None:
    random = Random(seed)
    text = changed(CASES[name]["input"], random)
    assert causes(text, random) == expected(CASES[name]), text


def test_without_kueue_the_same_pieces_are_plain_fragmentation() -> None:
    text = CASES["kueue_admits_in_pieces"]["input"].replace("Admitted=True", "Admitted=False")
    assert causes(text, Random(1)) != ["gpu-fragmentation-across-nodes"]
