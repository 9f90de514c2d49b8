"""What waits for GPUs, and why."""

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Finding, Severity, Subject
from diagnostics.models import StoredPicture
from diagnostics.snapshot import Condition, Pod, Source, State
from tests.builders import ago, container, gang, gpu, node, owner, pending_pod, pod, snapshot
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, polled
from tests.pages.test_findings import flat

pytestmark = pytest.mark.django_db

LIST = "/c/lab/pending/"
TRAIN = owner("Job", "train")
OF_TRAIN = Subject("Job", "train", "research")


def text(browser: Client, query: str = "") -> str:
    return flat(browser.get(LIST + query).content.decode())


def names(browser: Client, query: str = "") -> list[str]:
    page = browser.get(LIST + query).content.decode()
    return re.findall(r'<th scope="row">\s*(?:<a[^>]*>)?\s*<bdi>([^<]*)</bdi>', page)


def waiting(name: str = "train-0", **fields: Any) -> Pod:
    return pending_pod(name, **({"root": TRAIN} | fields))


def explained(subject: Subject = OF_TRAIN, **fields: Any) -> Finding:
    return finding(
        "GPU303",
        "pending-gpu-pod",
        **(
            {
                "subject": subject,
                "cause": "cpu-or-memory-stranded",
                "title": "2 pods wait: the nodes lack CPU or memory",
                "summary": "The nodes with free GPUs lack CPU or memory for it.",
                "nodes": (),
            }
            | fields
        ),
    )


def test_pods_of_one_owner_wait_together(browser: Client) -> None:
    polled(
        seen=snapshot(
            node(),
            waiting("train-0", gpus=4, created_at=ago(hours=3), priority=10),
            waiting("train-1", gpus=8, labels={"kueue.x-k8s.io/queue-name": "gold"}),
            pod("train-2", root=TRAIN),
        )
    )

    found = text(browser)

    assert names(browser) == ["train"]
    assert "3 h" in found
    assert "2 wait 1 runs" in found
    one_node = "1 of 1 node admits it, 7 free there"
    assert f"1 pod: 4 × nvidia.com/gpu {one_node} 1 pod: 8 × nvidia.com/gpu {one_node}" in found
    assert "priority 10" in found
    assert "2 pods of 1 workload wait for 12 GPUs" in found


def test_the_finding_says_why_and_is_linked(browser: Client) -> None:
    of = explained()
    polled(of, seen=snapshot(node(), waiting()))

    page = browser.get(LIST).content.decode()

    assert f'href="/c/lab/findings/{of.id}/"' in page
    assert "CPU or memory stranded The nodes with free GPUs lack CPU or memory for it." in flat(page)
    assert "not explained yet" not in flat(page)


def test_without_a_finding_kubernetes_speaks_for_itself(browser: Client) -> None:
    other = "0/1 nodes are available: 1 node(s) had untolerated taint."
    polled(seen=snapshot(node(), waiting("train-0"), waiting("train-1"), waiting("train-2", message=other)))

    found = text(browser)

    assert "not explained yet 2 × 0/1 nodes are available: 1 Insufficient nvidia.com/gpu." in found
    assert f"1 × {other}" in found


def test_a_gate_is_named(browser: Client) -> None:
    polled(seen=snapshot(node(), waiting(scheduling_gates=("kueue.x-k8s.io/admission",), conditions=())))

    assert "scheduling gates: kueue.x-k8s.io/admission" in text(browser)


def test_silence_is_said(browser: Client) -> None:
    polled(seen=snapshot(node(), waiting(conditions=())))

    assert "Kubernetes says nothing about it." in text(browser)


def test_bare_pods_of_a_gang_are_one_line(browser: Client) -> None:
    group = gang(
        "ring",
        kind="PodGroup",
        members=("research/a", "research/b"),
        size=4,
        min_available=2,
        gang_scheduler="coscheduling",
    )
    about = explained(Subject("PodGroup", "ring", "research"), pods=("research/a", "research/b"))
    polled(
        about,
        seen=snapshot(node(), pending_pod("a"), pending_pod("b"), pending_pod("c"), group),
    )

    found = text(browser)

    assert sorted(names(browser)) == ["c", "ring"]
    assert "PodGroup in research" in found
    assert "2 wait 4 wanted coscheduling starts 2 or none" in found
    assert found.count("CPU or memory stranded The") == 1


