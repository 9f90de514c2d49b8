"""The cluster map: a job that was selected, and the links that it crosses."""

from typing import Any

import pytest
from django.test import Client

from diagnostics.findings import Subject
from diagnostics.picture import NodeLine, drawn
from diagnostics.snapshot import State
from diagnostics.views.maps.crossing import links_of
from tests.builders import gpu, node, snapshot
from tests.pages.mapped import flat, held, of_one, read
from tests.pages.stored import finding, polled

pytestmark = pytest.mark.django_db


def test_a_selected_job_says_where_it_is_and_which_links_it_crosses(browser: Client) -> None:
    nodes = [node(f"n{i}", rack=f"rack-{i // 2}", zone="eu-1" if i else None) for i in range(4)]
    parts = [part for i in range(3) for g in (0, 1) for part in held(g, on=f"n{i}")]
    trouble = finding(
        "GPU302", subject=Subject(kind="Job", namespace="research", name="train"), title="Spread"
    )
    polled(trouble, seen=snapshot(*nodes, *parts))

    text = flat(read(browser, "?workload=Job/research/train"))

    assert "6 GPUs on 3 nodes" in text
    assert "in 2 racks" in text
    assert "zones: not all labelled" in text
    assert "NVLink domains: not all labelled" not in text
    assert "n0 (2), n1 (2), n2 (2)" in text
    assert "NVLink inside a node, on 3 nodes" in text
    assert "network inside rack rack-0" in text
    assert "network between racks rack-0 and rack-1 (the slowest between its GPUs)" in text
    assert "Spread" in text
    assert "/c/lab/findings/?namespace=research&amp;q=train" in read(browser, "?workload=Job/research/train")


def test_a_job_that_holds_nothing_is_not_called_small(browser: Client) -> None:
    polled(seen=of_one(gpu(0, state=State.FREE)))
    text = flat(read(browser, "?workload=Job/research/gone"))
    assert "It holds no GPU." in text
    assert "0 of 1 GPU match" in text


def test_findings_of_others_are_not_those_of_the_job(browser: Client) -> None:
    other = Subject(kind="Job", namespace="other", name="train")
    polled(finding("GPU302", subject=other, title="Not ours"), seen=of_one(*held(0)))
    text = flat(read(browser, "?workload=Job/research/train"))
    assert "Not ours" not in text
    assert "No finding about it is open." in text
    assert "none: it has one GPU" in text


def line(name: str, rack: str | None = "r1", domain: str | None = None, **fields: Any) -> NodeLine:
    seen = node(name, rack=rack, nvlink_domain=domain, zone=fields.pop("zone", "z1"), **fields)
    return drawn(snapshot(seen)).devices.nodes[0]


@pytest.mark.parametrize(
    ("places", "kinds"),
    [
        ([(line("a"), 1)], []),
        ([(line("a"), 8)], ["node"]),
        ([(line("a", rack=None), 8)], ["node"]),
        ([(line("a"), 1), (line("b"), 1)], ["rack"]),
        ([(line("a"), 8), (line("b"), 8)], ["node", "rack"]),
        ([(line("a"), 1), (line("b", rack="r2"), 1)], ["racks"]),
        ([(line("a"), 1), (line("b"), 1), (line("c", rack="r2"), 1)], ["rack", "racks"]),
        ([(line("a"), 1), (line("b", rack="r2", zone="z2"), 1)], ["racks", "zones"]),
        ([(line("a", domain="d1"), 4), (line("b", domain="d1"), 4)], ["node", "nvlink"]),
        ([(line("a", None, "d1"), 1), (line("b", None, "d1"), 1)], ["nvlink"]),
        ([(line("a", domain="d1"), 1), (line("b", domain="d2"), 1)], ["rack"]),
        ([(line("a", None), 1), (line("b", None), 1)], ["unknown"]),
        ([(line("a"), 1), (line("b", None), 1)], ["unknown"]),
    ],
)
def test_the_links_between_gpus_are_those_that_labels_tell(
    places: list[tuple[NodeLine, int]], kinds: list[str]
) -> None:
    links = links_of(places)
    assert [link.kind for link in links] == kinds
    assert [link.is_slowest for link in links] == [False] * (len(links) - 1) + [True] * bool(links)
    assert [link.kind for link in links if link.is_unknown] == [kind for kind in kinds if kind == "unknown"]


def test_nvlink_inside_a_node_is_claimed_only_where_the_model_has_it() -> None:
    assert links_of([(line("a"), 2)])[0].words == "NVLink inside a node, on 1 node"
    assert (
        links_of([(line("a", labels={"nvidia.com/gpu.product": "NVIDIA-L40S"}), 2)])[0].words
        == "NVLink or PCIe inside a node, on 1 node"
    )
