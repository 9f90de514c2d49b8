"""How far apart a job was placed, and how close it could be."""

import msgspec
from hypothesis import given as having
from hypothesis import strategies as st

from diagnostics.placement import Span, possible_placement, rooms, scatter_of
from diagnostics.snapshot import Node, Pod, Taint
from tests.builders import container, node, pod, snapshot


def job(*nodes: str, gpus: int = 2) -> list[Pod]:
    return [pod(f"train-{i}", node=name, gpus=gpus) for i, name in enumerate(nodes)]


def hosts(count: int, per_rack: int = 2) -> list[Node]:
    return [node(f"n{i}", rack=f"r{i // per_rack}") for i in range(count)]


def test_four_small_members_on_four_hosts_are_as_wide_as_can_be() -> None:
    members = job("n0", "n1", "n2", "n3")

    scatter = scatter_of(members, rooms(snapshot(*hosts(6), *members)))

    assert scatter is not None
    assert scatter.hosts == Span(used=4, least=1, most=4)
    assert scatter.hosts.ratio == 1.0
    assert scatter.racks == Span(used=2, least=1, most=3)
    assert scatter.crosses_without_need


def test_members_on_one_host_are_as_tight_as_can_be() -> None:
    members = job("n0", "n0", "n0", "n0")

    scatter = scatter_of(members, rooms(snapshot(*hosts(6), *members)))

    assert scatter is not None
    assert scatter.hosts.ratio == 0.0
    assert not scatter.crosses_without_need


def test_whole_hosts_need_as_many_hosts() -> None:
    members = job("n0", "n1", gpus=8)

    scatter = scatter_of(members, rooms(snapshot(*hosts(2), *members)))

    assert scatter is not None
    assert scatter.hosts == Span(2, 2, 2)


def test_cpu_can_make_a_host_take_fewer() -> None:
    wide = [
        pod(f"t{i}", node=f"n{i}", containers=(container(requests={"nvidia.com/gpu": 1.0, "cpu": 40.0}),))
        for i in range(2)
    ]

    scatter = scatter_of(wide, rooms(snapshot(*hosts(2), *wide)))

    assert scatter is not None
    assert scatter.hosts.least == 2


def test_an_unknown_rack_leaves_racks_out() -> None:
    members = job("n0", "n1")

    scatter = scatter_of(members, rooms(snapshot(node("n0", rack="r"), node("n1"), *members)))

    assert scatter is not None
    assert scatter.racks is None


def test_hosts_of_another_model_are_not_of_that_kind() -> None:
    members = job("n0", "n1")
    other = node("big", labels={"nvidia.com/gpu.product": "Tesla-T4"})

    scatter = scatter_of(members, rooms(snapshot(*hosts(2), other, *members)))

    assert scatter is not None
    assert scatter.hosts.most == 2


def test_one_member_or_unknown_nodes_have_no_spread() -> None:
    assert scatter_of(job("n0"), rooms(snapshot(*hosts(1)))) is None
    assert scatter_of(job("gone", "lost"), rooms(snapshot(*hosts(1)))) is None


def test_the_possible_placement_counts_the_jobs_own_gpus_as_free() -> None:
    members = job("n0", "n1")
    others = [pod("a", node="n0", gpus=4), pod("b", node="n1", gpus=6)]

    found = possible_placement(members, rooms(snapshot(*hosts(2), *members, *others)))

    assert found == {"n0": 2}


def test_the_possible_placement_prefers_one_rack() -> None:
    members = job("n0", "n2", gpus=8)

    found = possible_placement(members, rooms(snapshot(*hosts(4), *members)))

    assert found == {"n0": 1, "n1": 1}


def test_the_possible_placement_keeps_off_tainted_nodes() -> None:
    members = job("n0", "n1")
    tainted = node("n9", taints=(Taint("pool", "NoSchedule", "batch"),))
    others = [pod("a", node="n0", gpus=6), pod("b", node="n1", gpus=6)]

    found = possible_placement(members, rooms(snapshot(*hosts(2), tainted, *members, *others)))

    assert found == {"n0": 1, "n1": 1}


def test_nothing_may_be_possible() -> None:
    assert possible_placement(job("n0", gpus=9), rooms(snapshot(*hosts(2)))) is None
    assert possible_placement([], {}) is None


@having(
    st.lists(st.integers(0, 5), min_size=2, max_size=12),
    st.integers(1, 8),
)
def test_the_ratio_stays_between_0_and_1(where: list[int], gpus: int) -> None:
    members = job(*(f"n{i}" for i in where), gpus=gpus)

    scatter = scatter_of(members, rooms(snapshot(*hosts(6), *members)))

    assert scatter is not None
    for span in (scatter.hosts, scatter.racks):
        assert span is not None
        assert 0 <= span.ratio <= 1
        assert 1 <= span.least <= span.used <= span.most


def test_hosts_that_do_not_say_what_they_take_prove_no_scatter() -> None:
    members = job("n0", "n1", gpus=8)
    silent = msgspec.structs.replace(node("n1"), allocatable={})

    scatter = scatter_of(members, rooms(snapshot(node("n0"), silent, *members)))

    assert scatter is not None
    assert scatter.hosts.used == scatter.hosts.least == 2
