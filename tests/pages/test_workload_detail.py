"""The page of one workload: what it is and does now, what it cost, and what is left of one that is gone."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from diagnostics.archive import event_hours
from diagnostics.findings import Severity, Subject
from diagnostics.models import Cluster, Incident, Price
from diagnostics.snapshot import Condition, Container, Metrics, Pod, Source, State
from tests.builders import NOW, ago, event, gang, gpu, node, owner, pending_pod, pod, snapshot
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, polled
from tests.pages.stored_history import held, spent, workload
from tests.pages.test_findings import flat

pytestmark = pytest.mark.django_db

TRAIN = owner("Job", "train")
URL = "/c/lab/workloads/Job/research/train/"
OTHER_DAY = datetime(2026, 5, 20, 9, tzinfo=UTC)


def text(browser: Client, url: str = URL) -> str:
    return flat(browser.get(url).content.decode())


def of(name: str, **fields: Any) -> Pod:
    return pod(name, root=TRAIN, **fields)


def test_says_what_a_gang_is_and_why_it_is_taken_for_one(browser: Client) -> None:
    polled(
        seen=snapshot(
            node(),
            of("train-0", labels={"kueue.x-k8s.io/queue-name": "gold"}, priority=1000),
            pending_pod("train-1", root=TRAIN),
            gang(
                members=("research/train-0", "research/train-1"),
                size=2,
                min_available=2,
                gang_scheduler="kueue",
            ),
        )
    )

    found = text(browser)

    assert "partly running" in found
    assert "1 run, 1 wait, 2 wanted" in found
    assert "its pods work only together known by torchrun in the command line" in found
    assert "Gang scheduler kueue, starts with at least 2 pods" in found
    assert "Queue gold Priority 1000" in found


def test_its_gpus_stand_by_node_and_lead_to_their_pages(browser: Client) -> None:
    sample = Metrics(sampled_at=NOW, sm_active_ratio=0.7)
    polled(
        seen=snapshot(
            *(node("gpu-1", rack="r1"), node("gpu-2", unschedulable=True)),
            *(of("train-0"), of("train-1", node="gpu-2")),
            gpu(3, "gpu-1", state=State.EFFECTIVE, holders=("research/train-0",), metrics=sample),
            gpu(4, "gpu-2", state=State.HUNG, holders=("research/train-1",), metrics=None),
            gpu(5, "gpu-2", state=State.FREE),
        )
    )

    page = browser.get(URL).content.decode()

    assert "gpu-1 r1 E GPU 3 effective 70 % gpu-2 cordoned unknown H GPU 4 hung not collected" in flat(page)
    assert 'href="/c/lab/nodes/gpu-2/"' in page
    assert "GPU 5" not in page
    assert "2 GPUs held" in flat(page)


def test_its_pods_say_what_is_wrong_and_the_troubled_come_first(browser: Client) -> None:
    crashing = Container(
        name="main", waiting_reason="CrashLoopBackOff", waiting_message="back-off", restarts=7
    )
    polled(
        seen=snapshot(
            node(),
            of("train-0", created_at=ago(hours=3)),
            of("train-1", containers=(crashing,), resource_claims=("gpu",), conditions=()),
            of("train-2", phase="Succeeded"),
        )
    )

    page = browser.get(URL).content.decode()
    rows = [flat(row) for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL) if "train-" in row]

    assert rows[0].startswith(
        "train-1 Running, not ready crash-looping gpu-1 1 resource claim 7 2 h main: CrashLoopBackOff"
    )
    assert rows[1].startswith("train-0 Running gpu-1 1 × nvidia.com/gpu 0 3 h nothing")
    assert rows[2].startswith("train-2 Succeeded")


def test_findings_open_and_past_stand_on_it(browser: Client) -> None:
    about = Subject("Job", "train", "research")
    gone = finding("GPU302", slug="partial-gang", subject=about, title="3 of 4 members run")
    of_lab = polled(gone, seen=snapshot(node(), of("train-0")))
    Incident.objects.update(status="resolved", resolved_at=ago(hours=1), resolution="not seen for 3 polls")
    polled(
        finding("GPU501", subject=about, title="It idles"),
        finding(
            "GPU401", subject=Subject("Node", "gpu-1"), pods=("research/train-0",), title="It was killed"
        ),
        finding("GPU201", title="Somebody else's", severity=Severity.CRITICAL),
        of=of_lab,
        at=NOW + timedelta(seconds=30),
        seen=snapshot(node(), of("train-0")),
    )

    found = text(browser)

    assert "warning It idles" in found
    assert "It was killed" in found
    assert "1 resolved warning Resolved, was: 3 of 4 members run" in found
    assert "not seen for 3 polls" in found
    assert "Somebody else" not in found


def test_gpu_hours_are_summed_by_state_and_period_with_waste_and_money(browser: Client) -> None:
    of_lab = polled(seen=snapshot(node(), of("train-0")))
    row = workload(of_lab)
    spent(row, ago(hours=2), State.EFFECTIVE, hours=4.0)
    spent(row, ago(hours=3), State.IDLE_HELD, hours=1.0, wasted=1.0)
    spent(row, OTHER_DAY, State.EFFECTIVE, hours=5.0, is_backfilled=True)
    spent(row, OTHER_DAY, State.NO_DATA, hours=0.5, is_gap=True)
    spent(row, ago(days=40), State.EFFECTIVE, hours=100.0)
    Price.objects.create(pattern="*A100*", per_gpu_hour=Decimal(2))

    found = text(browser)

    assert "Last 7 days 5 GPU-hours Wasted 1 GPU-hours (20 %) Money 10.00 USD of it wasted 2.00 USD" in found
    assert "Last 30 days 10 GPU-hours Wasted 1 GPU-hours (10 %) Money 20.00 USD" in found
    assert "Not observed 0.5 GPU-hours more Filled in later 5 of them, from Prometheus" in found
    assert "E effective 4 0 9 0 M idle, memory held 1 1 1 1" in found
    assert "highest day 5.5 GPU-hours" in found


def test_an_hour_has_the_price_of_its_time(browser: Client) -> None:
    of_lab = polled(seen=snapshot(node(), of("train-0")))
    row = workload(of_lab)
    spent(row, OTHER_DAY, State.EFFECTIVE, hours=1.0)
    spent(row, OTHER_DAY + timedelta(hours=1), State.EFFECTIVE, hours=1.0)
    change = OTHER_DAY + timedelta(hours=1)
    Price.objects.create(pattern="*", per_gpu_hour=Decimal(2), valid_to=change)
    Price.objects.create(pattern="*", per_gpu_hour=Decimal(5), currency="EUR", valid_from=change)

    assert "Money 5.00 EUR 2.00 USD" in text(browser)


def test_time_of_a_model_without_a_price_is_not_free(browser: Client) -> None:
    of_lab = polled(seen=snapshot(node(), of("train-0")))
    row = workload(of_lab)
    spent(row, ago(hours=2), State.EFFECTIVE, hours=4.0)

    assert "Money no price known" in text(browser)

    spent(row, ago(hours=3), State.EFFECTIVE, hours=1.0, model="NVIDIA H100 80GB HBM3")
    Price.objects.create(pattern="*h100*", per_gpu_hour=Decimal(3))

    assert "Money 3.00 USD of it wasted 0.00 USD without 4 GPU-hours of models without a price" in text(
        browser
    )


def test_each_day_is_a_bar_with_its_numbers(browser: Client) -> None:
    of_lab = polled(seen=snapshot(node(), of("train-0")))
    row = workload(of_lab)
    spent(row, OTHER_DAY, State.EFFECTIVE, hours=3.0)
    spent(row, OTHER_DAY, State.IDLE_EMPTY, hours=1.0, wasted=1.0)

    page = browser.get(URL).content.decode()
    bars = re.findall(r"<g>(.*?)</g>", page, re.DOTALL)

    assert len(bars) == 30
    full = next(bar for bar in bars if "2026-05-20" in bar)
    assert "4 GPU-hours, 1 wasted" in full
    heights = dict(re.findall(r'fill-(\w+)"\s+x="[^"]*"\s+y="[^"]*"\s+width="17"\s+height="([^"]*)"', full))
    assert {state: float(height) for state, height in heights.items()} == {"effective": 75, "idle_empty": 25}
    assert "2026-06-01: 0 GPU-hours" in bars[-1]


def test_holds_stand_newest_first_with_what_they_held(browser: Client) -> None:
    of_lab = polled(seen=snapshot(node(), of("train-0"), gpu(0)))
    row = workload(of_lab)
    held(row, "train-0", started_at=ago(hours=2), slots=["00000000:10:00.0", "nvidia.com/gpu#?"])
    held(row, "train-old", started_at=ago(hours=9), ended_at=ago(hours=4), is_backfilled=True)

    page = browser.get(URL).content.decode()
    found = flat(page)

    assert "train-0 gpu-1 GPU 0 , nvidia.com/gpu#?" in found
    assert found.index("train-old gpu-1") > found.index("holds 2 h")
    assert "filled in" in found
    assert re.search(r"UTC 5 h\b", found)


def test_only_the_newest_holds_are_listed(browser: Client) -> None:
    of_lab = polled(seen=snapshot(node(), of("train-0")))
    row = workload(of_lab)
    for number in range(45):
        held(row, f"old-{number:02}", started_at=ago(hours=number + 2), ended_at=ago(hours=number + 1))

    found = text(browser)

    assert "The newest 40; there are more" in found
    assert "old-39" in found
    assert "old-40" not in found


def test_events_are_those_of_itself_its_pods_and_what_made_them(browser: Client) -> None:
    of_lab = cluster()
    seen = [
        event("Mine", name="train-7f-abc"),
        event("Made", kind="ReplicaSet", name="train-7f"),
        event("Root", kind="Deployment", name="train"),
        event("Neighbour", name="train-other-0"),
        event("Namesake", namespace="web", name="train-7f-abc"),
        event("Long ago", name="train-7f-abc", last_at=ago(hours=7)),
    ]
    event_hours.keep(of_lab, event_hours.changed_hours(of_lab, seen, NOW))
    deployment = owner("Deployment", "train")
    polled(of=of_lab, seen=snapshot(node(), pod("train-7f-abc", root=deployment)))

    found = text(browser, "/c/lab/workloads/Deployment/research/train/")

    for reason in ("Mine Pod", "Made ReplicaSet", "Root Deployment"):
        assert reason in found
    for reason in ("Neighbour", "Namesake", "Long ago"):
        assert reason not in found


def test_one_that_is_gone_has_a_page_with_its_history(browser: Client) -> None:
    of_lab = polled(seen=snapshot(node()))
    row = workload(of_lab, last_seen=ago(days=2))
    spent(row, ago(days=2), State.EFFECTIVE, hours=4.0)
    held(row, "train-0", started_at=ago(days=3), ended_at=ago(days=2))

    found = text(browser)

    assert "Not seen since 2026-05-30 12:00:00 UTC" in found
    assert "Last 7 days 4 GPU-hours" in found
    assert "train-0" in found
    assert "What it is" not in found


def test_one_that_could_not_be_read_is_not_called_gone(browser: Client) -> None:
    of_lab = polled(seen=snapshot(node(), without=[Source.PODS]))
    workload(of_lab, last_seen=ago(minutes=5))

    found = text(browser)

    assert "Not evaluated. Pods were read only in part (absent)" in found
    assert "Its pods were last seen at 2026-06-01 11:55:00 UTC" in found
    assert "Not seen since" not in found


def test_one_that_was_never_seen_has_no_page(browser: Client) -> None:
    polled(seen=snapshot(node(), of("train-0")))

    assert browser.get("/c/lab/workloads/Job/research/other/").status_code == 404


def test_before_the_first_poll_nothing_is_known(browser: Client) -> None:
    cluster()

    assert "No poll of this cluster has brought anything yet." in text(browser)


def test_a_bare_pod_is_its_own_workload(browser: Client) -> None:
    polled(seen=snapshot(node(), pod("alone"), gpu(0, holders=("research/alone",))))

    found = text(browser, "/c/lab/workloads/Pod/research/alone/")

    assert "1 GPU held" in found
    assert "pods that work alone" in found


@pytest.mark.parametrize("name", ["a/b", "..", "50%", "a b?c#d", "%2F", "<b>", "x" * 253])
def test_an_address_holds_whatever_the_name_is(browser: Client, name: str) -> None:
    root = owner("Job", name)
    polled(seen=snapshot(node(), pod("p", root=root)))

    url = reverse("workload_detail", args=["lab", "Job", "research", name])
    response = browser.get(url)

    assert response.status_code == 200
    assert not {"..", "."} & set(url.split("/"))


@pytest.fixture
def busy(browser: Client) -> Cluster:
    """One with a bit of everything."""
    of_lab = cluster()
    event_hours.keep(of_lab, event_hours.changed_hours(of_lab, [event("Mine")], NOW))
    row = workload(of_lab)
    spent(row, ago(hours=2), State.EFFECTIVE, hours=4.0)
    held(row, "train-0", started_at=ago(hours=2))
    Price.objects.create(pattern="*", per_gpu_hour=Decimal(2))
    return of_lab


@pytest.mark.parametrize("number", [1, 60])
def test_the_page_costs_twelve_queries_however_much_there_is(
    browser: Client, busy: Cluster, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    pods = [of(f"train-{i}", conditions=(Condition("Ready", "True"),)) for i in range(number)]
    gpus = [gpu(i, holders=(f"research/train-{i}",)) for i in range(number)]
    polled(
        *(finding("GPU101", subject=Subject("GPU", one.slot)) for one in gpus),
        of=busy,
        seen=snapshot(node(), *pods, *gpus),
    )

    with django_assert_num_queries(12):
        browser.get(URL)


def held_now() -> None:
    polled(
        of=Cluster.objects.first(),
        seen=snapshot(node(), of("train-0"), gpu(0, holders=("research/train-0",))),
    )


def test_plots_are_fetched_when_they_are_scrolled_to(browser: Client) -> None:
    held_now()

    page = browser.get(URL).content.decode()
    part = browser.get(f"{URL}?only=plots", headers=HTMX).content.decode()

    assert re.search(r'id="plots"[^>]*hx-get="\?only=plots"[^>]*hx-trigger="revealed"', page)
    assert "Over time" in part
    assert "<html" not in part
    assert "workload-state" not in part
    assert 'aria-label="Period of the plots"' in part


def test_plots_can_be_read_without_scripts(browser: Client) -> None:
    held_now()

    page = browser.get(f"{URL}?period=7d").content.decode()

    assert 'aria-label="Period of the plots"' in page
    assert "Who held which GPUs, and events" in page


@pytest.mark.parametrize("query", ["?period=7d", "?only=plots"])
def test_plots_cost_no_more_queries_than_the_page(
    browser: Client,
    busy: Cluster,
    django_assert_max_num_queries: DjangoAssertNumQueries,
    query: str,
) -> None:
    held_now()

    with django_assert_max_num_queries(12):
        browser.get(URL + query)


def test_there_is_nothing_to_plot_of_what_holds_nothing(browser: Client) -> None:
    polled(seen=snapshot(node(), pending_pod("train-0", root=TRAIN)))

    assert 'id="plots"' not in browser.get(URL).content.decode()


def test_of_a_job_on_many_nodes_the_rest_is_on_the_map(browser: Client) -> None:
    names = [f"n{i:02}" for i in range(42)]
    polled(
        seen=snapshot(
            *(node(name) for name in names),
            *(of(f"train-{name}", node=name) for name in names),
            *(gpu(0, name, holders=(f"research/train-{name}",)) for name in names),
        )
    )

    page = browser.get(URL).content.decode()

    assert "and on 2 more nodes: all of them on the map" in flat(page)
    assert 'href="/c/lab/map/?workload=Job%2Fresearch%2Ftrain"' in page
