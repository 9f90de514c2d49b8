"""The list of nodes."""

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Severity, Subject
from diagnostics.snapshot import Condition, Gpu, Snapshot, Source, State
from tests.builders import gpu, node, snapshot
from tests.pages.conftest import HTMX
from tests.pages.stored import finding, polled
from tests.pages.test_findings import flat

pytestmark = pytest.mark.django_db

LIST = "/c/lab/nodes/"


def names(browser: Client, query: str = "") -> list[str]:
    text = browser.get(LIST + query).content.decode()
    return re.findall(r'class="row-link"[^>]*>\s*<bdi>([^<]*)</bdi>', text)


def of_one(*parts: Any, **fields: Any) -> Snapshot:
    return snapshot(node(), *parts, **fields)


def test_each_gpu_is_a_cell_with_letter_and_name_of_its_state(browser: Client) -> None:
    held = gpu(0, state=State.IDLE_HELD, holders=("research/train-0",))
    polled(seen=of_one(held, gpu(1, state=State.FREE)))

    text = browser.get(LIST).content.decode()

    assert 'title="GPU 0: idle, memory held, held by research/train-0"' in text
    assert re.search(r'class="cell cell-idle_held"[^>]*>M</a>', text)
    assert re.search(r'class="cell cell-free"[^>]*>F</a>', text)
    assert 'href="/c/lab/gpus/gpu-1/00000000:10:00.0/"' in text


def test_a_gpu_without_a_state_is_not_evaluated(browser: Client) -> None:
    polled(seen=of_one(gpu(0, state=None)))

    text = browser.get(LIST).content.decode()

    assert re.search(r'class="cell cell-no_data"[^>]* title="GPU 0: not evaluated"[^>]*>\?</a>', text)


def test_nodes_without_gpus_are_left_out(browser: Client) -> None:
    polled(seen=snapshot(node("gpu-1"), node("cpu-1", gpus=0)))

    assert names(browser) == ["gpu-1"]


def test_the_worst_come_first_then_the_names(browser: Client) -> None:
    seen = snapshot(
        node("a"),
        node("b"),
        node("c", conditions=(Condition("Ready", "False"),)),
        node("d", conditions=()),
        gpu(0, "b", state=State.STUCK),
        node("e"),
    )
    worst = finding(severity=Severity.CRITICAL, subject=Subject(kind="Node", name="e"), nodes=())
    polled(worst, seen=seen)

    assert names(browser) == ["e", "c", "d", "b", "a"]


def test_what_speaks_against_a_node_stands_beside_its_name(browser: Client) -> None:
    conditions = (
        Condition("Ready", "Unknown"),
        Condition("DiskPressure", "True"),
        Condition("PIDPressure", "False"),
    )
    polled(seen=snapshot(node(conditions=conditions, unschedulable=True)))

    text = browser.get(LIST).content.decode()

    assert re.findall(r'tag-bad">([^<]*)<', text) == ["state unknown", "DiskPressure", "cordoned"]


@pytest.mark.parametrize(
    ("query", "shown"),
    [("?q=rack-b", ["gpu-2"]), ("?q=H100", ["gpu-2"]), ("?q=train-0", ["gpu-1"]), ("?q=none", [])],
)
def test_filters_by_rack_model_and_holder(browser: Client, query: str, shown: list[str]) -> None:
    seen = snapshot(
        node("gpu-1", rack="rack-a"),
        node("gpu-2", rack="rack-b", labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}),
        gpu(0, "gpu-1", holders=("research/train-0",)),
    )
    polled(seen=seen)

    assert names(browser, query) == shown


def test_counts_findings_that_touch_a_node(browser: Client) -> None:
    polled(
        finding(nodes=("gpu-1", "gpu-2"), severity=Severity.INFO),
        finding(
            "GPU302", subject=Subject(kind="Job", name="j"), nodes=("gpu-1",), severity=Severity.CRITICAL
        ),
        seen=snapshot(node("gpu-1"), node("gpu-2"), node("gpu-3")),
    )

    text = flat(browser.get(LIST).content.decode())

    assert "critical 1 info 1" in text
    assert "info 1" in text
    assert text.count("none") == 1


def test_a_cluster_without_gpus_says_what_would_count(browser: Client) -> None:
    polled(seen=snapshot(node("cpu-1", gpus=0)))

    assert "No node with GPUs was seen." in browser.get(LIST).content.decode()


