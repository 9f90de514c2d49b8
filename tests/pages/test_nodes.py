"""The list of nodes, and the page of one."""

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Severity, Subject
from diagnostics.models import StoredPicture, StoredSnapshot
from diagnostics.snapshot import Condition, Gpu, Metrics, Snapshot, Source, State, Taint
from tests.builders import GIB, NOW, ago, event, gpu, node, owner, pod, snapshot
from tests.pages.conftest import HTMX
from tests.pages.history import change, device_row, hold, hours, node_row, said, workload_row
from tests.pages.stored import finding, polled
from tests.pages.test_findings import flat

pytestmark = pytest.mark.django_db

LIST = "/c/lab/nodes/"


def names(browser: Client, query: str = "") -> list[str]:
    text = browser.get(LIST + query).content.decode()
    return re.findall(r'class="row-link"[^>]*>\s*<bdi>([^<]*)</bdi>', text)


def page(browser: Client, name: str = "gpu-1") -> str:
    return browser.get(f"{LIST}{name}/").content.decode()


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


def test_an_effective_gpu_that_could_not_be_judged_looks_so(browser: Client) -> None:
    polled(seen=of_one(gpu(0, state=State.EFFECTIVE, is_unjudged=True)))

    text = browser.get(LIST).content.decode()

    assert 'class="cell cell-unjudged"' in text
    assert "not judged" in page(browser)


def test_counts_what_is_fitted_offered_and_held(browser: Client) -> None:
    seen = snapshot(
        node(allocatable={"nvidia.com/gpu": 1.0}),
        gpu(0, state=State.EFFECTIVE, holders=("research/train-0",)),
        gpu(1, state=State.UNAVAILABLE),
    )
    polled(seen=seen)

    assert "2 fitted, 1 offered, 1 held" in flat(page(browser))


def test_shares_of_a_gpu_count_as_the_gpu(browser: Client) -> None:
    shared = node(
        labels={"nvidia.com/gpu.replicas": "4"},
        capacity={"nvidia.com/gpu": 8.0},
        allocatable={"nvidia.com/gpu": 8.0},
    )
    polled(seen=snapshot(shared, gpu(0, replicas=4), gpu(1, replicas=4)))

    assert "2 fitted, 2 offered" in flat(page(browser))


def test_a_node_that_says_nothing_of_gpus_offers_an_unknown_number(browser: Client) -> None:
    bare = node(gpus=0, labels={"nvidia.com/gpu.present": "true"})
    polled(seen=snapshot(bare))

    assert "0 fitted, unknown offered" in flat(page(browser))
    assert "no GPU known" in browser.get(LIST).content.decode()


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


def test_a_node_of_unknown_readiness_is_not_called_ready(browser: Client) -> None:
    polled(seen=snapshot(node(conditions=())))

    assert "readiness unknown" in browser.get(LIST).content.decode()
    assert "nothing said" in page(browser)


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

    assert "critical 2" in text
    assert "info 1" in text
    assert text.count("none") == 1


def test_a_cluster_without_gpus_says_what_would_count(browser: Client) -> None:
    polled(seen=snapshot(node("cpu-1", gpus=0)))

    assert "No node with GPUs was seen." in browser.get(LIST).content.decode()


def test_nodes_that_could_not_be_read_are_not_shown_as_none(browser: Client) -> None:
    polled(seen=snapshot(without=[Source.NODES]))

    text = flat(browser.get(LIST).content.decode())

    assert "Nodes were read only in part (absent)" in text


@pytest.mark.parametrize("address", [LIST, f"{LIST}gpu-1/"])
def test_a_damaged_snapshot_is_named(browser: Client, address: str) -> None:
    polled(seen=of_one())
    StoredSnapshot.objects.update(data=b"nonsense")
    StoredPicture.objects.update(devices=b"nonsense")

    response = browser.get(address)

    assert response.status_code == 200
    assert "What the last poll stored cannot be read" in flat(response.content.decode())


def test_metrics_carry_their_units(browser: Client) -> None:
    sample = Metrics(
        sampled_at=NOW,
        utilization_ratio=0.87,
        sm_active_ratio=0.004,
        memory_used_bytes=60.0 * GIB,
        memory_free_bytes=20.0 * GIB,
        power_w=311.4,
        power_limit_w=400.0,
        temperature_c=0.0,
        xid=79,
    )
    polled(seen=of_one(gpu(0, metrics=sample)))

    text = flat(page(browser))

    assert "87 % 0.4 % not collected 60 GiB of 80 GiB 311.4 W of 400 W 0 °C 79" in text