def test_a_part_that_runs_meanwhile_is_named(browser: Client) -> None:
    part = finding(
        "GPU302",
        "partial-gang",
        severity=Severity.CRITICAL,
        subject=Subject("Job", "train", "research"),
        title="Job train: 1 of 2 members run, and hold 8 GPUs for nothing",
        nodes=(),
    )
    polled(part, seen=snapshot(node(), pod("train-0", root=TRAIN), waiting("train-1")))

    assert "critical Job train: 1 of 2 members run" in text(browser)


def test_pods_that_a_quota_keeps_from_being_made_wait_too(browser: Client) -> None:
    about = explained(
        Subject("Job", "blocked", "research"),
        cause="namespace-resource-quota-exceeded",
        gpus=8,
        title="quota keeps it",
    )
    polled(about, seen=snapshot(node(), waiting()))

    found = text(browser)

    assert sorted(names(browser)) == ["blocked", "train"]
    assert "none made" in found
    assert "no pod to ask" in found
    assert "1 pod of 2 workloads waits for 9 GPUs" in found


def test_what_is_free_meanwhile_is_said_by_resource(browser: Client) -> None:
    polled(
        seen=snapshot(
            *(node("gpu-1"), node("gpu-2"), waiting()),
            *(gpu(i, "gpu-1", state=State.FREE) for i in range(3)),
            gpu(0, "gpu-2", state=State.FREE),
            gpu(1, "gpu-2", state=State.STRANDED),
            gpu(2, "gpu-2", state=State.EFFECTIVE),
        )
    )

    assert "nvidia.com/gpu 4 free on 2 nodes, at most 3 on one 1 stranded" in text(browser)


def test_each_waiting_pod_says_how_many_nodes_admit_it_and_what_is_free_there(browser: Client) -> None:
    gold: dict[str, Any] = {"labels": {"pool": "gold"}}
    polled(
        seen=snapshot(
            *(node("gpu-1"), node("gpu-2", **gold), node("gpu-3", **gold)),
            *(pod("a", node="gpu-2", gpus=6), pod("b", node="gpu-3", gpus=5)),
            waiting("train-0", gpus=4, node_selector={"pool": "gold"}),
            pending_pod("nowhere", node_selector={"pool": "lead"}),
        )
    )

    found = text(browser)

    assert "4 × nvidia.com/gpu 2 of 3 nodes admit it, 5 free there, at most 3 on one" in found
    assert "1 × nvidia.com/gpu none of 3 nodes admits it" in found


def test_a_full_node_and_a_resource_that_nobody_has_are_said(browser: Client) -> None:
    slices = container(
        gpus=0, requests={"nvidia.com/mig-1g.10gb": 3.0}, limits={"nvidia.com/mig-1g.10gb": 3.0}
    )
    polled(
        seen=snapshot(
            *(node(), pod("full", gpus=8)),
            *(waiting("train-0"), pending_pod("sliced", containers=(slices,))),
        )
    )

    found = text(browser)

    assert "1 × nvidia.com/gpu 1 of 1 node admits it, none free there" in found
    assert "3 × nvidia.com/mig-1g.10gb no node has it" in found


def test_where_a_pod_may_run_is_not_made_up_where_nodes_were_not_read(browser: Client) -> None:
    polled(seen=snapshot(waiting(), without=[Source.NODES]))

    found = text(browser)

    assert "1 × nvidia.com/gpu" in found
    assert "admits it" not in found
    assert "no node has it" not in found


def test_pods_with_a_node_are_counted_apart(browser: Client) -> None:
    bound = pod(
        "pulling",
        phase="Pending",
        containers=(container(state="waiting", waiting_reason="ImagePullBackOff", running_since=None),),
    )
    polled(seen=snapshot(node(), bound))

    page = browser.get(LIST).content.decode()

    assert names(browser) == []
    assert "1 pod with GPUs has a node and has not started" in flat(page)
    assert 'href="/c/lab/findings/?rule=stuck-holder"' in page


