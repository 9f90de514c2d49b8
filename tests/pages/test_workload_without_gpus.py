"""The page of a workload that holds and asks for no GPU, which only findings name."""

import re
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from diagnostics.archive import event_hours
from diagnostics.findings import Finding, Severity, Subject
from diagnostics.models import Cluster, Incident
from diagnostics.snapshot import Source
from tests.builders import NOW, ago, event, gang, node, owner, pod, snapshot
from tests.pages.conftest import HTMX
from tests.pages.stored import cluster, finding, polled
from tests.pages.test_findings import detail, flat
from tests.pages.test_hostile_names import assert_shows_as_text, hostile_name
from tests.rules.stack.failing_cuda import found, looping

pytestmark = pytest.mark.django_db

URL = "/c/lab/workloads/Deployment/vision/ocr-batch/"
OCR = owner("Deployment", "ocr-batch", "vision")
CRASHING = pod(
    "ocr-batch-7f-abc",
    namespace="vision",
    root=OCR,
    gpus=0,
    containers=(looping("RuntimeError: Found no NVIDIA driver on your system.", gpus=0),),
)
ABOUT = Subject("Deployment", "ocr-batch", "vision")


def nobody_asked() -> Finding:
    """What GPU206 says of a container that uses CUDA and asks for no GPU."""
    (one,) = found("no-gpu-in-container", CRASHING, node())
    return one


def test_it_opens_and_says_that_it_asks_for_none(browser: Client) -> None:
    polled(nobody_asked(), seen=snapshot(node(), CRASHING))

    answer = browser.get(URL)
    text = flat(answer.content.decode())

    assert answer.status_code == 200
    assert "Asks for no GPU with any pod that the last poll saw" in text
    assert "critical Deployment vision/ocr-batch: it looks for a GPU and has none" in text
    assert "Not seen since" not in text


def test_it_invents_no_figures(browser: Client) -> None:
    polled(nobody_asked(), seen=snapshot(node(), CRASHING))

    page = browser.get(URL).content.decode()

    assert not re.search(r"\d+ GPUs? held|\d+ asked for|Last 7 days|\d+ (GPU-hours|%|wanted)", flat(page))
    assert "none recorded" in flat(page)
    assert 'id="plots"' not in page


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_every_link_of_its_finding_to_a_workload_leads_to_a_page(browser: Client, kind: str) -> None:
    about = nobody_asked()
    if kind != "Deployment":
        about = finding("GPU206", subject=Subject(kind, "ocr/b%tch", "vision"), pods=("vision/ocr-0",))
    polled(about, seen=snapshot(node(), CRASHING))

    links = re.findall(r'href="(/c/lab/workloads/[^"?]+)"', detail(browser, about))

    assert len(links) == 3
    assert {browser.get(unescape(link)).status_code for link in links} == {200}


def test_findings_that_are_over_stand_on_it(browser: Client) -> None:
    of_lab = polled(nobody_asked(), seen=snapshot(node(), CRASHING))
    Incident.objects.update(status="resolved", resolved_at=ago(hours=1), resolution="its pods are gone")

    text = flat(browser.get(URL).content.decode())

    assert "No open finding names it" in text
    assert "1 resolved critical Resolved, was: Deployment vision/ocr-batch" in text

    polled(
        finding("GPU210", subject=ABOUT, title="It sees all GPUs"), of=of_lab, at=NOW + timedelta(minutes=1)
    )
    text = flat(browser.get(URL).content.decode())
    assert "warning It sees all GPUs" in text
    assert "1 resolved" in text


def test_events_of_the_pods_that_its_findings_name_stand_on_it(browser: Client) -> None:
    of_lab = cluster()
    seen = [
        event("BackOff", namespace="vision", name="ocr-batch-7f-abc"),
        event("Preempted", namespace="vision", name="victim-0"),
    ]
    event_hours.keep(of_lab, event_hours.changed_hours(of_lab, seen, NOW))
    about = finding("GPU206", subject=ABOUT, pods=("vision/ocr-batch-7f-abc", "vision/victim-0"))
    polled(about, of=of_lab, seen=snapshot(node(), CRASHING))

    text = flat(browser.get(URL).content.decode())

    assert "BackOff Pod ocr-batch-7f-abc" in text
    assert "Preempted" not in text