def test_a_gpu_without_metrics_shows_no_zero(browser: Client) -> None:
    polled(seen=of_one(gpu(0, metrics=None)))

    text = page(browser)

    assert "not collected" in text
    assert "0 W" not in flat(text)


def test_missing_metrics_are_explained(browser: Client) -> None:
    polled(seen=of_one(gpu(0), without=[Source.METRICS]))

    assert "GPU metrics (absent)" in flat(page(browser))


def test_conditions_taints_and_labels_stand_on_the_page(browser: Client) -> None:
    sick = node(
        conditions=(Condition("Ready", "False", "KubeletNotReady", "disk is full", ago(minutes=8)),),
        taints=(Taint("nvidia.com/gpu", "NoSchedule", "present"),),
        labels={"nvidia.com/mig.strategy": "single", "example.com/other": "x"},
    )
    polled(seen=snapshot(sick))

    text = flat(page(browser))

    assert "Ready False for 8 min KubeletNotReady: disk is full" in text
    assert "nvidia.com/gpu=present:NoSchedule" in text
    assert "nvidia.com/mig.strategy single" in text
    assert "example.com/other" not in text
    assert "550.90.07" in text


def test_there_is_no_page_of_an_unknown_node(browser: Client) -> None:
    polled(seen=of_one())

    assert browser.get(f"{LIST}gpu-99/").status_code == 404


@pytest.mark.parametrize("number", [1, 40])
def test_the_list_costs_six_queries_however_many_nodes(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    nodes = [node(f"n{i}") for i in range(number)]
    polled(*(finding(subject=Subject(kind="Node", name=n.name)) for n in nodes), seen=snapshot(*nodes))

    with django_assert_num_queries(6):
        browser.get(LIST)


@pytest.mark.parametrize("number", [1, 8])
def test_a_node_costs_eleven_queries_however_many_gpus(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    polled(finding(), seen=of_one(*(gpu(i) for i in range(number))))

    with django_assert_num_queries(11):
        page(browser)


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


def test_a_finding_about_a_gpu_touches_its_node(browser: Client) -> None:
    about = finding("GPU101", subject=Subject(kind="GPU", name=gpu().slot), title="Xid 79", nodes=())
    polled(about, seen=of_one(gpu(0)))

    assert "Xid 79" in page(browser)


def test_a_device_leads_to_its_page_and_its_holder_to_the_workload(browser: Client) -> None:
    held = gpu(0, holders=("research/train-0",))
    polled(seen=of_one(pod("train-0", root=owner("Job", "train")), held))

    text = page(browser)

    assert f'href="/c/lab/gpus/{held.slot}/"' in text
    assert 'href="/c/lab/workloads/Job/research/train/"' in text


def test_changes_holders_and_events_of_a_node_are_told_newest_first(browser: Client) -> None:
    of = polled(seen=of_one(gpu(0)))
    row = node_row(of)
    change(row, "driver changed", ago(hours=5), before="535.1", after="550.90.07")
    change(row, "GPU lost", ago(hours=1), gpu().slot, before="allocatable", after="unhealthy")
    hold(row, workload_row(of), "train-0", ["00000000:10:00.0"], ago(hours=3), ended_at=ago(hours=2))
    about = {"kind": "Node", "namespace": "", "name": "gpu-1"}
    said(of, [event("NodeNotReady", "it went away", last_at=ago(minutes=50), **about)], NOW)
    said(of, [event("Rebooted", "old", **about | {"name": "gpu-2"})], NOW)

    text = flat(page(browser))

    assert re.search(r"GPU lost .*allocatable → unhealthy.*Driver changed 535\.1 → 550\.90\.07", text)
    assert re.search(r"train-0 .*Job train in research 00000000:10:00\.0 .* 1 h", text)
    assert "50 min NodeNotReady it went away 1" in text
    assert "Rebooted" not in text


def test_a_node_that_is_gone_keeps_its_page_and_history(browser: Client) -> None:
    of = polled(seen=snapshot(node("gpu-2")))
    row = node_row(of, last_seen=ago(days=2), removed_at=ago(days=2), model="A100", driver="535.1")
    device_row(row)
    hours(row, [gpu().slot], ago(days=3).date())
    change(row, "node removed", ago(days=2))

    text = browser.get(f"{LIST}gpu-1/?period=7d").content.decode()

    words = flat(text)
    assert "was at 2026-05-30 12:00:00 UTC" in words
    assert "Node removed" in words
    assert f'href="/c/lab/gpus/{gpu().slot}/"' in text
    assert "data-figure" in text


def test_a_node_that_is_gone_costs_twelve_queries_at_most(
    browser: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    of = polled(seen=snapshot(node("gpu-2")))
    device_row(node_row(of))

    with django_assert_max_num_queries(12):
        page(browser)
