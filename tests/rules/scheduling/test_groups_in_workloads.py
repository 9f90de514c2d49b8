"""Kubernetes' own gangs in the form of 1.35: a Workload holds the groups, and pods name `workload/group/replica`."""

from typing import Any

import pytest

from diagnostics.findings import Hit
from diagnostics.gangs import gangs_of
from diagnostics.limits import Limits
from diagnostics.rules.scheduling.partial_gang import check
from diagnostics.snapshot import Pod, PodGroup, ServedApi
from tests.builders import ago, container, node, owner, pending_pod, pod, snapshot
from tests.rules.scheduling.waiting import SILENT, hits

SERVED = (ServedApi("scheduling.k8s.io", "v1alpha1", "workloads", "Workload"),)
SAID = "pod group is unschedulable"


def group(least: int) -> PodGroup:
    return PodGroup(system="native", namespace="research", name="w/g", min_member=least)


def replica(key: str, count: int = 2) -> list[Pod]:
    return [pending_pod(f"{key}-{i}", SAID, gpus=8, pod_group=f"w/g/{key}") for i in range(count)]


def found(*parts: Any, least: int) -> list[Hit]:
    pods = [part for part in parts if isinstance(part, Pod)]
    gangs = gangs_of(pods, (), (group(least),))
    return hits(*parts, *gangs, pod_groups=(group(least),), apis=SERVED)


def test_each_replica_of_a_group_is_a_gang_that_needs_its_own_pods() -> None:
    causes = [hit.cause for hit in found(node("a"), node("b"), *replica("a"), *replica("b"), least=3)]
    assert causes == ["pod-group-too-few-pods"] * 2


def test_a_replica_that_is_complete_and_fits_only_waits() -> None:
    assert [hit.cause for hit in found(node("a"), node("b"), *replica("a"), least=2)] == ["gang-waiting"]


def test_a_replica_that_does_not_fit_as_a_whole_is_said_to() -> None:
    assert [hit.cause for hit in found(node("a"), *replica("a"), least=2)] == ["gang-does-not-fit"]


def test_a_workload_is_only_known_to_be_missing_where_workloads_are_served() -> None:
    stray = pending_pod("s-0", **(SILENT | {"pod_group": "gone/g"}))
    (unsure,) = hits(node(), stray)
    assert "nobody answers" in unsure.title
    (sure,) = hits(node(), stray, apis=SERVED)
    assert "does not exist" in sure.title


@pytest.mark.parametrize(("least", "fires"), [(4, True), (2, False), (None, True)])
def test_a_part_of_a_gang_counts_by_what_its_workload_says(least: int | None, fires: bool) -> None:
    """Two of four run. With a least of two the job may go on; without a policy all are wanted."""
    box = container(gpus=4, command=("torchrun", "--nnodes=4", "train.py"))
    fields: dict[str, Any] = {"root": owner(), "containers": (box,), "pod_group": "w/g"}
    runs = [pod(f"t-{i}", started_at=ago(minutes=40), **fields) for i in range(2)]
    waits = [pending_pod(f"t-{i}", created_at=ago(minutes=40), **fields) for i in (2, 3)]
    groups = (PodGroup(system="native", namespace="research", name="w/g", min_member=least),)
    seen = snapshot(node(), *runs, *waits, gangs=gangs_of([*runs, *waits], (), groups), pod_groups=groups)
    assert bool([one for one in check(seen, Limits()) if isinstance(one, Hit)]) is fires
