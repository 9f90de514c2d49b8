"""What the page of a workload says its pods demand of a node."""

from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape

from diagnostics.snapshot import Toleration
from diagnostics.text import printable
from tests.builders import node, pending_pod, snapshot
from tests.pages.stored import polled
from tests.pages.test_workload_detail import TRAIN, URL, of, text

pytestmark = pytest.mark.django_db


def test_what_its_pods_demand_of_a_node_is_shown(browser: Client) -> None:
    demands: dict[str, Any] = {
        "node_selector": {"pool": "gold"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]
                }
            }
        },
        "tolerations": (Toleration("team", value="x", effect="NoSchedule"),),
    }
    polled(
        seen=snapshot(
            node(), of("train-0", **demands), pending_pod("train-1", root=TRAIN, **demands), of("train-2")
        )
    )

    found = text(browser)

    assert "2 pods Node selector pool=gold Node affinity rack Exists Tolerates team=x:NoSchedule" in found
    assert "1 pod Node selector none Node affinity none Tolerates no taint" in found
    assert "none of 1 node admits it" in found


def test_pods_that_demand_the_same_are_not_counted(browser: Client) -> None:
    polled(seen=snapshot(node(), of("train-0"), of("train-1")))

    assert "Where its pods may run Node selector none" in text(browser)


def test_demands_of_many_kinds_are_told_in_part(browser: Client) -> None:
    polled(seen=snapshot(node(), *(of(f"train-{i}", node_selector={"n": str(i)}) for i in range(5))))

    assert "2 more pods with demands of yet another kind" in text(browser)


@pytest.mark.parametrize("name", ["<b>bold</b>", "a\u202eb", "{{ x }}", "%s"])
def test_demands_are_shown_as_text(browser: Client, name: str) -> None:
    polled(seen=snapshot(node(), of("train-0", node_selector={"pool": name})))

    page = browser.get(URL).content.decode()

    assert f"pool={escape(printable(name))}" in page
    assert "<b>bold" not in page
    assert "\u202e" not in page


def test_a_workload_whose_pods_have_finished_demands_nothing(browser: Client) -> None:
    polled(seen=snapshot(node(), of("train-0", phase="Succeeded")))

    assert "Where its pods may run" not in text(browser)