def test_nodes_that_could_not_be_read_are_not_shown_as_none(browser: Client) -> None:
    polled(seen=snapshot(without=[Source.NODES]))

    text = flat(browser.get(LIST).content.decode())

    assert "Nodes were read only in part (absent)" in text


@pytest.mark.parametrize("number", [1, 40])
def test_the_list_costs_six_queries_however_many_nodes(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    nodes = [node(f"n{i}") for i in range(number)]
    polled(*(finding(subject=Subject(kind="Node", name=n.name)) for n in nodes), seen=snapshot(*nodes))

    with django_assert_num_queries(6):
        browser.get(LIST)


def test_a_long_list_is_cut_into_pages(browser: Client) -> None:
    polled(seen=snapshot(*(node(f"n{i:03}") for i in range(101))))

    assert len(names(browser)) == 100
    assert names(browser, "?page=2") == ["n100"]


def test_the_live_part_announces_the_count(browser: Client) -> None:
    polled(seen=of_one(gpu(0)))

    text = browser.get(LIST, headers=HTMX).content.decode()

    status = re.search(r'<p id="status-line" hx-swap-oob="innerHTML">(.*?)</p>', text, re.DOTALL)
    assert status
    assert flat(status[1]) == "1 of 1 node with GPUs, 1 GPU"


def test_gpus_stand_in_the_order_of_their_numbers(browser: Client) -> None:
    unnamed = Gpu(slot="gpu-1/nvidia.com/gpu#0", node="gpu-1")
    polled(seen=of_one(unnamed, gpu(2), gpu(10), gpu(0)))

    cells = re.findall(r'title="([^:"]*):', browser.get(LIST).content.decode())

    assert [cell for cell in cells if "GPU" in cell or "#" in cell] == [
        "GPU 0",
        "GPU 2",
        "GPU 10",
        "nvidia.com/gpu#0",
    ]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("?rack=rack-b", ["gpu-2"]),
        ("?rack=unknown", ["gpu-3"]),
        ("?model=NVIDIA-H100-80GB-HBM3", ["gpu-2"]),
        ("?driver=535.1", ["gpu-3"]),
        ("?state=idle_held", ["gpu-1"]),
        ("?state=nonsense", []),
        ("?findings=any", ["gpu-2"]),
        ("?rack=rack-b&state=idle_held", []),
    ],
)
def test_each_filter_narrows_the_list(browser: Client, query: str, shown: list[str]) -> None:
    seen = snapshot(
        node("gpu-1", rack="rack-a"),
        node("gpu-2", rack="rack-b", labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}),
        node("gpu-3", labels={"nvidia.com/cuda.driver-version.full": "535.1"}),
        gpu(0, "gpu-1", state=State.IDLE_HELD),
    )
    polled(finding(subject=Subject(kind="Node", name="gpu-2"), nodes=()), seen=seen)

    assert names(browser, query) == shown


def test_filters_offer_what_there_is(browser: Client) -> None:
    polled(seen=snapshot(node("a", rack="r2"), node("b", rack="r1"), node("c")))

    text = browser.get(f"{LIST}?rack=r1").content.decode()

    racks = re.search(r'<select id="filter-rack".*?</select>', text, re.DOTALL)
    assert racks
    assert re.findall(r'value="([^"]*)"', racks[0]) == ["", "r1", "r2", "unknown"]
    assert re.search(r'value="r1"\s+selected', racks[0])


@pytest.mark.parametrize(
    ("sort", "shown"),
    [
        ("name", ["a", "b", "c"]),
        ("rack", ["c", "a", "b"]),
        ("held", ["b", "a", "c"]),
        ("free", ["c", "a", "b"]),
        ("nonsense", ["b", "a", "c"]),
    ],
)
def test_the_list_can_be_ordered(browser: Client, sort: str, shown: list[str]) -> None:
    seen = snapshot(
        node("a", rack="r2"),
        node("b", unschedulable=True),
        node("c", rack="r1"),
        gpu(0, "b", holders=("research/train-0",), state=State.EFFECTIVE),
        gpu(0, "c", state=State.FREE),
    )
    polled(seen=seen)

    assert names(browser, f"?sort={sort}") == shown
