"""The page of one node."""

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Subject
from diagnostics.models import StoredPicture, StoredSnapshot
from diagnostics.snapshot import Condition, Metrics, Pod, Source, State, Taint
from tests.builders import GIB, NOW, ago, container, event, gpu, node, owner, pod, snapshot
from tests.pages.history import change, device_row, hold, hours, node_row, said, workload_row
from tests.pages.stored import finding, polled
from tests.pages.test_findings import flat
from tests.pages.test_nodes import LIST, of_one

pytestmark = pytest.mark.django_db


def page(browser: Client, name: str = "gpu-1") -> str:
    return browser.get(f"{LIST}{name}/").content.decode()


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


def test_a_gpu_that_is_only_not_offered_is_not_called_unhealthy(browser: Client) -> None:
    """Nobody marked it: the node offers fewer than are fitted."""
    lost = gpu(0, state=State.UNAVAILABLE, is_healthy=False)
    polled(seen=snapshot(node(allocatable={"nvidia.com/gpu": 0.0}), lost))
    assert "not offered" in page(browser)
    assert not re.search(r"tag-bad.>\s*unhealthy", page(browser))


def test_a_gpu_that_a_pod_holds_and_that_is_marked_is_called_unhealthy(browser: Client) -> None:
    held = gpu(0, state=State.UNAVAILABLE, is_healthy=False, holders=("research/train-0",))
    polled(seen=snapshot(node(allocatable={"nvidia.com/gpu": 0.0}), held))
    assert re.search(r"tag-bad.>\s*unhealthy", page(browser))


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


def test_a_node_of_unknown_readiness_is_not_called_ready(browser: Client) -> None:
    polled(seen=snapshot(node(conditions=())))

    assert "readiness unknown" in browser.get(LIST).content.decode()
    assert "nothing said" in page(browser)


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


@pytest.mark.parametrize("number", [1, 8])
def test_a_node_costs_eleven_queries_however_many_gpus(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    polled(finding(), seen=of_one(*(gpu(i) for i in range(number))))

    with django_assert_num_queries(11):
        page(browser)


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
    change(row, "GPU lost", ago(hours=1), gpu().slot, before="GPU-0")
    hold(row, workload_row(of), "train-0", ["00000000:10:00.0"], ago(hours=3), ended_at=ago(hours=2))
    about = {"kind": "Node", "namespace": "", "name": "gpu-1"}
    said(of, [event("NodeNotReady", "it went away", last_at=ago(minutes=50), **about)], NOW)
    said(of, [event("Rebooted", "old", **about | {"name": "gpu-2"})], NOW)

    text = flat(page(browser))

    assert re.search(
        r"GPU withdrawn from scheduling .*GPU-0 → not offered.*Driver changed 535\.1 → 550\.90\.07", text
    )
    assert re.search(r"train-0 .*Job train in research 00000000:10:00\.0 .* 1 h", text)
    assert "50 min NodeNotReady it went away 1" in text
    assert "Rebooted" not in text


def test_a_crash_loop_is_one_line_from_its_first_restart_to_its_last(browser: Client) -> None:
    row = node_row(polled(seen=of_one(gpu(0))))
    for number in range(5):
        counts = {"before": f"{number} restarts", "after": f"{number + 1} restarts"}
        change(row, "operator pod restarted", ago(minutes=9 - number), "plugin on gpu-1", **counts)
    change(row, "cordoned", ago(minutes=2))
    change(
        row,
        "operator pod restarted",
        ago(minutes=1),
        "plugin on gpu-1",
        before="5 restarts",
        after="6 restarts",
    )

    text = flat(page(browser))

    assert text.count("Operator pod restarted") == 2
    assert "Operator pod restarted 5 × plugin on gpu-1 0 restarts → 5 restarts" in text


def test_restarts_whose_count_falls_begin_another_line(browser: Client) -> None:
    row = node_row(polled(seen=of_one(gpu(0))))
    for minutes, before, after in ((4, 214, 215), (3, 215, 216), (2, 0, 1), (1, 1, 2)):
        counts = {"before": f"{before} restarts", "after": f"{after} restart" + ("" if after == 1 else "s")}
        change(row, "operator pod restarted", ago(minutes=minutes), "plugin on gpu-1", **counts)

    text = flat(page(browser))

    assert "Operator pod restarted 2 × plugin on gpu-1 0 restarts → 2 restarts" in text
    assert "Operator pod restarted 2 × plugin on gpu-1 214 restarts → 216 restarts" in text


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


def component(name: str, label: str, **fields: Any) -> Pod:
    daemons: dict[str, Any] = {"owners": (owner("DaemonSet", label, namespace="gpu-operator"),), "gpus": 0}
    return pod(name, "gpu-operator", labels={"app": label}, **(daemons | fields))


def test_pods_of_the_gpu_stack_stand_in_order_with_readiness_and_restarts(browser: Client) -> None:
    loops = container(
        gpus=0,
        restarts=12,
        state="waiting",
        waiting_reason="CrashLoopBackOff",
        is_ready=False,
        running_since=None,
    )
    not_ready = (Condition("Ready", "False"),)
    polled(
        seen=of_one(
            component("exporter-x", "nvidia-dcgm-exporter", conditions=not_ready),
            component(
                "plugin-x", "nvidia-device-plugin-daemonset", containers=(loops,), conditions=not_ready
            ),
            component("driver-x", "nvidia-driver-daemonset"),
            component("cuda-x", "nvidia-cuda-validator", phase="Succeeded", conditions=not_ready),
            component("driver-y", "nvidia-driver-daemonset", node="gpu-2"),
            gpu(0),
        )
    )

    found = flat(page(browser))

    assert re.search(
        r"Driver ready 0 2 h gpu-operator/driver-x CUDA validator completed 0 2 h gpu-operator/cuda-x "
        r"Device plugin crash-looping 12 2 h gpu-operator/plugin-x main: CrashLoopBackOff "
        r"DCGM exporter not ready Running 0 2 h gpu-operator/exporter-x",
        found,
    )
    assert "driver-y" not in found
    assert "No other pod runs on this node." in found


def test_other_pods_are_counted_by_namespace(browser: Client) -> None:
    polled(
        seen=of_one(
            *(pod(f"agent-{number}", f"ns-{number}", gpus=0) for number in range(10)),
            *(pod("train-0"), pod("train-1", conditions=())),
            pod(
                "controller",
                "gpu-operator",
                gpus=0,
                labels={"app": "gpu-operator"},
                owners=(owner("ReplicaSet"),),
            ),
            pod("done", phase="Succeeded"),
            gpu(0),
        )
    )

    found = flat(page(browser))

    assert (
        "13 other pods on this node, 2 of them with GPUs, 1 not ready: 2 in research , 1 in gpu-operator"
        in found
    )
    assert "1 in ns-5 and more in 4 other namespaces" in found
    assert "None of the pods that make GPUs usable runs here" in found


def test_pods_that_could_not_be_read_are_not_called_missing(browser: Client) -> None:
    polled(seen=of_one(gpu(0), without=[Source.PODS]))

    found = flat(page(browser))

    assert "Pods were read only in part (absent)" in found
    assert "None of the pods that make GPUs usable runs here" not in found
    assert "No other pod runs" not in found
