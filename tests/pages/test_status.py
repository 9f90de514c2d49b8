"""What was asked, what cannot be seen, and how the polls went."""

from datetime import timedelta

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from diagnostics.models import Cluster
from diagnostics.rules import catalogue
from tests.builders import NOW, ago
from tests.pages.stored import cluster, observation, polled
from tests.pages.test_findings import flat

pytestmark = pytest.mark.django_db

PAGE = "/c/lab/status/"


def text(browser: Client) -> str:
    return browser.get(PAGE).content.decode()


def test_each_source_says_how_it_answered(browser: Client) -> None:
    sources = [
        {"name": "nodes", "status": "ok", "detail": "", "items": 1200, "seconds": 0.0123, "skipped": []},
        {
            "name": "pods",
            "status": "partial",
            "detail": "2 objects left out",
            "items": 96,
            "seconds": 12.34,
            "skipped": [{"reason": "spec.containers is no list", "count": 2, "example": "team/broken"}],
        },
        {"name": "window", "status": "absent", "detail": "no Prometheus", "items": None, "seconds": None},
    ]
    polled(sources=sources)

    words = flat(text(browser))

    assert "nodes ok 1,200 12 ms" in words
    assert "2 left out: spec.containers is no list, for example team/broken" in words
    assert "96 12.3 s" in words
    assert "window absent no Prometheus nothing read not measured" in words


def test_a_blind_spot_comes_with_the_line_that_cures_it(browser: Client) -> None:
    polled(
        coverage=[
            {"code": "GPU999", "what": "No metrics of 2 nodes.", "cure": "kubectl get pods -n gpu-operator"}
        ]
    )

    assert "GPU999 No metrics of 2 nodes. kubectl get pods -n gpu-operator" in flat(text(browser))


def test_rules_that_did_not_see_everything_say_why(browser: Client) -> None:
    code = catalogue()[0].code
    polled(
        rules_failed=[{"code": code, "error": "KeyError: 'x'"}],
        rules_skipped=[{"code": "GPU998", "reason": "needs window"}],
        rules_partial=[{"code": "GPU997", "reason": "pods were read in part"}],
    )

    page = text(browser)

    assert "failed KeyError: &#x27;x&#x27;" in flat(page)
    assert f'href="/rules/{code}/"' in page
    assert "GPU998 could not look needs window" in flat(page)
    assert "GPU997 looked at part pods were read in part" in flat(page)


def test_nothing_missing_is_said_too(browser: Client) -> None:
    polled()

    words = flat(text(browser))

    assert "No blind spot is known." in words
    assert f"All {len(catalogue())} rules looked at complete data." in words


def test_polls_show_what_each_stage_took(browser: Client) -> None:
    of = polled(critical=1, warning=2)
    observation(
        of,
        ago(minutes=1),
        status="failed",
        error="timed out",
        stages_ms={"collect": 20000.0},
        nodes=None,
        pods=None,
        gpus=None,
    )

    words = flat(text(browser))

    assert "2026-06-01 12:00:00 UTC ok 2.0 s 1.5 s 320 ms 40 ms 12 96 96 3" in words
    assert (
        "failed timed out 2.0 s 20.0 s not measured not measured not read not read not read not judged"
        in words
    )


def test_a_cluster_that_was_never_polled_is_not_evaluated(browser: Client) -> None:
    cluster()

    words = flat(text(browser))

    assert "Nothing asked yet. A poll runs every 1 min." in words
    assert words.count("not evaluated") == 2
    assert "No poll has ended yet." in words


def test_an_identity_that_was_made_up_says_so(browser: Client) -> None:
    polled(of=cluster(identity="generated:1"))

    assert "made up, because the kube-system namespace was not read" in text(browser)


@pytest.mark.parametrize("number", [1, 30])
def test_it_costs_five_queries_however_many_polls(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    of = polled()
    for minute in range(1, number):
        observation(of, NOW - timedelta(minutes=minute))

    with django_assert_num_queries(5):
        text(browser)


def test_only_the_last_polls_are_shown(browser: Client) -> None:
    of = polled()
    for minute in range(1, 30):
        observation(of, NOW - timedelta(minutes=minute))

    assert Cluster.objects.get().observations.count() == 30
    assert text(browser).count("40 ms") == 20
