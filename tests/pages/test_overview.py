"""The overview: states, findings, what waits, sources and changes; and what it says where it knows nothing."""

from datetime import datetime, timedelta

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Severity, Subject
from diagnostics.models import (
    STATE_NUMBERS,
    Cluster,
    GpuModel,
    LedgerState,
    StoredPicture,
    TopologyChange,
    UsageHour,
    Workload,
)
from diagnostics.snapshot import Condition, Source, State
from diagnostics.usage.weights import HOUR_MS
from tests.builders import NOW, ago, gpu, node, pod, snapshot
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, polled
from tests.pages.test_findings import flat

pytestmark = pytest.mark.django_db

URL = "/c/lab/"


def text(browser: Client) -> str:
    return flat(browser.get(URL).content.decode())


def test_counts_gpus_by_state(browser: Client) -> None:
    held = gpu(0, state=State.IDLE_HELD, holders=("research/train-0",))
    polled(seen=snapshot(node(), held, gpu(1, state=State.FREE), gpu(2, state=State.FREE)))
    found = text(browser)
    assert "3 GPUs 1 held, on 1 node" in found
    assert "M 1 idle, memory held" in found
    assert "F 2 free" in found


def test_a_gpu_without_a_state_is_not_evaluated(browser: Client) -> None:
    polled(seen=snapshot(node(), gpu(0, state=None)))
    assert "? 1 not evaluated" in text(browser)


def test_nothing_polled_is_no_data_and_not_an_empty_cluster(browser: Client) -> None:
    cluster()
    found = text(browser)
    assert "No poll of this cluster has brought anything yet." in found
    assert "not evaluated" in found
    assert "0 GPUs" not in found
    assert "Nothing is open" not in found


def test_a_picture_that_cannot_be_read_is_named(browser: Client) -> None:
    polled(seen=snapshot(node()))
    StoredPicture.objects.update(devices=b"nonsense", workloads=b"nonsense")
    assert "What the last poll stored cannot be read" in text(browser)


def test_pods_that_could_not_be_read_do_not_read_as_none_waiting(browser: Client) -> None:
    polled(seen=snapshot(node(), without=[Source.PODS]))
    assert "Pods were read only in part (absent)" in text(browser)


def test_says_how_many_pods_wait_and_for_how_long(browser: Client) -> None:
    waits = Condition("PodScheduled", "False", "Unschedulable", "0/1 nodes are available")
    pending = pod(
        gpus=4, phase="Pending", node=None, conditions=(waits,), created_at=ago(hours=3), started_at=None
    )
    polled(seen=snapshot(node(), pending))
    found = text(browser)
    assert "1 pod of 1 workload" in found
    assert "They ask for 4 GPUs; the oldest waits for 3 h" in found


def test_lists_the_worst_findings_first(browser: Client) -> None:
    polled(
        finding(title="A warning", subject=Subject(kind="Node", name="a")),
        finding(title="A catastrophe", subject=Subject(kind="Node", name="b"), severity=Severity.CRITICAL),
    )
    found = text(browser)
    assert "2 open findings" in found
    assert found.index("A catastrophe") < found.index("A warning")


def test_tells_what_changed_lately(browser: Client) -> None:
    lab = polled(finding(title="Something broke"))
    TopologyChange.objects.create(
        cluster=lab,
        at=NOW - timedelta(hours=1),
        kind="driver changed",
        subject="gpu-7",
        before="550",
        after="570",
    )
    TopologyChange.objects.create(cluster=lab, at=NOW - timedelta(days=2), kind="cordoned", subject="gpu-8")
    found = text(browser)
    assert "driver changed gpu-7 550 → 570" in found
    assert "finding opened Something broke" in found
    assert "gpu-8" not in found


