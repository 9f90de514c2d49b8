"""The list of workloads."""

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Severity, Subject
from diagnostics.models import StoredPicture, TeamRule
from diagnostics.snapshot import Metrics, OwnerKey, Pod, Source, State
from tests.builders import NOW, ago, container, gang, gpu, node, owner, pending_pod, pod, snapshot
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, polled
from tests.pages.stored_history import workload
from tests.pages.test_findings import flat

pytestmark = pytest.mark.django_db

LIST = "/c/lab/workloads/"
TRAIN = owner("Job", "train")
SERVE = owner("Deployment", "serve", namespace="web")


def names(browser: Client, query: str = "") -> list[str]:
    text = browser.get(LIST + query).content.decode()
    return re.findall(r'<th scope="row">\s*<a class="row-link"[^>]*>\s*<bdi>([^<]*)</bdi>', text)


def text(browser: Client, query: str = "") -> str:
    return flat(browser.get(LIST + query).content.decode())


def of(name: str, root: OwnerKey = TRAIN, **fields: Any) -> Pod:
    return pod(name, root=root, **fields)


def test_pods_of_one_owner_are_one_workload_with_the_gpus_that_they_hold(browser: Client) -> None:
    busy = Metrics(sampled_at=NOW, utilization_ratio=0.9, sm_active_ratio=0.6)
    quiet = Metrics(sampled_at=NOW, utilization_ratio=0.1, sm_active_ratio=0.0)
    polled(
        seen=snapshot(
            *(node("gpu-1"), node("gpu-2"), of("train-0"), of("train-1", node="gpu-2")),
            gpu(0, state=State.EFFECTIVE, holders=("research/train-0",), metrics=busy),
            gpu(0, "gpu-2", state=State.IDLE_HELD, holders=("research/train-1",), metrics=quiet),
        )
    )

    found = text(browser)

    assert names(browser) == ["train"]
    assert "Job in research research running 2 run 2 E 1 effective M 1 idle, memory held 50 % 30 %" in found
    assert "gpu-1 and 1 more" in found
    assert "1 workload, holding 2 of the 2 GPUs that they ask for" in found


def test_what_is_not_measured_is_not_idle(browser: Client) -> None:
    polled(
        seen=snapshot(
            node(), of("train-0"), gpu(0, state=State.NO_DATA, holders=("research/train-0",), metrics=None)
        )
    )

    found = text(browser)

    assert "? 1 no data not collected not collected" in found
    assert " 0 %" not in found


def test_a_mean_says_over_how_many_gpus_it_is_known(browser: Client) -> None:
    sample = Metrics(sampled_at=NOW, utilization_ratio=0.8)
    polled(
        seen=snapshot(
            *(node(), of("train-0", gpus=2)),
            gpu(0, holders=("research/train-0",), metrics=sample),
            gpu(1, holders=("research/train-0",), metrics=None),
        )
    )

    assert "80 % of 1" in text(browser)


def test_a_gpu_that_two_pods_of_it_share_counts_once(browser: Client) -> None:
    shared = gpu(0, replicas=4, holders=("research/train-0", "research/train-1"))
    polled(seen=snapshot(node(), of("train-0"), of("train-1"), shared))

    assert "holding 1 of the 2 GPUs" in text(browser)


def test_a_workload_that_waits_says_so(browser: Client) -> None:
    polled(
        seen=snapshot(
            *(node(), of("train-0"), pending_pod("train-1", root=TRAIN, gpus=4)),
            gpu(0, holders=("research/train-0",)),
            gang(members=("research/train-0", "research/train-1"), size=3),
        )
    )

    found = text(browser)

    assert "partly running 1 run of 3, 1 wait" in found
    assert "1 of 5" in found


LOOPS = container(restarts=9, state="waiting", waiting_reason="CrashLoopBackOff", running_since=None)


def test_a_deployment_whose_pod_crash_loops_does_not_run(browser: Client) -> None:
    polled(seen=snapshot(node(), of("serve-0", SERVE, namespace="web", containers=(LOOPS,))))

    assert "crash-looping 0 run, 1 crash-loop" in text(browser)
    assert names(browser, "?phase=crash-looping") == ["serve"]
    assert names(browser, "?phase=running") == []


def test_one_that_crash_loops_beside_others_leaves_it_partly_running(browser: Client) -> None:
    polled(seen=snapshot(node(), of("train-0"), of("train-1", containers=(LOOPS,))))

    assert "partly running 1 run, 1 crash-loop" in text(browser)


def test_a_pod_that_is_being_deleted_is_terminating_not_starting(browser: Client) -> None:
    polled(seen=snapshot(node(), pod("notebook", deletion_at=ago(minutes=40))))

    assert "terminating 0 run, 1 terminating" in text(browser)
    assert names(browser, "?phase=terminating") == ["notebook"]
    assert names(browser, "?phase=starting") == []


def test_columns_say_when_they_were_true(browser: Client) -> None:
    polled(seen=snapshot(node(), of("train-0")))

    found = text(browser)

    assert "Pods now GPUs held now In which state over 30 min" in found
    assert "Util. latest Activity latest" in found


def test_finished_workloads_are_left_out_until_asked_for(browser: Client) -> None:
    done = of("done-0", owner("Job", "done"), phase="Succeeded")
    polled(seen=snapshot(node(), of("train-0"), done))

    assert names(browser) == ["train"]
    assert "1 workload with finished pods alone is left out." in text(browser)
    assert names(browser, "?phase=finished") == ["done"]


