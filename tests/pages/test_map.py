"""The cluster map: where what stands, what a filter leaves, and what it says where it knows nothing."""

import re

import pytest
from django.test import Client

from diagnostics.models import StoredPicture
from diagnostics.snapshot import Condition, Source, State
from tests.builders import gpu, node, snapshot
from tests.pages.mapped import flat, held, letters, of_one, read
from tests.pages.stored import cluster, polled

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("?namespace=research", "E  "),
        ("?workload=Job/research/train", "E  "),
        ("?workload=Job/research/gone", "   "),
        ("?workload=nonsense", "   "),
        ("?state=free", " F "),
        ("?state=not_evaluated", "  ?"),
        ("?model=NVIDIA-H100", "  ?"),
        ("?q=gpu-2", "  ?"),
        ("?q=train", "E  "),
        ("?q=rack-a+TRAIN", "E  "),
        ("?q=rack-b+train", "   "),
        ("?q=cordoned", "  ?"),
        ("?q=none", "   "),
        ("?state=nonsense&by=nonsense&group=nonsense", "EF?"),
    ],
)
def test_what_does_not_match_keeps_its_place_without_a_letter(browser: Client, query: str, left: str) -> None:
    other = node("gpu-2", rack="rack-b", unschedulable=True, labels={"nvidia.com/gpu.product": "NVIDIA-H100"})
    polled(
        seen=snapshot(
            node("gpu-1", rack="rack-a"),
            other,
            *held(0),
            gpu(1, state=State.FREE),
            gpu(0, "gpu-2", state=None),
        )
    )
    assert letters(browser, query) == left


def test_counts_what_matches_of_how_many(browser: Client) -> None:
    polled(seen=snapshot(node("a"), node("b"), *held(0, on="a"), gpu(1, "a"), gpu(0, "b")))
    text = flat(read(browser, "?q=train"))
    assert "1 of 3 GPUs match, on 1 of 2 nodes" in text
    assert "effective: 1" in text


@pytest.mark.parametrize(
    ("query", "groups"),
    [
        ("", ["rack-2", "rack-10", "rack not known"]),
        ("?group=rack", ["rack-2", "rack-10", "rack not known"]),
        ("?group=nvlink", ["NVLink domain d1", "NVLink domain not known"]),
        ("?group=zone", ["zone eu-1"]),
        ("?group=none", []),
    ],
)
def test_groups_stand_in_counting_order_and_the_unlabelled_last(
    browser: Client, query: str, groups: list[str]
) -> None:
    seen = snapshot(
        node("a", rack="rack-10", zone="eu-1", nvlink_domain="d1"),
        node("b", rack="rack-2", zone="eu-1"),
        node("c", zone="eu-1"),
        *(gpu(0, name) for name in "abc"),
    )
    polled(seen=seen)
    headings = [flat(h) for h in re.findall(r"<h2>(.*?)</h2>", read(browser, query), re.DOTALL)]
    assert [re.sub(r" \d+ GPU.*", "", heading) for heading in headings] == groups


def test_nodes_are_grouped_by_what_their_labels_allow(browser: Client) -> None:
    polled(seen=snapshot(node("a", nvlink_domain="d1"), gpu(0, "a")))
    assert "NVLink domain d1" in flat(read(browser))


def test_nodes_stand_in_counting_order_without_their_common_domain(browser: Client) -> None:
    polled(seen=snapshot(*(node(f"gpu-{i}.example.org") for i in (10, 9))))
    assert re.findall(r'class="row-link"[^>]*><bdi>([^<]*)', read(browser)) == ["gpu-9", "gpu-10"]


def test_a_long_name_keeps_both_of_its_ends(browser: Client) -> None:
    polled(seen=snapshot(node("gke-prod-gpu-pool-1-5f3a2c1b-x7kq")))
    text = read(browser)
    assert "<bdi>gke-prod-…a2c1b-x7kq</bdi>" in text
    assert 'title="gke-prod-gpu-pool-1-5f3a2c1b-x7kq"' in text


def test_a_node_in_trouble_says_so_beside_its_name(browser: Client) -> None:
    sick = node(conditions=(Condition("Ready", "False"),), unschedulable=True)
    polled(seen=snapshot(sick, node("gpu-2", conditions=())))
    text = read(browser)
    assert 'class="map-trouble" title="not ready, cordoned"' in text
    assert 'title="readiness unknown"' in text


def test_a_node_without_known_gpus_is_not_an_empty_place(browser: Client) -> None:
    polled(seen=snapshot(node("a", gpus=0, labels={"nvidia.com/gpu.present": "true"})))
    assert "no GPU known" in read(browser)


def test_without_a_poll_there_is_no_map(browser: Client) -> None:
    cluster()
    text = flat(read(browser))
    assert "No poll of this cluster has brought anything yet." in text
    assert "0 GPUs" not in text


def test_a_cluster_without_gpus_says_what_would_count(browser: Client) -> None:
    polled(seen=snapshot(node("cpu-1", gpus=0)))
    assert "No node with GPUs was seen." in read(browser)


def test_nodes_that_were_read_in_part_are_said_to_be(browser: Client) -> None:
    polled(seen=of_one(gpu(0), without=[Source.NODES]))
    assert "Incomplete. Nodes were read only in part (absent)" in flat(read(browser))


def test_a_picture_that_cannot_be_read_is_named(browser: Client) -> None:
    polled(seen=of_one())
    StoredPicture.objects.update(devices=b"nonsense", workloads=b"nonsense")
    assert "What the last poll stored cannot be read" in flat(read(browser))


def test_there_is_no_map_of_an_unknown_cluster(browser: Client) -> None:
    assert browser.get("/c/nowhere/map/").status_code == 404