def test_a_crash_loop_is_one_line(browser: Client) -> None:
    lab = polled()
    for number in range(5):
        TopologyChange.objects.create(
            cluster=lab,
            at=NOW - timedelta(minutes=number + 1),
            kind="operator pod restarted",
            subject="device-plugin on gpu-7",
            before=f"{8 - number} restarts",
            after=f"{9 - number} restarts",
        )
    found = text(browser)
    assert found.count("device-plugin on gpu-7") == 1
    assert "operator pod restarted 5 × device-plugin on gpu-7 4 restarts → 9 restarts" in found


def test_restarts_are_told_since_their_count_fell(browser: Client) -> None:
    lab = polled()
    for minutes, before, after in ((1, 1, 2), (2, 0, 1), (3, 215, 216)):
        TopologyChange.objects.create(
            cluster=lab,
            at=NOW - timedelta(minutes=minutes),
            kind="operator pod restarted",
            subject="device-plugin on gpu-7",
            before=f"{before} restarts",
            after=f"{after} restart" + ("" if after == 1 else "s"),
        )

    assert "operator pod restarted 2 × device-plugin on gpu-7 0 restarts → 2 restarts" in text(browser)


def test_a_live_page_is_mostly_told_that_nothing_changed(browser: Client) -> None:
    polled(finding())
    first = browser.get(URL, headers=HTMX)
    assert first.content.decode().lstrip().startswith('<div id="overview"')
    again = browser.get(URL, headers=HTMX | {"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304


def test_a_history_restore_gets_the_full_page(browser: Client) -> None:
    polled()
    restored = browser.get(URL, headers=HTMX | {"HX-History-Restore-Request": "true"})
    assert "<!DOCTYPE html>" in restored.content.decode()


@pytest.mark.parametrize("number", [1, 30])
def test_costs_the_same_queries_however_large(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    nodes = [node(f"n{i}") for i in range(number)]
    lab = polled(*(finding(subject=Subject(kind="Node", name=n.name)) for n in nodes), seen=snapshot(*nodes))
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    for back in range(8):
        hour(lab, midnight - timedelta(days=back), State.EFFECTIVE, number)
    LedgerState.objects.create(cluster=lab, complete_through=midnight + timedelta(hours=1))
    with django_assert_num_queries(12):
        browser.get(URL)


def hour(of: Cluster, at: datetime, state: State, gpu_hours: float, wasted: float = 0.0) -> None:
    """A line of the ledger of one workload."""
    owner, _ = Workload.objects.get_or_create(
        cluster=of,
        kind="Job",
        namespace="research",
        name="train",
        defaults={"first_seen": NOW, "last_seen": NOW},
    )
    model, _ = GpuModel.objects.get_or_create(name="A100")
    UsageHour.objects.create(
        cluster=of,
        hour=at,
        workload=owner,
        model=model,
        state=STATE_NUMBERS[state],
        gpu_ms=gpu_hours * HOUR_MS,
        waste_ms=wasted * HOUR_MS,
    )


def test_compares_today_with_the_week_before(browser: Client) -> None:
    lab = polled()
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    hour(lab, midnight, State.EFFECTIVE, 6)
    hour(lab, midnight, State.IDLE_HELD, 2, wasted=2)
    hour(lab, midnight - timedelta(days=1), State.EFFECTIVE, 5)
    LedgerState.objects.create(cluster=lab, complete_through=midnight + timedelta(hours=1))
    found = text(browser)
    assert "held 8 5" in found
    assert "wasted 2 0" in found
    assert "effective 6 5" in found
    assert "mean of the same hours of 1 day before" in found


def test_days_that_are_not_known_are_not_counted(browser: Client) -> None:
    lab = polled()
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    hour(lab, midnight, State.EFFECTIVE, 6)
    LedgerState.objects.create(cluster=lab, complete_through=midnight + timedelta(hours=1))

    found = text(browser)

    assert "no history" in found
    assert "0 days before" not in found


def test_today_is_unknown_while_no_hour_is_final(browser: Client) -> None:
    polled()
    assert "no hour of today is final yet" in text(browser)
