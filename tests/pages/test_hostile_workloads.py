"""Whatever a cluster calls its workloads, pods, queues and devices, their pages show it as text."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from diagnostics.archive import event_hours
from diagnostics.findings import Subject
from diagnostics.snapshot import OwnerKey, State
from diagnostics.storable import storable_text
from tests.builders import NOW, event, gang, gpu, node, pending_pod, pod, snapshot
from tests.pages.stored import cluster, finding, polled
from tests.pages.stored_history import held, spent, workload
from tests.pages.test_hostile_names import HOSTILE, assert_shows_as_text

pytestmark = pytest.mark.django_db


def pages(browser: Client, name: str) -> dict[str, str]:
    """The pages of a cluster in which everything about workloads is called `name`, by address."""
    root = OwnerKey(name, name, name, "v1", "uid")
    key = f"{name}/{name}"
    labels = {"kueue.x-k8s.io/queue-name": name, "team": name}
    of = cluster()
    seen = [event(name, name, kind=name, namespace=name, name=name, last_at=NOW - timedelta(minutes=1))]
    event_hours.keep(of, event_hours.changed_hours(of, seen, NOW))
    row = workload(of, *(storable_text(name, most) for most in (80, 253, 253)))
    spent(row, NOW - timedelta(hours=2), State.EFFECTIVE, hours=1.0, model=storable_text(name, 120))
    held(row, storable_text(name, 253), node=storable_text(name, 253), slots=[storable_text(name)])
    polled(
        finding(
            "GPU303",
            "pending-gpu-pod",
            subject=Subject(name, name, name),
            title=f"{name} waits",
            summary=name,
            cause=name[:80].replace("\x00", ""),
            pods=(key,),
        ),
        of=of,
        seen=snapshot(
            node(name, rack=name),
            pod(name, namespace=name, root=root, node=name, labels=labels),
            pending_pod(f"{name}2", name, namespace=name, root=root, labels=labels),
            gang(name, name, kind=name, members=(key,), system=name, collective=name, gang_scheduler=name),
            gpu(0, name, holders=(key,), state=State.FREE, resource=name),
        ),
        rules_skipped=[{"code": "GPU303", "reason": name}],
    )
    addresses = [
        reverse("workload_list", args=["lab"]),
        reverse("workload_detail", args=["lab", name, name, name]),
        reverse("pending_list", args=["lab"]),
    ]
    return {address: browser.get(address).content.decode() for address in addresses}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_every_page_shows_it_as_text(browser: Client, name: str) -> None:
    for page in pages(browser, name).values():
        assert_shows_as_text(page, name)


def test_a_template_in_a_name_is_not_run(browser: Client) -> None:
    for text in pages(browser, HOSTILE["template"]).values():
        assert "{{ 7|add:7 }}" in text


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_a_filter_may_ask_for_anything(browser: Client, name: str) -> None:
    polled(seen=snapshot(node(), pod()))

    for address in ("/c/lab/workloads/", "/c/lab/pending/"):
        query = dict.fromkeys(("q", "namespace", "team", "kind", "reason", "resource", "page"), name)
        assert browser.get(address, query).status_code == 200
    assert (
        browser.get("/c/lab/workloads/Pod/research/train-0/", {"page": name, "period": name}).status_code
        == 200
    )


def test_one_without_a_name_hides_no_other(browser: Client) -> None:
    polled(seen=snapshot(node(), pod("", namespace=""), pending_pod("", namespace=""), pod("train-0")))

    for address in ("/c/lab/workloads/", "/c/lab/pending/"):
        assert browser.get(address).status_code == 200
