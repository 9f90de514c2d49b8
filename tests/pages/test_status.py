"""What was asked, what cannot be seen, and how the polls went."""

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries, Settings

from diagnostics.clusters import DeclaredCluster
from diagnostics.models import Backfill, Cluster
from diagnostics.models.observation import STAGES
from diagnostics.rules import catalogue
from diagnostics.snapshot import Source
from diagnostics.views.sparkline import sparkline
from tests.builders import NOW, ago
from tests.pages.stored import cluster, observation, polled
from tests.pages.test_findings import flat

pytestmark = pytest.mark.django_db

PAGE = "/c/lab/status/"


def text(browser: Client) -> str:
    return browser.get(PAGE).content.decode()


def span(of: Cluster, hours_ago: int, hours: int = 1, done: float = 0.0, **fields: Any) -> Backfill:
    """A span of `hours` that began `hours_ago`, of which the newest part `done` is filled."""
    start = ago(hours=hours_ago)
    end = start + timedelta(hours=hours)
    return Backfill.objects.create(
        cluster=of, start=start, end=end, done_from=end - done * timedelta(hours=hours), **fields
    )


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

    title = catalogue()[0].title.split("`")[0]
    assert f"failed {title}" in html.unescape(flat(page))
    assert "KeyError: &#x27;x&#x27;" in page
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


def test_each_stage_is_explained_where_it_stands(browser: Client) -> None:
    polled(stages_ms=dict.fromkeys((*STAGES, "divine"), 1.0))

    words = flat(text(browser)).split("What each stage does")[1]

    for stage, what in STAGES.items():
        assert f"{stage} {what}" in words
    assert "divine of another version" in words


def test_a_cluster_that_was_never_polled_is_not_evaluated(browser: Client) -> None:
    cluster()

    words = flat(text(browser))

    assert "Nothing asked yet. A poll runs every 1 min." in words
    assert words.count("not evaluated") == 1
    assert "No blind spot is known" not in words
    assert "Back-filling" not in words
    assert "No poll has ended yet." in words


def test_an_identity_that_was_made_up_says_so(browser: Client) -> None:
    polled(of=cluster(identity="generated:1"))

    assert "made up, because the kube-system namespace was not read" in text(browser)