def test_where_pods_were_not_read_it_claims_nothing(browser: Client) -> None:
    polled(nobody_asked(), seen=snapshot(node(), without=[Source.PODS]))

    text = flat(browser.get(URL).content.decode())

    assert "Not evaluated. Pods were read only in part" in text
    assert "Asks for no GPU" not in text
    assert "last seen at" not in text


@pytest.mark.parametrize("number", [2, 20, 21])
def test_a_group_of_pods_leads_to_those(browser: Client, number: int) -> None:
    about = finding("GPU302", slug="partial-gang", subject=Subject("PodGroup", "llama", "research"))
    names = [f"rank-{i:02}" for i in range(number)]
    members = tuple(f"research/{name}" for name in names)
    group = gang("llama", "research", kind="PodGroup", members=members, size=number)
    polled(about, seen=snapshot(node(), *(pod(name) for name in names), group))

    page = browser.get("/c/lab/workloads/PodGroup/research/llama/").content.decode()

    assert "A group of pods." in page
    assert "Asks for no GPU" not in page
    assert re.findall(r'href="/c/lab/workloads/Pod/research/([^/]*)/"', page) == names[:20]
    assert ("and others" in page) == (number > 20)


@pytest.mark.parametrize(
    "path",
    [
        "Deployment/vision/other",
        "Deployment/research/ocr-batch",
        "StatefulSet/vision/ocr-batch",
        "Pod/vision/ocr-batch-7f-abc",
    ],
)
@pytest.mark.parametrize("query", ["", "?only=plots"])
def test_one_that_no_finding_names_has_no_page(browser: Client, path: str, query: str) -> None:
    polled(nobody_asked(), seen=snapshot(node(), CRASHING))

    headers = HTMX if query else {}
    assert browser.get(f"/c/lab/workloads/{path}/{query}", headers=headers).status_code == 404


def test_one_whose_finding_has_not_opened_yet_has_no_page(browser: Client) -> None:
    polled(nobody_asked(), seen=snapshot(node(), CRASHING))
    Incident.objects.update(status=Incident.Status.PENDING, opened_at=None)

    assert browser.get(URL).status_code == 404


def test_a_finding_of_another_cluster_makes_no_page(browser: Client) -> None:
    polled(nobody_asked(), seen=snapshot(node(), CRASHING))
    polled(of=cluster("other"), seen=snapshot(node()))

    assert browser.get("/c/other/workloads/Deployment/vision/ocr-batch/").status_code == 404


@pytest.mark.parametrize("query", ["", "?period=7d", "?only=plots"])
def test_parts_of_it_are_there_too(browser: Client, query: str) -> None:
    polled(nobody_asked(), seen=snapshot(node(), CRASHING))

    assert browser.get(URL + query, headers=HTMX).status_code == 200


@hostile_name
def test_whatever_it_is_called_its_page_opens_and_shows_it_as_text(browser: Client, name: str) -> None:
    about = finding(
        "GPU206", subject=Subject(name, name, name), title=name, summary=name, pods=(f"{name}/{name}",)
    )
    polled(about, seen=snapshot(node()))

    answer = browser.get(reverse("workload_detail", args=["lab", name, name, name]))
    page = answer.content.decode()

    assert answer.status_code == 200
    assert "Asks for no GPU" in page
    assert_shows_as_text(page, name)


@pytest.mark.parametrize("number", [1, 60])
def test_it_costs_no_more_than_twelve_queries(
    browser: Client, django_assert_max_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    of_lab: Cluster = polled(nobody_asked(), seen=snapshot(node(), CRASHING))
    others = [finding(f"GPU4{i:02}", subject=ABOUT, severity=Severity.INFO) for i in range(number)]
    polled(*others, of=of_lab, at=NOW + timedelta(minutes=1), seen=snapshot(node(), CRASHING))

    with django_assert_max_num_queries(12):
        assert browser.get(URL).status_code == 200
