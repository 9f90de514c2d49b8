"""A finding's subject as it was when its incident opened."""

import re
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.findings import Subject
from diagnostics.models import Cluster, Excerpt, IncidentEvent
from diagnostics.snapshot import Condition, Container, Event, LogSignal, Metrics, Taint
from tests.builders import ago, gpu, node, pod, snapshot
from tests.pages.conftest import HTMX
from tests.pages.stored import finding, polled
from tests.pages.test_findings import LIST, detail, flat
from tests.pages.test_hostile_names import HIDDEN, HOSTILE, Read

pytestmark = pytest.mark.django_db

FINDING = finding()


@pytest.fixture
def of() -> Cluster:
    """Open since two minutes ago; the node has been re-labelled since."""
    sick = node(
        labels={"nvidia.com/cuda.driver-version.full": "550.54.15"},
        conditions=(
            Condition("Ready", "False", "KubeletDown", ""),
            Condition("DiskPressure", "False", "", ""),
        ),
        taints=(Taint("nvidia.com/gpu-driver-upgrade", "NoSchedule", ""),),
    )
    then = snapshot(
        sick,
        gpu(0, metrics=Metrics(utilization_ratio=0.0, xid=79), holders=("research/train-0",)),
        gpu(1),
        pod("train-0", node="gpu-1", containers=(Container(name="main", waiting_reason="CrashLoopBackOff"),)),
        Event(namespace="default", kind="Node", name="gpu-1", type="Warning", reason="NodeNotReady",
              message="Node gpu-1 status is now: NodeNotReady", last_at=ago(minutes=3)),
        signals=(
            LogSignal(namespace="research", pod="train-0", container="main", signal="nccl-timeout",
                      line="NCCL WARN"),
        ),
        taken_at=ago(minutes=2),
    )  # fmt: skip
    of = polled(FINDING, at=ago(minutes=2), seen=then)
    return polled(FINDING, of=of, at=ago(minutes=1), seen=snapshot(node(), taken_at=ago(minutes=1)))


def link(browser: Client) -> str:
    found = re.search(r'href="([^"]*/then/[^"]*)"', detail(browser, FINDING))
    assert found
    return found[1]


def test_the_timeline_leads_to_what_was_seen_when_it_opened(browser: Client, of: Cluster) -> None:
    text = flat(browser.get(link(browser)).content.decode())

    assert "As it was at 2026-06-01 11:58:00 UTC , when it was opened" in text
    assert "gpu-1 no" in text
    assert "550.54.15 taint nvidia.com/gpu-driver-upgrade:NoSchedule Ready is False: KubeletDown GPUs" in text
    assert "research/train-0 0 % not collected not collected not collected 79" in text
    assert "main: CrashLoopBackOff" in text
    assert "NodeNotReady Warning Node gpu-1 status is now: NodeNotReady 1" in text
    assert "nccl-timeout NCCL WARN" in text


def test_it_has_the_title_of_then(browser: Client, of: Cluster) -> None:
    polled(finding(title="All is lost"), of=of, seen=snapshot(node()))

    text = browser.get(link(browser)).content.decode()

    assert FINDING.title in text
    assert "All is lost" not in text


def test_it_is_the_same_page_for_htmx_and_leads_back(browser: Client, of: Cluster) -> None:
    text = browser.get(link(browser), headers=HTMX).content.decode()

    assert text.lstrip().startswith("<!DOCTYPE html>")
    incident = IncidentEvent.objects.latest("pk").incident_id
    assert f'href="{LIST}{FINDING.id}/?incident={incident}"' in text


def test_a_moment_of_which_nothing_is_kept_has_no_link_and_no_page(browser: Client, of: Cluster) -> None:
    address = link(browser)
    Excerpt.objects.all().delete()

    assert "/then/" not in detail(browser, FINDING)
    assert browser.get(address).status_code == 404


@pytest.mark.parametrize("event", ["", "0", "x", "9" * 40])
def test_an_unknown_moment_is_not_found(browser: Client, of: Cluster, event: str) -> None:
    assert browser.get(f"{LIST}{FINDING.id}/then/?event={event}").status_code == 404


def test_a_moment_of_another_finding_is_out_of_reach(browser: Client, of: Cluster) -> None:
    other = finding(subject=Subject(kind="Node", name="gpu-9"))

    assert browser.get(link(browser).replace(FINDING.id, other.id)).status_code == 404


def test_what_cannot_be_read_is_said(browser: Client, of: Cluster) -> None:
    address = link(browser)
    Excerpt.objects.update(data=b"broken")

    assert "What was kept cannot be read." in browser.get(address).content.decode()


def test_what_was_left_out_is_said(browser: Client, of: Cluster) -> None:
    address = link(browser)
    Excerpt.objects.update(is_cut=True)

    assert "Something was left out" in browser.get(address).content.decode()


def test_an_excerpt_costs_six_queries(
    browser: Client, of: Cluster, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    address = link(browser)

    with django_assert_num_queries(6):
        browser.get(address)


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_are_text(browser: Client, name: str) -> None:
    about = finding(subject=Subject(kind="Pod", namespace=name, name=name))
    fields: dict[str, Any] = {"namespace": name, "reason": name, "message": name}
    then = snapshot(
        pod(name, node="gpu-1", phase=name, root=None, **fields),
        node(conditions=(Condition(name, "True", name, name),), taints=(Taint(name, name, name),)),
        gpu(0, holders=(name,)),
        Event(kind="Pod", name=name, type=name, last_at=ago(minutes=1), **fields),
        signals=(LogSignal(namespace=name, pod=name, container=name, signal=name, line=name),),
    )
    polled(about, seen=then)
    event = IncidentEvent.objects.get()

    response = browser.get(f"{LIST}{about.id}/then/?event={event.pk}")

    assert response.status_code == 200
    read = Read(response.content.decode())
    assert not HIDDEN.search("".join(read.seen))
    for tag, attributes in read.elements:
        assert tag not in {"img", "b", "iframe", "style"}
        assert not [attribute for attribute in attributes if attribute.startswith("on")]
        assert attributes.get("href", "/").startswith(("/", "#", "?"))


def test_a_page_of_the_past_wants_a_signed_in_user(client: Client, of: Cluster) -> None:
    assert client.get(f"{LIST}{FINDING.id}/then/?event=1")["Location"].startswith("/login/")