def test_a_pod_that_is_being_deleted_does_not_wait(browser: Client) -> None:
    polled(seen=snapshot(node(), waiting(deletion_at=ago(minutes=1))))

    assert "Nothing waits." in text(browser)


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ["train", "infer"]),
        ("?sort=gpus", ["infer", "train"]),
        ("?sort=nonsense", ["train", "infer"]),
        ("?namespace=web", ["infer"]),
        ("?reason=cpu-or-memory-stranded", ["train"]),
        ("?reason=unexplained", ["infer"]),
        ("?resource=nvidia.com/mig-1g.10gb", ["infer"]),
        ("?resource=nvidia.com/gpu", ["train"]),
        ("?q=JOB", ["train"]),
        ("?q=nothing", []),
    ],
)
def test_filters_and_sorts(browser: Client, query: str, shown: list[str]) -> None:
    slices = container(requests={"nvidia.com/mig-1g.10gb": 3.0}, limits={"nvidia.com/mig-1g.10gb": 3.0})
    serve = owner("Deployment", "infer", namespace="web")
    polled(
        explained(),
        seen=snapshot(
            node(),
            waiting(created_at=ago(days=1)),
            pending_pod("infer-0", namespace="web", root=serve, containers=(slices,)),
        ),
    )

    assert names(browser, query) == shown


def test_nothing_waits_only_where_all_pods_were_read(browser: Client) -> None:
    polled(seen=snapshot(node(), pod()))

    assert "Nothing waits. Every pod that asks for GPUs has a node." in text(browser)


def test_unread_pods_may_wait(browser: Client) -> None:
    polled(seen=snapshot(node(), without=[Source.PODS]))

    found = text(browser)

    assert "Incomplete. Pods were read only in part (absent)" in found
    assert "No waiting pod was seen, but not all pods were read." in found
    assert "Nothing waits" not in found


def test_a_rule_that_could_not_look_is_said(browser: Client) -> None:
    polled(
        seen=snapshot(node(), waiting()),
        rules_skipped=[{"code": "GPU303", "reason": "pods were not read"}],
    )

    assert "Reasons may be missing." in text(browser)
    assert "could not look at everything: pods were not read" in text(browser)


def test_a_poll_that_failed_since_is_no_all_clear(browser: Client) -> None:
    of = polled(seen=snapshot(node(), pod()))
    polled(of=of, seen=snapshot(node(), pod()), at=ago(minutes=-1), status="failed", error="refused")

    found = text(browser)

    assert "Not evaluated since" in found
    assert "Nothing waits." not in found


def test_nothing_polled_is_no_data(browser: Client) -> None:
    cluster()

    found = text(browser)

    assert "No data. No poll of this cluster has brought anything yet." in found
    assert "Nothing waits" not in found


def test_a_damaged_picture_is_named(browser: Client) -> None:
    polled(seen=snapshot(node(), waiting()))
    StoredPicture.objects.update(workloads=b"nonsense")

    found = text(browser)

    assert "What the last poll stored cannot be read" in found
    assert "Nothing waits" not in found


@pytest.mark.parametrize("number", [1, 40])
def test_the_list_costs_seven_queries_however_much_waits(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    owners = [owner("Job", f"train-{i}") for i in range(number)]
    polled(
        *(explained(Subject("Job", one.name, "research")) for one in owners),
        seen=snapshot(node(), *(pending_pod(f"{one.name}-0", root=one) for one in owners)),
    )

    with django_assert_num_queries(7):
        browser.get(LIST)


def test_a_long_list_is_cut_into_pages(browser: Client) -> None:
    pods = [waiting(f"p{i:03}", root=owner("Job", f"j{i:03}"), created_at=ago(minutes=9)) for i in range(101)]
    polled(seen=snapshot(node(), *pods))

    assert len(names(browser)) == 100
    assert names(browser, "?page=2") == ["j100"]


def test_the_live_part_announces_the_count(browser: Client) -> None:
    polled(seen=snapshot(node(), waiting(conditions=(Condition("PodScheduled", "False"),))))

    part = browser.get(LIST, headers=HTMX).content.decode()

    status = re.search(r'<p id="status-line" hx-swap-oob="innerHTML">(.*?)</p>', part, re.DOTALL)
    assert status
    assert flat(status[1]) == "1 pod of 1 workload waits for 1 GPU"