@pytest.mark.parametrize("number", [1, 30])
def test_it_costs_eight_queries_however_many_polls(
    browser: Client, django_assert_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    of = polled()
    cluster("prod")
    for minute in range(1, number):
        observation(of, NOW - timedelta(minutes=minute))
        span(of, minute)

    with django_assert_num_queries(8):
        text(browser)


def test_only_the_last_polls_are_shown(browser: Client) -> None:
    of = polled()
    for minute in range(1, 30):
        observation(of, NOW - timedelta(minutes=minute))

    assert Cluster.objects.get().observations.count() == 30
    assert text(browser).count("40 ms") == 20


def test_a_source_that_does_not_answer_comes_with_its_cure(browser: Client, settings: Settings) -> None:
    settings.CLUSTERS = {"lab": DeclaredCluster(kubeconfig="/etc/kube", context="prod")}
    sources = [
        {"name": "pods", "status": "forbidden", "detail": "pods is forbidden", "items": None, "seconds": 0.1},
        {"name": "from-tomorrow", "status": "unheard-of", "detail": "", "items": None, "seconds": None},
    ]
    polled(sources=sources)

    words = flat(text(browser))

    assert "kubectl auth can-i list pods --all-namespaces" in words
    assert "from-tomorrow unheard-of" in words


def test_a_rule_that_could_not_look_says_what_is_missed_and_where_the_cure_is(browser: Client) -> None:
    rule = next(r for r in catalogue() if Source.METRICS in r.needs)
    polled(
        sources=[{"name": "metrics", "status": "absent", "detail": "", "items": None, "seconds": None}],
        rules_skipped=[{"code": rule.code, "reason": "needs metrics absent"}],
    )

    page = text(browser)

    assert f"1 of {len(catalogue())} rules did not see everything." in flat(page)
    assert rule.title.split("`")[0] in html.unescape(flat(page))
    assert 'href="#source-metrics"' in page
    assert 'id="source-metrics"' in page


def test_back_filling_shows_how_far_it_is(browser: Client) -> None:
    of = polled()
    span(of, 30, hours=20, done=0.25, status="running")
    span(of, 5, hours=4, done=1.0, status="done")

    page = text(browser)

    assert "38 % of 1 d that nobody observed is back-filled ; 15 h to go." in flat(page)
    assert re.search(r'<progress[^>]*max="1000"[^>]*value="375"', page)
    assert "20 h 25 % running is being filled, the newest part first There from" in flat(page)
    assert page.count("is being filled") == 1


def test_a_span_that_was_given_up_says_why(browser: Client) -> None:
    span(polled(), 5, status="failed", detail="Prometheus <b>refused</b> (30 attempts)")

    page = text(browser)

    assert "failed given up" in flat(page)
    assert "Prometheus &lt;b&gt;refused&lt;/b&gt; (30 attempts)" in page
    assert "1 h wait." in flat(page)


def test_what_cannot_be_filled_is_not_waited_for(browser: Client) -> None:
    of = polled()
    span(of, 5, status="impossible")
    span(of, 3, done=1.0, status="done")

    words = flat(text(browser))

    assert "100 % of 1 h that nobody observed is back-filled ." in words
    assert "impossible cannot be filled: Prometheus holds nothing of that time" in words


def test_only_some_of_many_spans_are_listed(browser: Client) -> None:
    of = polled()
    for hours_ago in range(2, 20):
        span(of, hours_ago)

    words = flat(text(browser))

    assert words.count("waits for its turn") == 12
    assert "And 6 more." in words


def test_durations_of_polls_are_drawn_and_said(browser: Client) -> None:
    of = polled()
    observation(of, ago(minutes=1), finished_at=ago(minutes=1) + timedelta(seconds=8))
    observation(of, ago(minutes=2), status="failed", error="timed out")

    page = text(browser)

    assert page.count('class="spark-bar') == 3
    assert page.count("spark-bad") == 1
    assert "11:59 UTC: 8.0 s" in page
    assert "The last 3 polls" in flat(page).replace("How long the last", "The last")
    assert "mostly 2.0 s, at most 8.0 s; now one begins every 1 min. 1 failed" in flat(page)


@pytest.mark.parametrize(("seconds", "is_said"), [(7.0, True), (2.5, False)])
def test_the_newest_polls_are_told_apart_where_they_take_longer(
    browser: Client, seconds: float, is_said: bool
) -> None:
    of = cluster()
    for minutes in range(30, 0, -1):
        took = timedelta(seconds=seconds if minutes <= 8 else 2)
        observation(of, ago(minutes=minutes), finished_at=ago(minutes=minutes) + took)

    said = f"mostly 2.0 s, at most {seconds} s, but the last 8 mostly {seconds} s; now" in flat(text(browser))

    assert said == is_said


def test_other_clusters_stand_beside_this_one(browser: Client) -> None:
    polled()
    other = cluster("prod", name="<i>prod</i>")
    observation(other, ago(minutes=9), status="failed", error="refused")

    words = flat(text(browser))

    assert "&lt;i&gt;prod&lt;/i&gt; refused failed" in words
    assert "lab ok" in words


def test_a_single_cluster_is_not_listed(browser: Client) -> None:
    polled()

    assert "All clusters of this site" not in text(browser)


def test_what_is_kept_is_said_with_its_span(browser: Client) -> None:
    polled()

    assert "30 d One snapshot an hour" in flat(text(browser))


def test_a_chart_leaves_room_for_what_is_missing() -> None:
    chart = sparkline([4.0, None, 0.0], ["a", "b", "c"], [False, False, True])

    assert [bar.x for bar in chart.bars] == [0.0, 8.0]
    assert [bar.height for bar in chart.bars] == [40.0, 1.0]
    assert [bar.is_marked for bar in chart.bars] == [False, True]
    assert chart.width == 12.0
    assert sparkline([], [], []).bars == ()