def test_a_holder_that_only_the_metrics_know_is_listed(browser: Client) -> None:
    polled(seen=snapshot(node(), gpu(0, holders=("research/ghost",))))

    assert names(browser) == ["ghost"]
    assert "unknown none read" in text(browser)


def test_findings_are_counted_by_severity_in_the_row(browser: Client) -> None:
    held = gpu(0, holders=("research/train-0",))
    polled(
        finding("GPU302", subject=Subject("Job", "train", "research"), severity=Severity.CRITICAL, nodes=()),
        finding("GPU401", subject=Subject("Node", "gpu-1"), pods=("research/train-0",)),
        finding("GPU101", subject=Subject("GPU", held.slot), severity=Severity.INFO),
        finding("GPU201", subject=Subject("Node", "gpu-9"), severity=Severity.CRITICAL),
        seen=snapshot(node(), of("train-0"), of("serve-0", SERVE, namespace="web"), held),
    )

    assert "critical 1 warning 1 info 1" in text(browser)
    assert names(browser) == ["train", "serve"]
    assert names(browser, "?findings=any") == ["train"]


def test_a_team_is_mapped_by_labels(browser: Client) -> None:
    of_lab = polled(seen=snapshot(node(), of("train-0"), of("serve-0", SERVE, namespace="web")))
    workload(of_lab, labels={"team": "vision"})
    TeamRule.objects.create(by="label", key="team")

    assert names(browser, "?team=vision") == ["train"]
    assert names(browser, "?team=web") == ["serve"], "without a rule that matches, the namespace is the team"


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("?namespace=web", ["serve"]),
        ("?kind=Job", ["train"]),
        ("?q=deployment", ["serve"]),
        ("?q=RESEARCH/TR", ["train"]),
        ("?q=gpu-2", ["serve"]),
        ("?phase=waiting", []),
        ("?phase=running", ["serve", "train"]),
        ("?state=hung", ["train"]),
        ("?state=effective", ["serve"]),
        ("?state=nonsense&sort=nonsense", ["serve", "train"]),
        ("?sort=name", ["train", "serve"]),
        ("?sort=activity", ["train", "serve"]),
        ("?sort=oldest", ["serve", "train"]),
    ],
)
def test_filters_and_sorts(browser: Client, query: str, shown: list[str]) -> None:
    still = Metrics(sampled_at=NOW, sm_active_ratio=0.0)
    polled(
        seen=snapshot(
            *(node("gpu-1"), node("gpu-2")),
            of("train-0"),
            of("serve-0", SERVE, namespace="web", node="gpu-2", gpus=2, created_at=ago(days=3)),
            gpu(0, "gpu-1", state=State.HUNG, holders=("research/train-0",), metrics=still),
            gpu(0, "gpu-2", state=State.EFFECTIVE, holders=("web/serve-0",), metrics=None),
            gpu(1, "gpu-2", state=State.EFFECTIVE, holders=("web/serve-0",), metrics=None),
        )
    )

    assert names(browser, query) == shown


def test_a_filter_that_leaves_nothing_says_so(browser: Client) -> None:
    polled(seen=snapshot(node(), of("train-0")))

    assert "No workload is left by the filter. Show all 1" in text(browser, "?q=elsewhere")


def test_a_cluster_without_workloads_says_what_would_count(browser: Client) -> None:
    polled(seen=snapshot(node()))

    assert "No workload asks for GPUs." in text(browser)


def test_pods_that_could_not_be_read_are_not_shown_as_none(browser: Client) -> None:
    polled(seen=snapshot(node(), without=[Source.PODS]))

    found = text(browser)

    assert "Incomplete. Pods were read only in part (absent)" in found
    assert "No workload asks for GPUs." not in found


def test_nothing_polled_is_no_data(browser: Client) -> None:
    cluster()

    found = text(browser)

    assert "No data. No poll of this cluster has brought anything yet." in found
    assert "0 workloads" not in found


def test_a_damaged_picture_is_named(browser: Client) -> None:
    polled(seen=snapshot(node(), of("train-0")))
    StoredPicture.objects.update(workloads=b"nonsense")

    assert "What the last poll stored cannot be read" in text(browser)


def test_gpus_that_could_not_be_read_are_not_shown_as_none(browser: Client) -> None:
    polled(seen=snapshot(node(), of("train-0")))
    StoredPicture.objects.update(devices=b"nonsense")

    assert "GPUs are missing. What the last poll stored cannot be read" in text(browser)


@pytest.mark.parametrize("number", [1, 40])
def test_the_list_costs_eight_queries_however_many_workloads(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    owners = [owner("Job", f"train-{i}") for i in range(number)]
    TeamRule.objects.create(by="label", key="team")
    polled(
        *(finding("GPU501", subject=Subject("Job", o.name, "research")) for o in owners),
        seen=snapshot(node(), *(of(f"{o.name}-0", o) for o in owners)),
    )

    with django_assert_num_queries(8):
        browser.get(LIST)


def test_a_long_list_is_cut_into_pages(browser: Client) -> None:
    polled(seen=snapshot(node(), *(of(f"j{i:03}-0", owner("Job", f"j{i:03}")) for i in range(101))))

    assert len(names(browser)) == 100
    assert names(browser, "?page=2") == ["j100"]


def test_the_live_part_announces_the_count(browser: Client) -> None:
    polled(seen=snapshot(node(), of("train-0")))

    part = browser.get(LIST, headers=HTMX).content.decode()

    status = re.search(r'<p id="status-line" hx-swap-oob="innerHTML">(.*?)</p>', part, re.DOTALL)
    assert status
    assert flat(status[1]) == "1 workload, holding 0 of the 1 GPU that they ask for"
