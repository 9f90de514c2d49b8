"""Recorded cases of collective jobs that run, and run slower than they could; also when changed."""

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.findings import Finding
from diagnostics.gangs import gangs_of
from diagnostics.limits import Limits
from diagnostics.rules import catalogue, engine
from diagnostics.signatures import signals_in
from diagnostics.snapshot import LogSignal, Node, Pod, Snapshot
from tests.builders import node, owner, pod, snapshot

CASES: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text())
    for path in sorted((Path(__file__).parents[2] / "corpus" / "gangs").glob("*.yaml"))
}
RULES = tuple(rule for rule in catalogue() if rule.family == "scheduling")
_NODE = re.compile(r"^(\S+)\s+(\d+)\s+(NVIDIA-\S+)$", re.M)
_PODS = re.compile(r"^pods (\S+?)-0 \.\. \S+?-(\d+)\s+Running\s+(\S+)\s+limits \S+: (\d+)$", re.M)
_PREFIX = re.compile(r"^(\S+?):\d+:\d+ ", re.M)


def picture(text: str) -> Snapshot:
    """Nodes with their GPUs, the pods of one StatefulSet, of which only the log says what they do."""
    nodes: list[Node] = [
        node(name, gpus=int(gpus), labels={"nvidia.com/gpu.product": product})
        for name, gpus, product in _NODE.findall(text)
    ]
    ((stem, last, where, gpus),) = _PODS.findall(text)
    root = owner("StatefulSet", stem)
    pods: list[Pod] = [
        pod(f"{stem}-{i}", node=where, gpus=int(gpus), root=root, owners=(root,))
        for i in range(int(last) + 1)
    ]
    told: list[LogSignal] = []
    for printer in dict.fromkeys(_PREFIX.findall(text)):
        lines = "\n".join(line for line in text.splitlines() if line.startswith(f"{printer}:"))
        told += signals_in(lines, namespace="research", pod=printer, container="main")
    return snapshot(*nodes, *pods, gangs=gangs_of(pods, (), (), told), signals=tuple(told))


def findings(text: str) -> list[Finding]:
    outcome = engine.run(RULES, picture(text), Limits())
    assert outcome.failed == ()
    return list(outcome.findings)


def causes(text: str) -> list[str]:
    return [found.cause for found in findings(text)]


def renamed(text: str, random: Random) -> str:
    text = text.replace("worker-", random.choice(["train-", "x-y.z-", "ddp-worker-", "mpi-"]))
    return text.replace("node-a", random.choice(["ip-10-0-1-7.ec2.internal", "dgx-01", "n"]))


def resized(text: str, random: Random) -> str:
    """As many ranks as the host has GPUs, however many these are."""
    size = random.choice([2, 4, 8, 16])
    text = re.sub(r"(?m)^(\S+\s+)8(\s+NVIDIA)", rf"\g<1>{size}\2", text)
    return re.sub(r"-7(\s+Running)", rf"-{size - 1}\1", text).replace("nranks 8", f"nranks {size}")


def of_another_version(text: str, random: Random) -> str:
    """How other versions of NCCL tell of a communicator, and of the network."""
    whole = random.choice(
        [
            "ncclCommInitRank comm 0x7f2c rank 0 nranks {} cudaDev 0 nvmlDev 3 busId 1b000 commId 0x8f1 - Init START",
            "comm 0x55d0a3 rank 1 nranks {} cudaDev 0 busId 47000 - Init COMPLETE",
            "comm 0xbc17190 rank 1 nranks {} cudaDev 0 nvmlDev 0 busId 47000",
        ]
    )
    text = re.sub(r"comm 0x\S+ rank \d+ nranks (\d+).*", lambda m: whole.format(m[1]), text)
    if random.random() < 0.5:
        text = text.replace("NET/IB : Using [0]mlx5_0:1/IB [RO];", "NET/Socket : Using [0]").replace(
            "network IB", "network Socket"
        )
    return text


def with_paths(text: str, random: Random) -> str:
    """What NCCL chose is in the log too."""
    name = _PREFIX.findall(text)[0]
    line = random.choice(
        ["02 : 7[0] -> 0[0] [receive] via NET/IB/0", "00/0 : 0[0] -> 1[1] [send] via NET/Socket/0"]
    )
    return f"{text}{name}:29:65 [0] NCCL INFO Channel {line}\n"


def shuffled(text: str, random: Random) -> str:
    lines = text.splitlines()
    random.shuffle(lines)
    return "\n".join(lines) + "\n"


MUTATIONS = (renamed, resized, of_another_version, with_paths, shuffled)


def changed(text: str, random: Random) -> str:
    for mutation in MUTATIONS:
        if random.random() < 0.7:
            text = mutation(text, random)
    return text


@pytest.mark.parametrize("name", CASES)
def test_a_recorded_case_gets_its_cause(name: str) -> None:
    assert causes(CASES[name]["input"]) == [CASES[name]["cause"]]


@pytest.mark.parametrize("name", CASES)
@given(seed=st.integers(min_value=0, max_value=2**32))
@settings(max_examples=60, deadline=None)
def test_a_changed_case_keeps_its_cause(name: str, seed: int) -> None:
    text = changed(CASES[name]["input"], Random(seed))
    assert causes(text) == [CASES[name]["cause"]], text


def test_each_mutation_does_change_a_case() -> None:
    text = CASES["one_gpu_per_pod"]["input"]
    for mutation in MUTATIONS:
        assert any(mutation(text, Random(seed)) != text for seed in range(8)), mutation.__name__


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("nranks 8", "nranks 1", id="no collective: each trains alone"),
        pytest.param("gpu: 1", "gpu: 8", id="whole hosts in one pod"),
        pytest.param("A100-SXM4-80GB", "L4", id="boards without NVLink"),
        pytest.param("Using network IB", "Channel 00 : 0[0] -> 1[1] via P2P/IPC", id="they reach each other"),
        pytest.param("worker-7  ", "worker-1  ", id="two ranks on a large host"),
    ],
)
def test_one_decisive_fact_silences_it(old: str, new: str) -> None:
    text = CASES["one_gpu_per_pod"]["input"]
    assert old in text
    text = text.replace(old, new)
    if "gpu: 8" in text:
        text = text.replace("worker-7  ", "worker-0  ")
    assert causes(text) == []


def test_the_missing_network_plugin_is_not_blamed() -> None:
    (found,) = findings(CASES["one_gpu_per_pod"]["input"])
    assert "libnccl-net" not in found.title + found.summary + str(found.evidence)
    assert found.confidence == "medium"
    assert found.fix.steps[0].kind == "diagnose"
